// SPDX-License-Identifier: Apache-2.0
// By way of fp64. The loops are compiled for each format, so that nothing is decided for each element.
#include "firmware/kernels/engine/number_row.hpp"

#include "firmware/kernels/engine/number.hpp"

namespace kernel::engine::number {
namespace {

using program::Format;

template <Format kFormat, typename Item>
void decode(const void* elements, double* values, unsigned count) {
  const auto* from = static_cast<const Item*>(elements);
  for (unsigned i = 0; i < count; ++i) values[i] = value_of(kFormat, from[i]);
}

template <Format kFormat, typename Item>
void encode(const double* values, void* results, unsigned count) {
  auto* to = static_cast<Item*>(results);
  for (unsigned i = 0; i < count; ++i) to[i] = static_cast<Item>(code_of(kFormat, values[i]));
}

void decode(Format from, const void* elements, double* values, unsigned count) {
  switch (from) {
    case Format::Dl16: return decode<Format::Dl16, std::uint16_t>(elements, values, count);
    case Format::Fp32: return decode<Format::Fp32, std::uint32_t>(elements, values, count);
    case Format::Int32: return decode<Format::Int32, std::uint32_t>(elements, values, count);
    case Format::Int16: return decode<Format::Int16, std::uint16_t>(elements, values, count);
    case Format::Int8: return decode<Format::Int8, std::uint8_t>(elements, values, count);
    case Format::Uint32: return decode<Format::Uint32, std::uint32_t>(elements, values, count);
    case Format::Fp8E4m3: return decode<Format::Fp8E4m3, std::uint8_t>(elements, values, count);
    case Format::Fp8E5m2: return decode<Format::Fp8E5m2, std::uint8_t>(elements, values, count);
  }
}

void encode(Format to, const double* values, void* results, unsigned count) {
  switch (to) {
    case Format::Dl16: return encode<Format::Dl16, std::uint16_t>(values, results, count);
    case Format::Fp32: return encode<Format::Fp32, std::uint32_t>(values, results, count);
    case Format::Int32: return encode<Format::Int32, std::uint32_t>(values, results, count);
    case Format::Int16: return encode<Format::Int16, std::uint16_t>(values, results, count);
    case Format::Int8: return encode<Format::Int8, std::uint8_t>(values, results, count);
    case Format::Uint32: return encode<Format::Uint32, std::uint32_t>(values, results, count);
    case Format::Fp8E4m3: return encode<Format::Fp8E4m3, std::uint8_t>(values, results, count);
    case Format::Fp8E5m2: return encode<Format::Fp8E5m2, std::uint8_t>(values, results, count);
  }
}

}  // namespace

void convert_row(Format from, const void* elements, Format to, void* results, unsigned count) {
  double values[kMostElements];
  decode(from, elements, values, count);
  encode(to, values, results, count);
}

}  // namespace kernel::engine::number
