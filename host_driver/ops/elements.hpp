// SPDX-License-Identifier: Apache-2.0
// Elements of tensors as the card's bytes, one by one: for tests and for `spyre run --verify`.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "host_driver/ops/program_writer.hpp"
#include "host_driver/ops/reference.hpp"

namespace svp::ops {

// DL16, FP32, INT32.
double rounded_to(DeviceType type, double value);

// The card's bytes of a tensor with these elements of its view; every other lane is NaN (INT32: -1).
std::vector<std::byte> device_bytes(const TensorForm& form, const Array& elements);
Array elements_of(const TensorForm& form, std::span<const std::byte> bytes);

}  // namespace svp::ops
