// SPDX-License-Identifier: Apache-2.0
// F27 to F31: the card's own parts fail: memory, DMA, the firmware.
#include <algorithm>
#include <string>
#include <vector>

#include "host_driver/campaign/scenarios.hpp"
#include "shared/crc32c.hpp"

namespace flex::campaign {

namespace {

using wire::ControlBlock;
using wire::EventKind;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kBytes = 256 * wire::kKiB;

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
  return Desk::dma(Desk::in(desk.tensor(), 0), desk.host(0), kBytes);
}

}  // namespace

void corrected_memory_error(Trial& trial) {
  trial.innocent();
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  (void)lane.run(Desk::fill(Desk::in(desk.tensor(), 0), kBytes, trial.seed()), trial.patience());
  (void)trial.guilty().take_events();
  const auto fault = arm_memory(trial, FaultAction::Corrected);
  trial.let_loose();
  const auto end = lane.run(copy_out(trial), trial.patience());
  trial.fired(fault);
  trial.detected(told(trial.guilty(), EventKind::MemoryCorrected, trial.patience()), "the function was told");
  trial.detected(told(trial.management(), EventKind::MemoryCorrected, trial.patience()), "M was told");
  const bool right =
      end && end->outcome == Outcome::Ok &&
      std::ranges::all_of(desk.host_words(0, kBytes), [&](std::uint64_t word) { return word == trial.seed(); });
  trial.contained(right, "the data is right");
  trial.contained();
  const std::string wrong = trial.good_job(desk, lane);
  trial.recovered(wrong.empty(), wrong.empty() ? "nothing to recover from, good job" : wrong);
}

void uncorrectable_memory_error(Trial& trial) {
  trial.innocent();
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  (void)lane.run(Desk::fill(Desk::in(desk.tensor(), 0), kBytes, trial.seed()), trial.patience());
  const auto fault = arm_memory(trial, FaultAction::Uncorrectable);
  trial.let_loose();
  const auto end = lane.run(copy_out(trial), trial.patience());
  trial.fired(fault);
  trial.detected_as(end, Outcome::Fault, Status::UncorrectableMemory);
  trial.contained();
  // The granule goes with its region, and is not granted again.
  value_of(trial.guilty().release_region(desk.tensor()));
  trial.detected(told(trial.management(), EventKind::MemoryRetired, trial.patience()), "M was told of the retirement");
  trial.recover_function();
  trial.spoil_stage();  // it has less memory now
}

void corrupted_dma_payload(Trial& trial) {
  trial.innocent();
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  const auto words = desk.host_words(0, kBytes);
  for (auto& word : words) word = trial.random()();
  ControlBlock copy = Desk::dma(desk.host(0), Desk::in(desk.tensor(), 0), kBytes);
  copy.payload.dma.flags = wire::kDmaChecksum;
  copy.payload.dma.checksum = wire::crc32c(0, words.data(), words.size_bytes());
  // Once: moved again, and right.
  auto once = Trial::fault_at_guilty(FaultPoint::DmaStep, FaultAction::Corrupt);
  once.argument = 77;
  const auto single = trial.arm(once);
  trial.let_loose();
  const auto mended = lane.run(copy, trial.patience());
  trial.fired(single);
  trial.contained(mended && mended->outcome == Outcome::Ok, "one corruption was mended by a retry");
  // Every time: a fault.
  once.every = 1;
  once.shots = 0;
  const auto always = trial.arm(once);
  const auto end = lane.run(copy, trial.patience());
  trial.fired(always);
  trial.disarm(always);
  trial.detected_as(end, Outcome::Fault, Status::ChecksumMismatch);
  trial.contained();
  trial.recover_stream();
}

void slow_or_stalled_dma(Trial& trial) {
  constexpr std::uint64_t kBudgetTicks = 20'000 * wire::kTicksPerMicrosecond;
  trial.innocent();
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  ControlBlock copy = Desk::dma(desk.host(0), Desk::in(desk.tensor(), 0), Desk::kRegionBytes);
  copy.header.budget = kBudgetTicks;
  const auto good = lane.run(copy, trial.patience());
  auto spec = Trial::fault_at_guilty(FaultPoint::DmaStep, FaultAction::Stall);
  const auto fault = trial.arm(spec);
  trial.let_loose();
  const auto end = lane.run(copy, trial.patience());
  trial.fired(fault);
  trial.detected_as(end, Outcome::Timeout, Status::BudgetExpired);
  trial.contained(good && good->outcome == Outcome::Ok, "the same transfer fits its budget undisturbed");
  trial.contained();
  trial.recover_stream();
  // A hundred times slower, without a budget: late, and right.
  spec.action = FaultAction::Slow;
  spec.argument = 100;
  const auto slow = trial.arm(spec);
  copy.header.budget = 0;
  const auto late = lane.run(copy, trial.patience());
  trial.fired(slow);
  trial.contained(late && late->outcome == Outcome::Ok, "a slow transfer without a budget ends well");
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
  trial.detected(failure.has_value(), failure ? failure->message : "the driver did not notice");
  trial.contained(witness.typed().empty(), witness.typed().empty() ? "each block ended once, typed" : witness.typed());
  trial.close();
  const auto record = trial.record_of_last_life();
  trial.fired(record.has_value(), record ? "record: " + std::string(record->reason) : "no record");
  trial.detected(
      record && record->kind == wire::FatalKind::Trap && record->harts[record->culprit % wire::kRecordedHarts].pc != 0,
      "a trap with its registers");
  trial.detected(trial.management().config().boot_epoch > epoch, "another epoch");
  trial.recover_function();
}

}  // namespace flex::campaign
