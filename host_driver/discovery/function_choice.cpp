// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/function_choice.hpp"

#include <charconv>

#include "shared/boot_arguments.hpp"

namespace svp {

namespace {

constexpr std::string_view kVirtual = "VF";

ErrorInfo bad_choice(std::string_view text) {
  constexpr std::size_t kShown = 32;
  return {.layer = Layer::Driver,
          .source = "function",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "say PF, VF (any free one), or VF1 to VF" + std::to_string(wire::boot::kMaxVirtualFunctions),
          .message = "'" + std::string(text.substr(0, kShown)) + "' names no function"};
}

}  // namespace

std::string to_string(const FunctionChoice& choice) {
  switch (choice.kind) {
    case FunctionChoice::Kind::Physical: return "PF";
    case FunctionChoice::Kind::AnyVirtual: return std::string(kVirtual);
    case FunctionChoice::Kind::Virtual: return std::string(kVirtual) + std::to_string(choice.number);
  }
  return "unknown function";
}

Expected<FunctionChoice> parse_function_choice(std::string_view text) {
  if (text == "PF") return FunctionChoice::physical();
  if (text == kVirtual) return FunctionChoice::any_virtual();
  if (!text.starts_with(kVirtual)) return std::unexpected(bad_choice(text));
  const std::string_view digits = text.substr(kVirtual.size());
  unsigned number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  if (error != std::errc{} || end != digits.data() + digits.size() || digits.front() == '0' ||
      number > wire::boot::kMaxVirtualFunctions) {
    return std::unexpected(bad_choice(text));
  }
  return FunctionChoice::virtual_function(number);
}

std::string function_name(wire::Target target) {
  if (target == wire::kTargetSelf) return "M";
  if (target == wire::kTargetPhysical) return "PF";
  return std::string(kVirtual) + std::to_string(target - wire::kTargetPhysical);
}

}  // namespace svp
