// SPDX-License-Identifier: Apache-2.0
// How a tensor lies in memory: types of the API (spyre/tensor_layout.hpp) that the driver works with.
#pragma once

#include <spyre/tensor_layout.hpp>

#include "host_driver/tensor/data_type.hpp"

namespace svp {

using spyre::ConstHostTensor;
using spyre::HostShape;
using spyre::HostTensor;
using spyre::SpyreTensorLayout;

}  // namespace svp
