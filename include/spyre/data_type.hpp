// SPDX-License-Identifier: Apache-2.0
// Number formats: what the host holds, and what the card computes with. The values of the enumerations are numbers of
// the C interface (spyre.h): they never change meaning.
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace spyre::inline v0 {

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
  Dl16,     // SEN169_FP16: 1 sign, 6 exponent, 9 fraction bits
  Fp32,     // IEEE_FP32
  Int32,    // IEEE_INT32
  Int16,    // SENINT16
  Int8,     // SENINT8
  Uint32,   // SENUINT32
  Fp8E4m3,  // SEN143_FP8
  Fp8E5m2,  // SEN152_FP8
};

SPYRE_API std::string_view name(DataType type);    // "float16"
SPYRE_API std::string_view name(DeviceType type);  // "SEN169_FP16"

// Bytes of one element.
SPYRE_API std::size_t item_bytes(DataType type);
SPYRE_API std::size_t item_bytes(DeviceType type);

// The unit of device memory: what the card moves and computes with at once.
inline constexpr std::size_t kBytesPerStick = 128;

// Elements in one stick.
inline std::int64_t elements_per_stick(DeviceType type) {
  return static_cast<std::int64_t>(kBytesPerStick / item_bytes(type));
}

}  // namespace spyre::inline v0
