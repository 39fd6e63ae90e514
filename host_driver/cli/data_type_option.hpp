// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "host_driver/tensor/data_type.hpp"

namespace cli {

// "float16": a format of host memory. Throws InvalidArgument naming `option`, with all names there are.
svp::DataType parse_data_type(const char* option, std::string_view text);

}  // namespace cli
