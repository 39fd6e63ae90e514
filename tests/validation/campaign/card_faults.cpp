// SPDX-License-Identifier: Apache-2.0
// F27, F28 and F31: the card's own parts fail: memory, the firmware.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::EventKind;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kCopiedBytes = 256 * wire::kKiB;

bool told(Device& device, EventKind kind, std::chrono::nanoseconds patience) {
  bool found = false;
  (void)device.wait_until(
      [&] {
        for (const auto& event : device.take_events()) found |= event.kind == kind;
        return found;
      },
      Trial::Clock::now() + patience);
  return found;
}

// An error of the memory at the start of the guilty function's Tensor region.
Trial::Fault arm_memory(Trial& trial, FaultAction action) {
  auto spec = Trial::fault_at_guilty(FaultPoint::Memory, action);
  spec.region_id = trial.desk().tensor().base.region_id;
  spec.offset = 4096;
  return trial.arm(spec);
}

ControlBlock copy_out(Trial& trial) {
  Desk& desk = trial.desk();
  return Desk::dma(Desk::in(desk.tensor(), 0), desk.host(0), kCopiedBytes);
}

}  // namespace

void corrected_memory_error(Trial& trial) {
  trial.innocent();
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  (void)lane.run(Desk::fill(Desk::in(desk.tensor(), 0), kCopiedBytes, trial.seed()), trial.patience());
  (void)trial.guilty().take_events();
  const auto fault = arm_memory(trial, FaultAction::Corrected);
  trial.let_loose();
  const auto end = lane.run(copy_out(trial), trial.patience());
  trial.fired(fault);
  trial.detected("function told", told(trial.guilty(), EventKind::MemoryCorrected, trial.patience()),
                 "the function was told");
  trial.detected("M told", told(trial.management(), EventKind::MemoryCorrected, trial.patience()), "M was told");
  const bool right =
      end && end->outcome == Outcome::Ok &&
      std::ranges::all_of(desk.host_words(0, kCopiedBytes), [&](std::uint64_t word) { return word == trial.seed(); });
  trial.contained("data", right, "the data is right");
  trial.contained();
  const std::string wrong = trial.good_job(desk, lane);
  trial.recovered("good job", wrong.empty(), wrong.empty() ? "nothing to recover from, good job" : wrong);
}

void uncorrectable_memory_error(Trial& trial) {
  trial.innocent();
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  (void)lane.run(Desk::fill(Desk::in(desk.tensor(), 0), kCopiedBytes, trial.seed()), trial.patience());
  const auto fault = arm_memory(trial, FaultAction::Uncorrectable);
  trial.let_loose();
  const auto end = lane.run(copy_out(trial), trial.patience());
  trial.fired(fault);
  trial.detected_as(end, Outcome::Fault, Status::UncorrectableMemory);
  trial.contained();
  // The granule goes with its region, and is not granted again.
  value_or_throw(trial.guilty().release_region(desk.tensor()));
  trial.detected("retired", told(trial.management(), EventKind::MemoryRetired, trial.patience()),
                 "M was told of the retirement");
  trial.recover_function();
  trial.spoil_stage();  // it has less memory now
}

void firmware_trap(Trial& trial) {
  Witness witness(trial);
  const std::uint64_t epoch = witness.device().config().boot_epoch;
  auto spec = Trial::any_fault(FaultPoint::Firmware, FaultAction::Trap);
  (void)trial.management();
  trial.let_loose();
  try {
    (void)trial.arm(spec);
  } catch (const Error&) {
    // The answer may be lost with the life that would have sent it.
  }
  const auto failure = witness.wait_for_failure();
  trial.detected("driver", failure.has_value(), failure ? failure->message : "the driver did not notice");
  trial.contained("each ended once", witness.typed().empty(),
                  witness.typed().empty() ? "each block ended once, typed" : witness.typed());
  trial.close();
  const auto record = trial.record_of_last_life();
  trial.fired(record.has_value(), record ? "record: " + std::string(record->reason) : "no record");
  trial.detected(
      "registers",
      record && record->kind == wire::FatalKind::Trap && record->harts[record->culprit % wire::kRecordedHarts].pc != 0,
      "a trap with its registers");
  trial.detected("epoch", trial.management().config().boot_epoch > epoch, "another epoch");
  trial.recover_function();
}

}  // namespace svp::campaign
