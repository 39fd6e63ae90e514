// SPDX-License-Identifier: Apache-2.0
// F27, F28 and F31: the card's own parts fail: memory, the firmware.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/validation/campaign/management.hpp"
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

// An error of the memory at the start of the faulting function's Tensor region.
ScenarioContext::Fault arm_memory(ScenarioContext& context, FaultAction action) {
  auto spec = ScenarioContext::fault_at_faulting(FaultPoint::Memory, action);
  spec.region_id = context.builder().tensor().base.region_id;
  spec.offset = 4096;
  return context.arm(spec);
}

ControlBlock copy_out(ScenarioContext& context) {
  BlockBuilder& builder = context.builder();
  return BlockBuilder::dma(builder.tensor(0), builder.host(0), kCopiedBytes);
}

}  // namespace

void corrected_memory_error(ScenarioContext& context) {
  context.bystander();
  TestStream& stream = context.stream();
  BlockBuilder& builder = context.builder();
  (void)stream.run(BlockBuilder::fill(builder.tensor(0), kCopiedBytes, context.seed()), context.timeout());
  (void)context.faulting().take_events();
  const auto fault = arm_memory(context, FaultAction::Corrected);
  context.trigger();
  const auto end = stream.run(copy_out(context), context.timeout());
  context.fired(fault);
  context.detected("function told", told(context.faulting(), EventKind::MemoryCorrected, context.timeout()),
                   "the function was told");
  context.detected("M told", told(context.management(), EventKind::MemoryCorrected, context.timeout()), "M was told");
  const bool right = end && end->outcome == Outcome::Ok &&
                     std::ranges::all_of(builder.host_words(0, kCopiedBytes),
                                         [&](std::uint64_t word) { return word == context.seed(); });
  context.contained("data", right, "the data is right");
  context.contained();
  const std::string wrong = context.good_job(builder, stream);
  context.recovered("good job", wrong.empty(), wrong.empty() ? "nothing to recover from, good job" : wrong);
}

void uncorrectable_memory_error(ScenarioContext& context) {
  context.bystander();
  TestStream& stream = context.stream();
  BlockBuilder& builder = context.builder();
  (void)stream.run(BlockBuilder::fill(builder.tensor(0), kCopiedBytes, context.seed()), context.timeout());
  const auto fault = arm_memory(context, FaultAction::Uncorrectable);
  context.trigger();
  const auto end = stream.run(copy_out(context), context.timeout());
  context.fired(fault);
  context.detected_as(end, Outcome::Fault, Status::UncorrectableMemory);
  context.contained();
  // The granule goes with its region, and is not granted again.
  value_or_throw(context.faulting().release_region(builder.tensor()));
  context.detected("retired", told(context.management(), EventKind::MemoryRetired, context.timeout()),
                   "M was told of the retirement");
  context.recover_function();
  context.spoil_fixture();  // it has less memory now
}

void firmware_trap(ScenarioContext& context) {
  Observer observer(context);
  const std::uint64_t epoch = observer.device().config().boot_epoch;
  auto spec = ScenarioContext::any_fault(FaultPoint::Firmware, FaultAction::Trap);
  (void)context.management();
  context.trigger();
  try {
    (void)context.arm(spec);
  } catch (const Error&) {  // NOLINT(bugprone-empty-catch): the answer may be lost with the boot that sends it
  }
  const auto failure = observer.wait_for_failure();
  context.detected("driver", failure.has_value(), failure ? failure->message : "the driver did not notice");
  context.contained("each ended once", observer.typed().empty(),
                    observer.typed().empty() ? "each block ended once, typed" : observer.typed());
  context.close();
  const auto record = context.record_of_last_boot();
  context.fired(record.has_value(), record ? "record: " + std::string(record->reason) : "no record");
  context.detected(
      "registers",
      record && record->kind == wire::FatalKind::Trap && record->harts[record->source % wire::kRecordedHarts].pc != 0,
      "a trap with its registers");
  context.detected("epoch", context.management().config().boot_epoch > epoch, "another epoch");
  context.recover_function();
}

}  // namespace svp::campaign
