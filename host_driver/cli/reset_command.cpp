// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <chrono>
#include <string>
#include <utility>

#include "host_driver/cli/commands.hpp"
#include "host_driver/discovery/attach.hpp"

namespace cli {

namespace {

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
  if (!options.function.empty()) {
    const wire::Target target = target_of(options.function);
    const std::string how = flex::value_or_throw(flex::reset_function(options.card, target));
    fmt::print("{}: {} reset: {}\n", options.card, flex::function_name(target), how);
    return 0;
  }
  const flex::Rung rung = options.power_cycle ? flex::Rung::PowerCycle
                          : options.firmware  ? flex::Rung::Firmware
                                              : flex::Rung::Card;
  const auto begin = std::chrono::steady_clock::now();
  std::string how = flex::value_or_throw(flex::raise_card(options.card, rung));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (how.empty()) how = fmt::format("{} helped after {:.1f} ms", flex::name(rung), took.count());
  fmt::print("{}: {}\n", options.card, how);
  return 0;
}

}  // namespace cli
