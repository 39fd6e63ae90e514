// SPDX-License-Identifier: Apache-2.0
// Number formats: tables, constants, the pattern of a fill, and a conversion as text.
#include "host_driver/compat/flex/2026-08-21/formats.hpp"

#include <spyrecode-host-functions/sendataconvert/sen_data_convert.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <ostream>
#include <string>

#include "host_driver/compat/flex/2026-08-21/guarded.hpp"
#include "host_driver/tensor/number_format.hpp"
#include "shared/dl16.hpp"

namespace flex::detail {
namespace {

struct FormatRow {
  DataFormats format;
  const char* name;
  int bits;  // of an element in the card's memory; 0: it has none there
};

constexpr std::array<FormatRow, 19> kFormats = {{
    {DataFormats::SEN169_FP16, "SEN169_FP16", 16},
    {DataFormats::IEEE_FP32, "IEEE_FP32", 32},
    {DataFormats::INVALID, "INVALID", 0},
    {DataFormats::SEN143_FP8, "SEN143_FP8", 8},
    {DataFormats::SEN152_FP8, "SEN152_FP8", 8},
    {DataFormats::SEN153_FP9, "SEN153_FP9", 0},
    {DataFormats::SENINT2, "SENINT2", 2},
    {DataFormats::SENINT4, "SENINT4", 4},
    {DataFormats::SENINT8, "SENINT8", 8},
    {DataFormats::SENINT16, "SENINT16", 16},
    {DataFormats::SENINT24, "SENINT24", 0},
    {DataFormats::IEEE_INT64, "IEEE_INT64", 64},
    {DataFormats::IEEE_INT32, "IEEE_INT32", 32},
    {DataFormats::SENUINT32, "SENUINT32", 32},
    {DataFormats::SENUINT2, "SENUINT2", 2},
    {DataFormats::IEEE_FP16, "IEEE_FP16", 16},
    {DataFormats::BOOL, "BOOL", 8},
    {DataFormats::BFLOAT16, "BFLOAT16", 16},
    {DataFormats::SEN18F_FP24, "SEN18F_FP24", 0},
}};

const FormatRow* row_of(DataFormats format) {
  const auto row = std::ranges::find(kFormats, format, &FormatRow::format);
  return row == kFormats.end() ? nullptr : &*row;
}

std::optional<svp::NumberFormat> floating(DataFormats format) {
  switch (format) {
    case DataFormats::SEN169_FP16: return svp::NumberFormat::Dl16;
    case DataFormats::IEEE_FP32: return svp::NumberFormat::Fp32;
    case DataFormats::SEN143_FP8: return svp::NumberFormat::Fp8E4m3;
    case DataFormats::SEN152_FP8: return svp::NumberFormat::Fp8E5m2;
    case DataFormats::IEEE_FP16: return svp::NumberFormat::Fp16;
    case DataFormats::BFLOAT16: return svp::NumberFormat::Bf16;
    default: return std::nullopt;
  }
}

// [lowest, highest] as doubles; highest is exclusive where it is 2^63.
std::uint64_t integer_code(double value, bool is_signed, int bits) {
  if (std::isnan(value)) return 0;
  const double highest = is_signed ? std::exp2(bits - 1) - 1 : std::exp2(bits) - 1;
  const double lowest = is_signed ? -std::exp2(bits - 1) : 0;
  const double whole = std::trunc(value);
  if (whole <= lowest) return static_cast<std::uint64_t>(static_cast<std::int64_t>(lowest));
  // 2^63 - 1 is no double: the comparison is with 2^63 then.
  if (whole >= highest) return is_signed ? (std::uint64_t{1} << (bits - 1)) - 1 : (std::uint64_t{1} << bits) - 1;
  return static_cast<std::uint64_t>(static_cast<std::int64_t>(whole));
}

std::uint64_t repeated(std::uint64_t code, int bits) {
  if (bits == 64) return code;
  code &= (std::uint64_t{1} << bits) - 1;
  std::uint64_t pattern = 0;
  for (int at = 0; at < 64; at += bits) pattern |= code << at;
  return pattern;
}

void write_list(std::ostream& out, const char* name, const std::vector<std::int64_t>& list) {
  out << '"' << name << "\": [";
  const char* separator = "";
  for (const std::int64_t entry : list) {
    out << separator << entry;
    separator = ", ";
  }
  out << ']';
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char character : text) {
    if (character == '"' || character == '\\') result += '\\';
    result += static_cast<unsigned char>(character) < 0x20 ? ' ' : character;
  }
  return result + '"';
}

}  // namespace

std::optional<svp::ElementFormat> element_format(DataFormats format) {
  switch (format) {
    case DataFormats::INVALID:
    case DataFormats::SEN153_FP9:
    case DataFormats::SENINT2:
    case DataFormats::SENINT24:
    case DataFormats::SEN18F_FP24: return std::nullopt;
    default: break;
  }
  if (row_of(format) == nullptr) return std::nullopt;
  return static_cast<svp::ElementFormat>(format);  // the numbers are the same
}

const char* name_of(DataFormats format) {
  const FormatRow* row = row_of(format);
  return row == nullptr ? "INVALID" : row->name;
}

std::uint64_t fill_pattern(double value, DataFormats format) {
  const FormatRow* row = row_of(format);
  if (row == nullptr || row->bits == 0) {
    refuse("format", "there is no fill with " + std::string(name_of(format)) + ": the card has no such elements",
           "fill with a format that has an entry in dataFormatToStickSize");
  }
  if (const auto number = floating(format)) return repeated(svp::code_of(*number, value), row->bits);
  if (format == DataFormats::BOOL) return repeated(value != 0 ? 1 : 0, row->bits);  // NaN is true
  const bool is_signed = format != DataFormats::SENUINT32 && format != DataFormats::SENUINT2;
  return repeated(integer_code(value, is_signed, row->bits), row->bits);
}

}  // namespace flex::detail

std::unordered_map<DataFormats, int> dataFormatToStickSize = [] {
  std::unordered_map<DataFormats, int> sizes;
  for (const auto& row : flex::detail::kFormats) {
    if (row.bits != 0) sizes[row.format] = static_cast<int>(wire::kStickBytes) * 8 / row.bits;
  }
  return sizes;
}();

std::string EnumsConversion::dataFormatsToString(DataFormats format) { return flex::detail::name_of(format); }

uint16_t deeptools::FloatToFp16Bin(float value) {
  return static_cast<uint16_t>(svp::code_of(svp::NumberFormat::Dl16, value));
}

void data_conversion_info::exportJson(std::ostream& out) const {
  using flex::detail::write_list;
  out << "{\"dci_dsName_\": " << flex::detail::quoted(dci_dsName_)
      << ", \"isHostToSen_\": " << (isHostToSen_ ? "true" : "false") << ", \"dataformat_src_\": \""
      << flex::detail::name_of(dataformat_src_) << "\", \"dataformat_dst_\": \""
      << flex::detail::name_of(dataformat_dst_) << "\", \"dcsi_\": [";
  const char* separator = "";
  for (const data_conversion_stride_info& nest : dcsi_) {
    out << separator << '{';
    write_list(out, "size_", nest.size_);
    write_list(out << ", ", "stride_src_", nest.stride_src_);
    write_list(out << ", ", "stride_dst_", nest.stride_dst_);
    out << ", \"offset_src_\": " << nest.offset_src_ << ", \"offset_dst_\": " << nest.offset_dst_ << '}';
    separator = ", ";
  }
  out << "], ";
  write_list(out, "input_shape_", input_shape_);
  write_list(out << ", ", "output_shape_", output_shape_);
  out << '}';
}
