// SPDX-License-Identifier: Apache-2.0
// The inner loops of layout conversion, one version per instruction set, chosen at run time (Highway). Used through
// stickify.hpp; the bit patterns are those of shared/dl16.hpp.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace svp::kernels {

enum class Conversion : std::uint8_t {
  Fp16Dl16,
  Bf16Dl16,
  Fp32Dl16,
  Int64Int32,  // saturating, and back with the sign
  Uint8Uint32,
  BoolDl16,  // 0 and 1; back: everything but ±0 is true
  Copy1,     // identical formats of 1, 2, 4 bytes
  Copy2,
  Copy4,
};

// Up to kMaxColumns columns of sticks with the same number of rows. Row r of column c is one stick: on the device at
// device[c] + 128 r, on the host `lanes[c]` adjacent elements at host[c] + host_row_bytes × r.
struct StickColumns {
  static constexpr std::size_t kMaxColumns = 32;  // as many streams as the caches and the TLB carry side by side
  std::array<std::byte*, kMaxColumns> host;
  std::array<std::byte*, kMaxColumns> device;
  std::array<std::uint32_t, kMaxColumns> lanes;  // 1 … elements per stick
  std::size_t count = 0;
  std::size_t rows = 0;
  std::size_t host_row_bytes = 0;
};

// Fills whole sticks; lanes beyond lanes[c] become zero.
void to_sticks(Conversion conversion, const StickColumns& columns);
// Writes exactly the `lanes[c]` host elements of each row.
void from_sticks(Conversion conversion, const StickColumns& columns);

// Flat arrays, no overlap, each aligned to its element. `to_device`: host format → device format; otherwise back.
void convert(Conversion conversion, bool to_device, const void* from, void* to, std::size_t count);

}  // namespace svp::kernels
