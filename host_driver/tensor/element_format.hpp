// SPDX-License-Identifier: Apache-2.0
// Formats of the elements on either side of a transfer, and the conversions between them.
//
// The pairs are the 35 that torch-spyre may ask for, and int16 ↔ int16, uint8 ↔ uint32, e5m2 ↔ e5m2, e5m2 ↔ fp32. Rules
// that its sources leave open are ours:
//   float → integer: toward zero, saturating; NaN gives 0. float → bool: 1 but for ±0 (NaN is true).
//   int64 → int32: saturating, so that an index beyond int32 is outside of every table. To other narrower integers: the
//   low bits. int16, int64 → DL16: rounded once.
//   float → float: number_format.hpp, rounded once; beyond 65536 DL16 → fp16 is ±∞ (shared/dl16.hpp).
//   Elements of less than a byte are packed low bits first.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "host_driver/tensor/data_type.hpp"

namespace svp {

// The numbers of torch-spyre's DataFormats; Uint8 is ours (the host's side of uint8 tensors).
enum class ElementFormat : std::uint8_t {
  Dl16 = 0,
  Fp32 = 1,
  Fp8E4m3 = 3,
  Fp8E5m2 = 4,
  Int4 = 7,
  Int8 = 8,
  Int16 = 9,
  Int64 = 11,
  Int32 = 12,
  Uint32 = 13,
  Uint2 = 14,
  Fp16 = 15,
  Bool = 16,
  Bf16 = 17,
  Uint8 = 32,
};

std::string_view name(ElementFormat format);  // "SEN169_FP16", "IEEE_FP32", …, "UINT8"
unsigned bits_of(ElementFormat format);       // 2, 4, 8, 16, 32 or 64

// Of the host's side. Refused: float64, which no format of the card can hold.
Expected<ElementFormat> format_of(DataType type);
ElementFormat format_of(DeviceType type);

// `count` elements from index `src_first` in steps of `src_stride`, to likewise; element i of a side begins at bit
// i·bits_of(format) of its memory. The sides do not overlap. Memory is aligned to nothing.
struct ElementRun {
  const std::byte* src;
  std::int64_t src_first;
  std::int64_t src_stride;
  std::byte* dst;
  std::int64_t dst_first;
  std::int64_t dst_stride;
  std::int64_t count;
};
using ConvertRun = void (*)(const ElementRun& run);

// Null: there is no such conversion.
ConvertRun conversion(ElementFormat from, ElementFormat to);

}  // namespace svp
