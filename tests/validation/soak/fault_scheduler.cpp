// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/fault_scheduler.hpp"

#include <algorithm>
#include <thread>

#include "tests/support/admin_requests.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/test_stream.hpp"

namespace svp::soak {

using fault::Action;
using fault::Fault;
using fault::Point;
using std::chrono::milliseconds;

namespace {

// Faults that somebody finds: what the card cannot see (a kernel's wrong result, a transfer without a checksum) would
// only show that nobody looks. Arguments as `spyre fault list` says.
struct Kind {
  Point point;
  Action action;
  std::uint64_t most;  // of the argument; 0: it takes none
};
constexpr Kind kKinds[] = {
    {Point::CardDmaStep, Action::Abort, 0},
    {Point::CardDmaStep, Action::Stall, 100'000},  // 10 ms
    {Point::CardDmaStep, Action::Slow, 20},
    {Point::CardRegionEntry, Action::Corrupt, 40},
    {Point::CardCompletion, Action::Suppress, 0},
    {Point::CardCompletion, Action::Duplicate, 0},
    {Point::CardAdminReply, Action::Suppress, 0},
    {Point::CardDoorbell, Action::Suppress, 0},
    {Point::CardDoorbell, Action::Duplicate, 0},
    {Point::CardHeartbeat, Action::Suppress, 0},
    {Point::CardFunctionReset, Action::Stall, 50'000},  // 5 ms
    {Point::CardKernel, Action::Hang, 0},
    {Point::CardKernel, Action::Illegal, 0},
    {Point::CardKernel, Action::Stray, 0},
    {Point::CardMemory, Action::Corrected, 0},
    {Point::CardMemory, Action::Uncorrectable, 0},
};

std::string name_of(const Fault& fault) {
  return std::string(fault::rule_of(fault.point).name) + " " + std::string(fault::name(fault.action));
}

FunctionMask only(unsigned function) { return FunctionMask{1} << function; }

}  // namespace

FaultScheduler::FaultScheduler(Card& card, unsigned functions, std::uint64_t seed, DisturbanceTracker& tracker,
                               RegionOf region_of)
    : card_(card),
      functions_(functions),
      tracker_(tracker),
      region_of_(std::move(region_of)),
      random_(seed),
      calendar_{{"fault", milliseconds{61}, &FaultScheduler::next_fault},
                {"function reset by M", milliseconds{131}, &FaultScheduler::reset_function},
                {"emulator stopped", milliseconds{499}, &FaultScheduler::stop_emulator},
                {"firmware trap", milliseconds{1103}, &FaultScheduler::trap_firmware},
                {"firmware restart", milliseconds{1303}, &FaultScheduler::restart_firmware},
                {"card reset", milliseconds{1709}, &FaultScheduler::reset_card},
                {"power cycle", milliseconds{2309}, &FaultScheduler::power_cycle},
                {"emulator killed", milliseconds{3001}, &FaultScheduler::kill_emulator}} {
  open_management();
}

FaultScheduler::~FaultScheduler() = default;

void FaultScheduler::complain(const std::string& what) {
  ++report_.complained;
  if (report_.complaints.size() < kMostComplaints) report_.complaints.push_back(what);
}

void FaultScheduler::open_management() { management_ = value_or_throw(card_.open_management()); }

void FaultScheduler::run(Clock::time_point end, const std::function<bool()>& enough,
                         const std::function<std::uint64_t()>& rounds) {
  const auto start = Clock::now();
  std::uint64_t next_round = 0;
  for (Event& event : calendar_) event.due = start + event.period;
  while (Clock::now() < end && !enough()) {
    // The one that is due for longest: where work is slow, each has its place all the same.
    const auto event = std::ranges::min_element(calendar_, {}, &Event::due);
    if (event != calendar_.end() && Clock::now() >= event->due && rounds() >= next_round) {
      (this->*event->act)();
      ++report_.events[event->name];
      // A period is between an end and the next begin: what takes long does not pile up.
      event->due = Clock::now() + event->period;
      next_round = rounds() + kRoundsBetween;
    }
    if (!card_.machine().alive()) {
      complain("the emulator has ended, and nobody had asked it to");
      raise(ResetLevel::PowerCycle);
    }
    std::this_thread::sleep_for(soak_bounds::kCalendar);  // bounded: by `end` of the loop
  }
  end_fault();
}

// ---- faults ---------------------------------------------------------------------------------------------------------

bool FaultScheduler::arm(const Fault& fault) {
  const fault::Script script = fault::Script(random_()).add(fault);
  session_ = value_or_throw(fault::Session::begin(script));
  value_or_throw(session_->arm(card_, management_.get()));
  return session_->arm_memory().has_value();  // not when its owner has just let go of the region
}

void FaultScheduler::next_fault() {
  end_fault();
  const Kind& kind = kKinds[random_() % std::size(kKinds)];
  const unsigned function = any_function();
  Fault fault{.point = kind.point, .action = kind.action};
  fault.trigger.first = 1 + random_() % 4;
  fault.trigger.function = function;
  if (kind.most != 0) fault.argument = 2 + random_() % (kind.most - 1);
  if (kind.point == Point::CardMemory) {
    const auto region = region_of_(function);
    if (!region) return;
    fault.region = region;
    fault.offset = random_() % (4 * wire::kMiB);
    fault.trigger.first = 1;
  }
  scope_ = std::make_unique<DisturbanceTracker::Scope>(tracker_, only(function));
  try {
    if (arm(fault)) ++report_.faults[name_of(fault)].armed;
  } catch (const Error& error) {
    complain("arming " + name_of(fault) + ": " + error.what());
  }
}

void FaultScheduler::end_fault() {
  if (session_) {
    // Disarmed first: what has not fired by now never will.
    if (auto done = session_->disarm(); !done) complain("disarming: " + done.error().message);
    for (const fault::Evidence& evidence : session_->evidence()) {
      report_.faults[name_of(evidence.fault)].fired += evidence.fired != 0 ? 1 : 0;
    }
  }
  session_.reset();
  scope_.reset();
}

// ---- resets ---------------------------------------------------------------------------------------------------------

void FaultScheduler::reset_function() {
  const unsigned function = any_function();
  const DisturbanceTracker::Scope scope(tracker_, only(function));
  const auto reply = management_->admin(test::function_request(wire::AdminCommand::FunctionReset, function));
  if (!reply) return complain("a function reset: " + reply.error().message);
  if (reply->outcome != wire::Outcome::Ok) complain("a function reset: " + std::string(wire::name(reply->status)));
}

void FaultScheduler::stop_emulator() {
  // No disturbance: a card that stands still for so long is late, and nothing else.
  if (auto stopped = card_.machine().stop(); !stopped) return complain("the emulator could not be stopped");
  const milliseconds stopped_for(1 + random_() % static_cast<unsigned>(soak_bounds::kLongestStop.count()));
  std::this_thread::sleep_for(stopped_for);  // bounded: by kLongestStop at most
  if (auto on = card_.machine().cont(); !on) complain("the emulator could not go on");
}

void FaultScheduler::raise(ResetLevel level) {
  end_fault();
  const DisturbanceTracker::Scope scope(tracker_, kEverybody);
  management_.reset();
  value_or_throw(card_.raise(level, card_.boots(), true));
  open_management();
}

void FaultScheduler::kill_emulator() {
  end_fault();
  const DisturbanceTracker::Scope scope(tracker_, kEverybody);
  management_.reset();
  if (auto killed = card_.machine().kill(); !killed) complain("the emulator could not be killed");
  value_or_throw(card_.raise(ResetLevel::PowerCycle, card_.boots(), false));
  open_management();
}

void FaultScheduler::trap_firmware() {
  end_fault();
  const DisturbanceTracker::Scope scope(tracker_, kEverybody);
  const std::uint64_t epoch = management_->config().generation >> 32;
  constexpr Action kWays[] = {Action::Trap, Action::Assert, Action::StackOverflow};
  if (!arm({.point = Point::CardFirmware, .action = kWays[random_() % std::size(kWays)]})) return;
  const auto limit = Clock::now() + soak_bounds::kTrap;
  while (!management_->failure() && Clock::now() < limit) {
    management_->check();
    std::this_thread::sleep_for(soak_bounds::kCalendar);  // bounded: by the loop's limit
  }
  session_.reset();
  management_.reset();
  open_management();
  if (management_->config().generation >> 32 == epoch) complain("the firmware did not trap");
}

// ---- accounts -------------------------------------------------------------------------------------------------------

campaign::CardResources FaultScheduler::card_resources() {
  return campaign::count_card_resources(*management_, campaign_bounds::kSettle);
}

std::uint64_t FaultScheduler::retired_bytes() {
  return test::figures_of(*management_, wire::kTargetPhysical).retired_granules * wire::kGranuleBytes;
}

}  // namespace svp::soak
