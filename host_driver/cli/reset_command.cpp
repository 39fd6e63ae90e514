// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <utility>

#include "host_driver/cards/attach.hpp"
#include "host_driver/cli/commands.hpp"

namespace cli {

namespace {

void or_throw(flex::Expected<void> result) {
  if (!result) throw flex::Error(std::move(result.error()));
}

wire::Target target_of(const std::string& function) {
  auto choice = flex::parse_function_choice(function);
  if (!choice) throw flex::Error(std::move(choice.error()));
  switch (choice->kind) {
    case flex::FunctionChoice::Kind::Physical: return wire::kTargetPhysical;
    case flex::FunctionChoice::Kind::Virtual: return wire::target_of_virtual(choice->number);
    case flex::FunctionChoice::Kind::AnyVirtual: break;
  }
  throw flex::InvalidArgument("function", "'VF' does not say which virtual function", "name one, like VF1");
}

}  // namespace

int reset(const ResetOptions& options) {
  if (options.power_cycle) {
    or_throw(flex::power_cycle_card(options.card));
    fmt::print("{}: power-cycled\n", options.card);
    return 0;
  }
  const wire::Target target = target_of(options.function);
  or_throw(flex::reset_function(options.card, target));
  fmt::print("{}: {} reset\n", options.card, flex::function_name(target));
  return 0;
}

}  // namespace cli
