// SPDX-License-Identifier: Apache-2.0
// Number formats (spyre/data_type.hpp), and which format of the card belongs to which of the host.
#pragma once

#include <spyre/data_type.hpp>

#include "host_driver/base/error.hpp"
#include "shared/units.hpp"

namespace svp {

using spyre::DataType;
using spyre::DeviceType;
using spyre::elements_per_stick;
using spyre::item_bytes;
using spyre::name;

static_assert(spyre::kBytesPerStick == wire::kStickBytes);

// The format in which the card keeps a host type by default. Float64 is refused: no device format can hold it.
Expected<DeviceType> default_device_type(DataType type);

}  // namespace svp
