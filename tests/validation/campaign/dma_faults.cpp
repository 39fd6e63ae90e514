// SPDX-License-Identifier: Apache-2.0
// F29 and F30: the DMA engine changes bytes on their way, stops, or is slow.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "shared/crc32c.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kMovedBytes = 256 * wire::kKiB;
constexpr std::uint64_t kBack = 8 * wire::kMiB;  // of host memory: where bytes come back to

bool ended_as(const std::optional<wire::Completion>& end, Outcome outcome, Status status) {
  return end && end->outcome == outcome && end->status == status;
}

// ---- corrupted ------------------------------------------------------------------------------------------------------

wire::FaultSpec corruption(std::uint64_t byte, bool always) {
  auto spec = ScenarioContext::fault_at_faulting(FaultPoint::DmaStep, FaultAction::Corrupt);
  spec.argument = byte;
  if (always) spec.trigger.every = 1, spec.trigger.shots = 0;
  return spec;
}

// Armed while it exists; then its evidence is a claim.
class Corruption {
 public:
  Corruption(ScenarioContext& context, std::string name, bool always)
      : context_(context), name_(std::move(name)), fault_(context.arm(corruption(context.random()(), always))) {}
  ~Corruption() {
    try {
      context_.claim(Proof::Fired, name_, context_.evidence(fault_).fired != 0, "no step was corrupted");
      context_.disarm(fault_);
    } catch (const std::exception& error) {
      context_.claim(Proof::Fired, name_, false, error.what());
    }
  }
  Corruption(const Corruption&) = delete;
  Corruption& operator=(const Corruption&) = delete;

 private:
  ScenarioContext& context_;
  std::string name_;
  ScenarioContext::Fault fault_;
};

ControlBlock with_checksum(ControlBlock copy, std::uint32_t checksum) {
  copy.payload.dma.flags = wire::kDmaChecksum;
  copy.payload.dma.checksum = checksum;
  return copy;
}

// Into the card the card compares, and moves again: once is repaired, always is a fault.
void corrupt_into_the_card(ScenarioContext& context, std::uint32_t sum) {
  TestStream& stream = context.stream();
  BlockBuilder& builder = context.builder();
  const ControlBlock in = with_checksum(BlockBuilder::dma(builder.host(0), builder.tensor(0), kMovedBytes), sum);
  {
    const Corruption once(context, "to-card/once", false);
    const auto end = stream.run(in, context.timeout());
    context.claim(Proof::Contained, "to-card/once", ended_as(end, Outcome::Ok, Status::None), ending(end));
  }
  (void)stream.run(BlockBuilder::dma(builder.tensor(0), builder.host(kBack), kMovedBytes), context.timeout());
  context.claim(Proof::Contained, "to-card/once-is-right",
                std::ranges::equal(builder.host_words(0, kMovedBytes), builder.host_words(kBack, kMovedBytes)),
                "wrong data");
  {
    const Corruption always(context, "to-card/always", true);
    const auto end = stream.run(in, context.timeout());
    context.claim(Proof::Detected, "to-card/always", ended_as(end, Outcome::Fault, Status::ChecksumMismatch),
                  ending(end));
  }
  (void)stream.reset();
  const auto again = stream.run(in, context.timeout());
  context.claim(Proof::Recovered, "to-card", ended_as(again, Outcome::Ok, Status::None), ending(again));
}

// Out of the card the completion tells what was sent, and who asked for it compares.
void corrupt_out_of_the_card(ScenarioContext& context, std::uint32_t sum) {
  TestStream& stream = context.stream();
  BlockBuilder& builder = context.builder();
  const ControlBlock out = with_checksum(BlockBuilder::dma(builder.tensor(0), builder.host(kBack), kMovedBytes), 0);
  const auto arrived = [&] { return wire::crc32c(0, builder.host_words(kBack, kMovedBytes).data(), kMovedBytes); };
  {
    const Corruption once(context, "from-card/once", false);
    const auto end = stream.run(out, context.timeout());
    context.claim(Proof::Detected, "from-card/sum-of-what-was-sent", end && end->checksum == sum, ending(end));
    context.claim(Proof::Fired, "from-card/arrived-changed", arrived() != sum, "what arrived is right");
  }
  const auto again = stream.run(out, context.timeout());
  context.claim(Proof::Recovered, "from-card", again && again->checksum == sum && arrived() == sum, ending(again));
}

// The same as a program sees it: transfers of a stream of our runtime, with checksums.
class Program {
 public:
  explicit Program(ScenarioContext& context)
      : context_(svp::Context::open(context.fixture().card(), options())),
        memory_(context_->runtime().allocator().allocate(kMovedBytes)) {}

  // How the transfer ended. None: OK.
  Status to_card(std::span<std::byte> host) { return run(Job::to_device(host.data(), memory_, host.size())); }
  Status from_card(std::span<std::byte> host) { return run(Job::from_device(host.data(), memory_, host.size())); }
  void reset() { context_->runtime().default_stream().Reset(); }

 private:
  static svp::ContextOptions options() {
    svp::ContextOptions options;
    options.function = kFaulting;
    options.runtime.checksums = true;
    return options;
  }
  Status run(const Job& job) {
    FlexStream& stream = context_->runtime().default_stream();
    try {
      stream.Launch(job, {});
      stream.Synchronize(ScenarioContext::Clock::now() + campaign_bounds::kBlock);
    } catch (const StreamError& error) {
      return error.failure().status;
    }
    return Status::None;
  }

  std::unique_ptr<svp::Context> context_;
  AllocationIndex memory_;
};

void corrupt_a_program(ScenarioContext& context) {
  Program program(context);
  std::vector<std::byte> host(kMovedBytes), back(kMovedBytes);
  for (auto& byte : host) byte = static_cast<std::byte>(context.random()());
  const auto claim = [&](const char* name, Status wanted, Status seen) {
    context.claim(wanted == Status::None ? Proof::Contained : Proof::Detected, name, seen == wanted,
                  std::string(wire::name(seen)));
  };
  {
    const Corruption once(context, "program/to-card/once", false);
    claim("program/to-card/once", Status::None, program.to_card(host));
  }
  {
    const Corruption once(context, "program/from-card/once", false);
    claim("program/from-card/once", Status::ChecksumMismatch, program.from_card(back));
  }
  program.reset();
  const Status again = program.from_card(back);
  context.claim(Proof::Recovered, "program/from-card", again == Status::None && host == back,
                std::string(wire::name(again)));
  {
    const Corruption always(context, "program/from-card/always", true);
    claim("program/from-card/always", Status::ChecksumMismatch, program.from_card(back));
  }
  program.reset();
  {
    const Corruption always(context, "program/to-card/always", true);
    claim("program/to-card/always", Status::ChecksumMismatch, program.to_card(host));
  }
  program.reset();
}

}  // namespace

void corrupted_dma_payload(ScenarioContext& context) {
  context.bystander();
  const auto words = context.builder().host_words(0, kMovedBytes);
  for (auto& word : words) word = context.random()();
  const std::uint32_t sum = wire::crc32c(0, words.data(), words.size_bytes());
  (void)context.stream();
  context.trigger();
  corrupt_into_the_card(context, sum);
  corrupt_out_of_the_card(context, sum);
  context.close_faulting();
  corrupt_a_program(context);
  context.contained();
  context.recover_stream();
}

// ---- stalled and slow -----------------------------------------------------------------------------------------------

namespace {

void stall(ScenarioContext& context) {
  // What stands still uses up the one; the other is an hour, which nothing uses up on a busy machine either.
  constexpr std::uint64_t kBudgetTicks = 300'000 * wire::kTicksPerMicrosecond;
  constexpr std::uint64_t kLongBudgetTicks = 12'000 * kBudgetTicks;
  // Several steps, whether others are busy or not: the budget is looked at after each but the last.
  constexpr std::uint64_t kSeveralSteps = 1 * wire::kMiB;
  TestStream& stream = context.stream();
  BlockBuilder& builder = context.builder();
  ControlBlock copy = BlockBuilder::dma(builder.host(0), builder.tensor(0), kSeveralSteps);
  copy.header.budget = kLongBudgetTicks;
  const auto good = stream.run(copy, context.timeout());
  context.claim(Proof::Contained, "undisturbed", ended_as(good, Outcome::Ok, Status::None), ending(good));
  (void)stream.reset();
  copy.header.budget = kBudgetTicks;
  const auto fault = context.arm(ScenarioContext::fault_at_faulting(FaultPoint::DmaStep, FaultAction::Stall));
  context.trigger();
  const auto end = stream.run(copy, context.timeout());
  context.claim(Proof::Fired, "stalled", context.evidence(fault).fired == 1, "no step stood still");
  context.claim(Proof::Detected, "stalled", ended_as(end, Outcome::Timeout, Status::BudgetExpired), ending(end));
  context.disarm(fault);
}

std::uint64_t ticks_of(const std::optional<wire::Completion>& end) { return end ? end->end_time - end->start_time : 0; }

// Without a budget: late, and right. How much later is measured here and judged by nobody, because the card's clock is
// the machine's; that it is a hundred times is exact under a clock of work (faults_test.cpp, SlowTransfer).
void slow_down(ScenarioContext& context) {
  constexpr std::uint64_t kTimes = 100;
  TestStream& stream = context.stream();
  BlockBuilder& builder = context.builder();
  const auto words = builder.host_words(0, kMovedBytes);
  for (auto& word : words) word = context.random()();
  const ControlBlock copy = BlockBuilder::dma(builder.host(0), builder.tensor(0), kMovedBytes);
  const std::uint64_t undisturbed = ticks_of(stream.run(copy, context.timeout()));
  auto spec = ScenarioContext::fault_at_faulting(FaultPoint::DmaStep, FaultAction::Slow);
  spec.argument = kTimes;
  spec.trigger.every = 1;
  spec.trigger.shots = 0;
  const auto fault = context.arm(spec);
  const auto late = stream.run(copy, context.timeout());
  const auto evidence = context.evidence(fault);
  context.disarm(fault);
  context.fired(evidence.fired != 0 && evidence.fired == evidence.counted,
                std::to_string(evidence.fired) + " of " + std::to_string(evidence.counted) + " steps slow, " +
                    std::to_string(ticks_of(late)) + " ticks instead of " + std::to_string(undisturbed));
  context.claim(Proof::Contained, "slow/ends-well", ended_as(late, Outcome::Ok, Status::None), ending(late));
  std::ranges::fill(builder.host_words(kBack, kMovedBytes), 0);
  (void)stream.run(BlockBuilder::dma(builder.tensor(0), builder.host(kBack), kMovedBytes), context.timeout());
  context.claim(Proof::Contained, "slow/right", std::ranges::equal(words, builder.host_words(kBack, kMovedBytes)),
                "wrong data");
}

}  // namespace

void slow_or_stalled_dma(ScenarioContext& context) {
  context.bystander();
  stall(context);
  context.contained();
  context.recover_stream();
  slow_down(context);
}

}  // namespace svp::campaign
