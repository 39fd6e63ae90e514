// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/data_type_option.hpp"

#include <fmt/format.h>

#include <string>

#include "host_driver/base/error.hpp"

namespace cli {

svp::DataType parse_data_type(const char* option, std::string_view text) {
  std::string known;
  for (unsigned value = 0; value <= static_cast<unsigned>(svp::DataType::Bool); ++value) {
    const auto type = static_cast<svp::DataType>(value);
    if (svp::name(type) == text) return type;
    known += (known.empty() ? "" : ", ") + std::string(svp::name(type));
  }
  throw svp::InvalidArgument(option, fmt::format("there is no type '{}'", text), "use one of: " + known);
}

}  // namespace cli
