// SPDX-License-Identifier: Apache-2.0
// Number formats: what the host holds, what the card computes with, and which belongs to which.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "shared/units.hpp"

namespace svp {

// Formats of host memory.
enum class DataType : std::uint8_t {
  Float16,
  BFloat16,
  Float32,
  Float64,
  Float8E4m3fn,
  Float8E5m2,
  Int8,
  Uint8,
  Int16,
  Int32,
  Int64,
  Bool,
};

// Formats of device memory.
enum class DeviceType : std::uint8_t {
  Dl16,     // SEN169_FP16: 1 sign, 6 exponent, 9 fraction bits (shared/dl16.hpp)
  Fp32,     // IEEE_FP32
  Int32,    // IEEE_INT32
  Int16,    // SENINT16
  Int8,     // SENINT8
  Uint32,   // SENUINT32
  Fp8E4m3,  // SEN143_FP8
  Fp8E5m2,  // SEN152_FP8
};

std::string_view name(DataType type);
std::string_view name(DeviceType type);

// Bytes of one element.
std::size_t item_bytes(DataType type);
std::size_t item_bytes(DeviceType type);

// Elements in one stick of 128 bytes.
inline std::int64_t elements_per_stick(DeviceType type) {
  return static_cast<std::int64_t>(wire::kStickBytes / item_bytes(type));
}

// The format in which the card keeps a host type by default. Float64 is refused: no device format can hold it.
Expected<DeviceType> default_device_type(DataType type);

}  // namespace svp
