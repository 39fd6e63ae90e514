// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/conversion_refusal.hpp"

#include "host_driver/base/error.hpp"

namespace svp {

void refuse_conversion(const std::string& field, std::string_view from, std::string_view to) {
  throw InvalidArgument(field, "there is no conversion from " + std::string(from) + " to " + std::string(to),
                        "let the card convert: ops::copy() with Options::out of a type that this copy takes "
                        "(docs/tensors.md, Conversions of a copy)");
}

}  // namespace svp
