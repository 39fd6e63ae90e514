// SPDX-License-Identifier: Apache-2.0
// Which function of a card a tenant wants, as people and environment variables spell it: "PF", "VF" (any free one),
// "VF3".
#pragma once

#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "shared/admin.hpp"

namespace svp {

struct FunctionChoice {
  enum class Kind { Physical, AnyVirtual, Virtual };
  Kind kind = Kind::Physical;
  unsigned number = 0;  // Virtual only: from 1

  static constexpr FunctionChoice physical() { return {}; }
  static constexpr FunctionChoice any_virtual() { return {Kind::AnyVirtual, 0}; }
  static constexpr FunctionChoice virtual_function(unsigned number) { return {Kind::Virtual, number}; }
  friend bool operator==(const FunctionChoice&, const FunctionChoice&) = default;
};

std::string to_string(const FunctionChoice& choice);
// Upper case, no blanks, no leading zeros, VF numbers 1 to 16 (wire::boot::kMaxVirtualFunctions). The error names the
// form.
Expected<FunctionChoice> parse_function_choice(std::string_view text);

// "PF", "VF1", …: the name of one function. Targets are wire::kTargetPhysical and up.
std::string function_name(wire::Target target);

}  // namespace svp
