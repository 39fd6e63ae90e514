// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/script.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>

#include "shared/boot_arguments.hpp"
#include "shared/control_block.hpp"
#include "shared/window.hpp"

namespace svp::fault {

namespace {

// Numbers of triggers and places stay below this, so that sums of two do not overflow.
constexpr std::uint64_t kLargest = std::numeric_limits<std::uint64_t>::max() / 2;
constexpr std::uint64_t kHourMicroseconds = 3'600'000'000;
constexpr std::uint32_t kMaxHarts = 64;

std::string range_text(std::uint64_t low, std::uint64_t high) {
  const std::string least = "at least " + std::to_string(low);
  return high >= kLargest ? least : "from " + std::to_string(low) + " to " + std::to_string(high);
}

std::optional<Refusal> out_of_range(std::string member, const Number& number, std::uint64_t low, std::uint64_t high) {
  if (number.low > number.high) return Refusal{std::move(member), "is a range that ends before it begins"};
  if (number.low >= low && number.high <= high) return std::nullopt;
  return Refusal{std::move(member), "must be " + range_text(low, high)};
}

// A condition that the point does not know, or one that it needs.
std::optional<Refusal> refuse_conditions(const Fault& fault, const PointRule& rule) {
  const Trigger& trigger = fault.trigger;
  const struct {
    const char* member;
    bool given;
    std::uint32_t condition;
  } said[] = {{"function", trigger.function.has_value(), kByFunction},
              {"stream", trigger.stream.has_value(), kByStream},
              {"opcode", trigger.opcode.has_value(), kByOpcode | kByCommand},
              {"sequence", trigger.sequence.has_value(), kBySequence},
              {"region", fault.region.has_value(), kAtRegion},
              {"offset", fault.offset.has_value(), kAtOffset},
              {"hart", fault.hart.has_value(), kAtHart},
              {"core", trigger.core.has_value(), kByCore},
              {"progress", trigger.progress.has_value(), kByProgress},
              {"waiting", trigger.waiting.has_value(), kByWaiting},
              {"segment", fault.segment.has_value(), kAtSegment}};
  for (const auto& [member, given, condition] : said) {
    if (given && (rule.conditions & condition) == 0) {
      return Refusal{member, "is not known at the point \"" + std::string(rule.name) + "\""};
    }
    if (!given && (rule.needed & condition) != 0) {
      return Refusal{member, "is needed at the point \"" + std::string(rule.name) + "\""};
    }
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_trigger(const Trigger& trigger, const PointRule& rule) {
  if (auto bad = out_of_range("first", trigger.first, 1, kLargest)) return bad;
  if (auto bad = out_of_range("every", trigger.every, 0, kLargest)) return bad;
  if (auto bad = out_of_range("shots", trigger.shots, 0, kLargest)) return bad;
  if (trigger.every == 0 && trigger.shots > 1) {
    return Refusal{"shots", "is more than 1, but without \"every\" it fires once"};
  }
  if (auto bad = out_of_range("not_before_us", trigger.not_before_us, 0, kHourMicroseconds)) return bad;
  if (trigger.function && *trigger.function > wire::target_of_virtual(wire::boot::kMaxVirtualFunctions)) {
    return Refusal{"function", "is no function: there are M, PF and VF1 to VF16"};
  }
  if (trigger.stream) {
    if (auto bad = out_of_range("stream", *trigger.stream, 0, wire::kStreamsPerFunction - 1)) return bad;
  }
  if (trigger.sequence) {
    if (auto bad = out_of_range("sequence", *trigger.sequence, 1, kLargest)) return bad;
  }
  if (trigger.core) {
    if (auto bad = out_of_range("core", *trigger.core, 0, kMaxHarts - 1)) return bad;
  }
  if (trigger.progress && *trigger.progress == wire::kAnyProgress) return Refusal{"progress", "is too large"};
  if (trigger.waiting) {
    if (auto bad = out_of_range("waiting", *trigger.waiting, 1, kMaxHarts - 1)) return bad;
  }
  if (trigger.opcode && !opcode_called(rule, opcode_text(rule, *trigger.opcode))) {
    return Refusal{"opcode", "is none that the point \"" + std::string(rule.name) + "\" knows"};
  }
  return std::nullopt;
}

std::optional<Refusal> refuse_places(const Fault& fault) {
  if (fault.region) {
    if (auto bad = out_of_range("region", *fault.region, 0, kLargest)) return bad;
  }
  if (fault.offset) {
    const std::uint64_t last = fault.point == Point::Window ? wire::kMaxWindowBytes - 1 : kLargest;
    if (auto bad = out_of_range("offset", *fault.offset, 0, last)) return bad;
  }
  if (fault.hart) return out_of_range("hart", *fault.hart, 0, kMaxHarts - 1);
  return std::nullopt;
}

std::optional<Refusal> refuse_segment(const Fault& fault, const ActionRule& action) {
  const std::string called = " by the action \"" + std::string(name(fault.action)) + "\"";
  if (fault.segment && !action.segment) return Refusal{"segment", "is not taken" + called};
  if (!fault.segment && action.segment) return Refusal{"segment", "is needed" + called};
  return fault.segment ? out_of_range("segment", *fault.segment, 0, wire::kSegments - 1) : std::nullopt;
}

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : state_(seed) {}
  std::uint64_t draw(const Number& number) {
    const std::uint64_t value = next();  // also for what is fixed: a change of one number leaves the others alone
    return number.fixed() ? number.low : number.low + value % (number.high - number.low + 1);
  }

 private:
  std::uint64_t next() {  // splitmix64
    state_ += 0x9e3779b97f4a7c15;
    std::uint64_t z = state_;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
  }
  std::uint64_t state_;
};

}  // namespace

std::optional<Refusal> refuse(const Fault& fault) {
  const auto found = std::ranges::find(catalogue(), fault.point, &PointRule::point);
  if (found == catalogue().end()) return Refusal{"point", "is not in the catalogue"};
  const PointRule& rule = *found;
  const ActionRule* const action = find_action(rule, fault.action);
  if (action == nullptr) {
    std::string known;
    for (const ActionRule& a : rule.actions) known.append(known.empty() ? "" : ", ").append(name(a.action));
    return Refusal{"action", "makes no sense at the point \"" + std::string(rule.name) + "\", which knows " + known};
  }
  if (auto bad = refuse_conditions(fault, rule)) return bad;
  if (auto bad = refuse_trigger(fault.trigger, rule)) return bad;
  if (action->argument.empty() && fault.argument != Number()) {
    return Refusal{"argument", "is not taken by the action \"" + std::string(name(fault.action)) + "\""};
  }
  if (!action->argument.empty()) {
    if (auto bad = out_of_range("argument", fault.argument, action->min, action->max)) {
      bad->what += " (" + std::string(action->argument) + ")";
      return bad;
    }
  }
  if (auto bad = refuse_segment(fault, *action)) return bad;
  return refuse_places(fault);
}

wire::FaultTrigger carried_out(const Trigger& trigger, std::uint64_t not_before) {
  return {.function = trigger.function.value_or(wire::kAnyFunction),
          .stream = trigger.stream.value_or(wire::kAnyStream),
          .opcode = trigger.opcode.value_or(wire::kAnyOpcode),
          .progress = trigger.progress.value_or(wire::kAnyProgress),
          .core = trigger.core.value_or(wire::kAnyCore),
          .waiting = trigger.waiting.value_or(0),
          .sequence = trigger.sequence.value_or(0),
          .first = trigger.first.low,
          .every = trigger.every,
          .shots = trigger.shots,
          .not_before = not_before};
}

bool Script::has_room(Home home) const {
  const auto same = std::ranges::count_if(faults_, [&](const Fault& f) { return home_of(f.point) == home; });
  return static_cast<std::size_t>(same) < kMaxFaultsPerHome;
}

Script& Script::add(const Fault& fault) {
  if (auto bad = refuse(fault)) {
    throw InvalidArgument(bad->member, "\"" + bad->member + "\" " + bad->what, "see spyre fault list");
  }
  if (!has_room(home_of(fault.point))) {
    throw InvalidArgument(
        "faults", "there is no room for one more fault of its layer",
        "use at most " + std::to_string(kMaxFaultsPerHome) + " on the card, in the driver and in the emulator");
  }
  faults_.push_back(fault);
  return *this;
}

Script Script::drawn() const {
  Script script(*this);
  Dice dice(seed_);
  for (Fault& fault : script.faults_) {
    fault.trigger.first = dice.draw(fault.trigger.first);
    fault.trigger.not_before_us = dice.draw(fault.trigger.not_before_us);
    fault.argument = dice.draw(fault.argument);
    const std::uint64_t offset = dice.draw(fault.offset.value_or(Number()));
    if (fault.offset) fault.offset = offset;
  }
  return script;
}

Script Script::with_seed(std::uint64_t seed) const {
  Script script(*this);
  script.seed_ = seed;
  return script;
}

std::string function_text(wire::Target target) {
  if (target == wire::kTargetSelf) return "M";
  return target == wire::kTargetPhysical ? "PF" : "VF" + std::to_string(target - wire::kTargetPhysical);
}

std::optional<wire::Target> function_called(std::string_view text) {
  for (wire::Target target = 0; target <= wire::target_of_virtual(wire::boot::kMaxVirtualFunctions); ++target) {
    if (function_text(target) == text) return target;
  }
  return std::nullopt;
}

std::optional<std::uint32_t> opcode_called(const PointRule& rule, std::string_view text) {
  constexpr std::uint32_t kLastOpcode = static_cast<std::uint32_t>(wire::kLastOpcode);
  constexpr std::uint32_t kLastCommand = static_cast<std::uint32_t>(wire::kLastAdminCommand);
  const bool command = (rule.conditions & kByCommand) != 0;
  for (std::uint32_t n = command ? 1 : 0; n <= (command ? kLastCommand : kLastOpcode); ++n) {
    if (opcode_text(rule, n) == text) return n;
  }
  return std::nullopt;
}

std::string opcode_text(const PointRule& rule, std::uint32_t opcode) {
  const bool command = (rule.conditions & kByCommand) != 0;
  if (opcode > std::numeric_limits<std::uint8_t>::max()) return {};
  return std::string(command ? wire::name(static_cast<wire::AdminCommand>(opcode))
                             : wire::name(static_cast<wire::Opcode>(opcode)));
}

}  // namespace svp::fault
