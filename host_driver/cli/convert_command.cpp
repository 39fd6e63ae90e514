// SPDX-License-Identifier: Apache-2.0
// `spyre convert`: numbers to codes of a format and back, one per line.
#include <fmt/format.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <string_view>
#include <system_error>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/tensor/number_format.hpp"

namespace cli {

namespace {

svp::NumberFormat parse_format(const char* option, const std::string& name) {
  if (const auto format = svp::number_format_named(name)) return *format;
  throw svp::InvalidArgument(option, fmt::format("there is no format '{}'", name),
                             "use one of: dl16, fp16, bf16, fp32, fp8_e4m3, fp8_e5m2");
}

// As strtod reads it: decimal, hexadecimal (0x1p-14), inf, nan. All of the word.
double parse_number(const std::string& word) {
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (!word.empty() && *end == '\0') return value;
  throw svp::InvalidArgument("number", fmt::format("'{}' is no number", word),
                             "give numbers like 1.0, -0x1p-14, inf or nan, behind --");
}

std::uint32_t parse_code(const std::string& word, svp::NumberFormat format) {
  std::string_view digits = word;
  if (digits.starts_with("0x") || digits.starts_with("0X")) digits.remove_prefix(2);
  std::uint32_t code = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  const unsigned bits = svp::bits_of(format);
  if (whole && (bits == 32 || code >> bits == 0)) return code;
  throw svp::InvalidArgument("code", fmt::format("'{}' is no code of {}", word, svp::name(format)),
                             fmt::format("give {} hexadecimal digits, like 3E00 of dl16", bits / 4));
}

}  // namespace

int convert(const ConvertOptions& options) {
  const bool to = !options.to.empty();
  const svp::NumberFormat format = to ? parse_format("--to", options.to) : parse_format("--from", options.from);
  for (const std::string& word : options.values) {
    if (to) {
      fmt::print("{:0{}X}\n", svp::code_of(format, parse_number(word)), svp::bits_of(format) / 4);
    } else {
      fmt::print("{}\n", svp::value_of(format, parse_code(word, format)));
    }
  }
  return kOk;
}

}  // namespace cli
