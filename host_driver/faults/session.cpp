// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/session.hpp"

#include <mutex>
#include <utility>

#include "host_driver/faults/card_faults.hpp"
#include "host_driver/faults/emulator_faults.hpp"
#include "shared/units.hpp"

namespace svp::fault {

namespace {

using Clock = std::chrono::steady_clock;

std::uint64_t to_us(std::chrono::nanoseconds time) {
  return static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(time).count());
}

HostFault host_fault(const Fault& fault) {
  return {.point = fault.point,
          .action = fault.action,
          .trigger = carried_out(fault.trigger, fault.trigger.not_before_us.low * wire::kTicksPerMicrosecond),
          .argument = fault.argument.low,
          .offset = fault.offset.value_or(Number()).low};
}

void take(Evidence& evidence, const HostEvidence& from) {
  const std::uint32_t conditions = rule_of(evidence.fault.point).conditions;
  evidence.counted = from.counted;
  evidence.fired = from.fired;
  evidence.still_armed = from.armed;
  if (from.fired == 0) return;
  evidence.first_us = to_us(from.first_time);
  evidence.last_us = to_us(from.last_time);
  if (from.last.function != kAny) evidence.function = from.last.function;
  if ((conditions & kByStream) != 0 && from.last.stream != kAny) evidence.stream = from.last.stream;
  if ((conditions & kBySequence) != 0 && from.last.sequence != 0) evidence.sequence = from.last.sequence;
}

}  // namespace

struct Session::Impl {
  explicit Impl(Script drawn) : script(std::move(drawn)), card(evidence, begin) {}

  std::vector<Evidence> of_emulator() const;
  void merge();  // holds mutex

  const Script script;
  const Clock::time_point begin = Clock::now();
  std::mutex mutex;  // guards all below but what guards itself
  std::vector<Evidence> evidence;
  std::shared_ptr<HostFaults> host = std::make_shared<HostFaults>();
  std::vector<std::pair<std::size_t, unsigned>> host_rows;  // fault, row
  CardFaults card;
  std::unique_ptr<EmulatorFaults> emulator;
};

std::vector<Evidence> Session::Impl::of_emulator() const {
  std::vector<Evidence> found;
  for (const Evidence& e : evidence) {
    if (home_of(e.fault.point) == Home::Emulator) found.push_back(e);
  }
  return found;
}

void Session::Impl::merge() {
  for (const auto& [index, row] : host_rows) take(evidence[index], host->evidence(row));
  if (!emulator) return;
  for (Evidence& e : emulator->evidence()) evidence[e.index] = std::move(e);
}

Expected<std::unique_ptr<Session>> Session::begin(const Script& script) {
  auto impl = std::make_unique<Impl>(script.drawn());
  impl->host->begin(impl->begin);
  for (const Fault& fault : impl->script.faults()) {
    const std::size_t index = impl->evidence.size();
    Evidence& evidence = impl->evidence.emplace_back();
    evidence.index = index;
    evidence.fault = fault;
    if (home_of(fault.point) != Home::Host) continue;
    const auto row = impl->host->arm(host_fault(fault));
    if (!row) {
      return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                       .source = "fault " + std::to_string(index),
                                       .outcome = wire::Outcome::Rejected,
                                       .recoverable = true,
                                       .next_step = "use fewer faults of the driver and the transport",
                                       .message = "there is no room for one more fault"});
    }
    evidence.was_armed = true;
    impl->host_rows.emplace_back(index, *row);
  }
  return std::unique_ptr<Session>(new Session(std::move(impl)));
}

Session::Session(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Session::~Session() { (void)disarm(); }

Expected<void> Session::arm(Card& card, Device* management) {
  const std::lock_guard lock(impl_->mutex);
  if (auto armed = impl_->card.arm(card, management); !armed) {
    (void)impl_->card.disarm();
    return armed;
  }
  auto faults = impl_->of_emulator();
  if (faults.empty()) return {};
  // Called by the emulator's thread: what the card has counted is lost with this boot of it.
  auto before_end = [impl = impl_.get()] {
    const std::lock_guard last_look(impl->mutex);
    impl->card.refresh();
  };
  impl_->emulator =
      std::make_unique<EmulatorFaults>(card.machine(), std::move(faults), impl_->begin, std::move(before_end));
  return {};
}

Expected<void> Session::arm_memory() {
  const std::lock_guard lock(impl_->mutex);
  return impl_->card.arm_memory();
}

FaultHooks Session::hooks(FaultHooks base) const {
  base.injector = impl_->host;
  return base;
}

const Script& Session::script() const { return impl_->script; }

std::vector<Evidence> Session::evidence() {
  const std::lock_guard lock(impl_->mutex);
  impl_->card.refresh();
  impl_->merge();
  return impl_->evidence;
}

Expected<void> Session::disarm() {
  impl_->host->disarm_all();
  // Without the lock: its thread may be about to take a last look at the card.
  if (impl_->emulator) impl_->emulator->disarm();
  const std::lock_guard lock(impl_->mutex);
  impl_->merge();
  return impl_->card.disarm();
}

}  // namespace svp::fault
