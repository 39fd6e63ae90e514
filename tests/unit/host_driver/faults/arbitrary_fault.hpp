// SPDX-License-Identifier: Apache-2.0
// Scripts that make sense, for properties.
#pragma once

#include <rapidcheck.h>

#include "host_driver/faults/script.hpp"
#include "shared/control_block.hpp"
#include "shared/window.hpp"

namespace svp::fault {

inline rc::Gen<Number> arbitrary_number(std::uint64_t low, std::uint64_t high) {
  return rc::gen::exec([low, high] {
    const auto value = [&] { return low + *rc::gen::arbitrary<std::uint64_t>() % (high - low + 1); };
    const std::uint64_t a = value();
    if (*rc::gen::arbitrary<bool>()) return Number(a);
    const std::uint64_t b = value();
    return Number::random(std::min(a, b), std::max(a, b));
  });
}

inline Fault arbitrary_fault() {
  const auto some = [](std::uint64_t bound) { return *rc::gen::inRange<std::uint64_t>(0, bound); };
  const PointRule& rule = catalogue()[some(catalogue().size())];
  const ActionRule& action = rule.actions[some(rule.actions.size())];
  const auto says = [&](std::uint32_t condition) {
    return (rule.conditions & condition) != 0 && ((rule.needed & condition) != 0 || *rc::gen::arbitrary<bool>());
  };
  Fault fault;
  fault.point = rule.point;
  fault.action = action.action;
  fault.trigger.first = *arbitrary_number(1, 1'000'000);
  if (*rc::gen::arbitrary<bool>()) {
    fault.trigger.every = 1 + some(1000);
    fault.trigger.shots = some(1000);
  }
  fault.trigger.not_before_us = *arbitrary_number(0, 1'000'000);
  if (says(kByFunction)) fault.trigger.function = static_cast<wire::Target>(some(18));
  if (says(kByStream)) fault.trigger.stream = static_cast<std::uint32_t>(some(wire::kStreamsPerFunction));
  if (says(kByOpcode)) fault.trigger.opcode = static_cast<std::uint32_t>(some(7));
  if (says(kByCommand)) fault.trigger.opcode = static_cast<std::uint32_t>(1 + some(16));
  if (says(kBySequence)) fault.trigger.sequence = 1 + some(1'000'000);
  if (says(kAtRegion)) fault.region = some(1'000'000);
  if (says(kAtOffset)) fault.offset = *arbitrary_number(0, 1'000'000);
  if (says(kAtHart)) fault.hart = static_cast<std::uint32_t>(some(64));
  if (says(kByCore)) fault.trigger.core = static_cast<std::uint32_t>(some(64));
  if (says(kByProgress)) fault.trigger.progress = wire::kSomeProgress - static_cast<std::uint32_t>(some(1000));
  if (says(kByWaiting)) fault.trigger.waiting = 1 + static_cast<std::uint32_t>(some(63));
  if (action.segment) fault.segment = static_cast<std::uint32_t>(some(wire::kSegments));
  if (!action.argument.empty()) fault.argument = *arbitrary_number(action.min, action.max);
  return fault;
}

inline rc::Gen<Script> arbitrary_script() {
  return rc::gen::exec([] {
    Script script(*rc::gen::arbitrary<std::uint64_t>());
    const auto count = *rc::gen::inRange<std::size_t>(1, kMaxFaultsPerHome);
    for (std::size_t i = 0; i < count; ++i) script.add(arbitrary_fault());
    return script;
  });
}

}  // namespace svp::fault
