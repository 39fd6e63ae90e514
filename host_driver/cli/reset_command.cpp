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
  auto choice = svp::parse_function_choice(function);
  if (!choice) throw svp::Error(std::move(choice.error()));
  switch (choice->kind) {
    case svp::FunctionChoice::Kind::Physical: return wire::kTargetPhysical;
    case svp::FunctionChoice::Kind::Virtual: return wire::target_of_virtual(choice->number);
    case svp::FunctionChoice::Kind::AnyVirtual: break;
  }
  throw svp::InvalidArgument("function", "'VF' does not say which virtual function", "name one, like VF1");
}

}  // namespace

int reset(const ResetOptions& options) {
  if (!options.function.empty()) {
    const wire::Target target = target_of(options.function);
    const std::string how = svp::value_or_throw(svp::reset_function(options.card, target));
    fmt::print("{}: {} reset: {}\n", options.card, svp::function_name(target), how);
    return 0;
  }
  const svp::ResetLevel level = options.power_cycle ? svp::ResetLevel::PowerCycle
                                : options.firmware  ? svp::ResetLevel::Firmware
                                                    : svp::ResetLevel::Card;
  const auto begin = std::chrono::steady_clock::now();
  std::string how = svp::value_or_throw(svp::raise_card(options.card, level));
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - begin;
  if (how.empty()) how = fmt::format("{} helped after {:.1f} ms", svp::name(level), took.count());
  fmt::print("{}: {}\n", options.card, how);
  return 0;
}

}  // namespace cli
