// SPDX-License-Identifier: Apache-2.0
// F29 and F30: the DMA engine changes bytes on their way, stops, or is slow.
#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "shared/crc32c.hpp"
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

// ---- corrupted ----------------------------------------------------------------------------------------------------------

wire::FaultSpec corruption(std::uint64_t byte, bool always) {
  auto spec = Trial::fault_at_guilty(FaultPoint::DmaStep, FaultAction::Corrupt);
  spec.argument = byte;
  if (always) spec.every = 1, spec.shots = 0;
  return spec;
}

// Armed while it lives; then its evidence is a claim.
class Corruption {
 public:
  Corruption(Trial& trial, std::string name, bool always)
      : trial_(trial), name_(std::move(name)), fault_(trial.arm(corruption(trial.random()(), always))) {}
  ~Corruption() {
    try {
      trial_.claim(Proof::Fired, name_, trial_.evidence(fault_).fired != 0, "no step was corrupted");
      trial_.disarm(fault_);
    } catch (const std::exception& error) {
      trial_.claim(Proof::Fired, name_, false, error.what());
    }
  }
  Corruption(const Corruption&) = delete;
  Corruption& operator=(const Corruption&) = delete;

 private:
  Trial& trial_;
  std::string name_;
  Trial::Fault fault_;
};

ControlBlock with_checksum(ControlBlock copy, std::uint32_t checksum) {
  copy.payload.dma.flags = wire::kDmaChecksum;
  copy.payload.dma.checksum = checksum;
  return copy;
}

// Into the card the card compares, and moves again: once is mended, always is a fault.
void corrupt_into_the_card(Trial& trial, std::uint32_t sum) {
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  const ControlBlock in = with_checksum(Desk::dma(desk.host(0), Desk::in(desk.tensor(), 0), kMovedBytes), sum);
  {
    const Corruption once(trial, "to-card/once", false);
    const auto end = lane.run(in, trial.patience());
    trial.claim(Proof::Contained, "to-card/once", ended_as(end, Outcome::Ok, Status::None), ending(end));
  }
  (void)lane.run(Desk::dma(Desk::in(desk.tensor(), 0), desk.host(kBack), kMovedBytes), trial.patience());
  trial.claim(Proof::Contained, "to-card/once-is-right",
              std::ranges::equal(desk.host_words(0, kMovedBytes), desk.host_words(kBack, kMovedBytes)), "wrong data");
  {
    const Corruption always(trial, "to-card/always", true);
    const auto end = lane.run(in, trial.patience());
    trial.claim(Proof::Detected, "to-card/always", ended_as(end, Outcome::Fault, Status::ChecksumMismatch),
                ending(end));
  }
  (void)lane.reset();
  const auto again = lane.run(in, trial.patience());
  trial.claim(Proof::Recovered, "to-card", ended_as(again, Outcome::Ok, Status::None), ending(again));
}

// Out of the card the completion tells what was sent, and who asked for it compares.
void corrupt_out_of_the_card(Trial& trial, std::uint32_t sum) {
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  const ControlBlock out = with_checksum(Desk::dma(Desk::in(desk.tensor(), 0), desk.host(kBack), kMovedBytes), 0);
  const auto arrived = [&] { return wire::crc32c(0, desk.host_words(kBack, kMovedBytes).data(), kMovedBytes); };
  {
    const Corruption once(trial, "from-card/once", false);
    const auto end = lane.run(out, trial.patience());
    trial.claim(Proof::Detected, "from-card/sum-of-what-was-sent", end && end->checksum == sum, ending(end));
    trial.claim(Proof::Fired, "from-card/arrived-changed", arrived() != sum, "what arrived is right");
  }
  const auto again = lane.run(out, trial.patience());
  trial.claim(Proof::Recovered, "from-card", again && again->checksum == sum && arrived() == sum, ending(again));
}

// The same as a program sees it: transfers of a stream of our runtime, with checksums.
class Program {
 public:
  explicit Program(Trial& trial)
      : context_(spyre::Context::open(trial.stage().card(), options())),
        memory_(context_->runtime().allocator().allocate(kMovedBytes)) {}

  // How the transfer ended. None: OK.
  Status to_card(std::span<std::byte> host) { return run(Job::to_device(host.data(), memory_, host.size())); }
  Status from_card(std::span<std::byte> host) { return run(Job::from_device(host.data(), memory_, host.size())); }
  void reset() { context_->runtime().default_stream().Reset(); }

 private:
  static spyre::ContextOptions options() {
    spyre::ContextOptions options;
    options.function = kGuilty;
    options.runtime.checksums = true;
    return options;
  }
  Status run(Job job) {
    FlexStream& stream = context_->runtime().default_stream();
    try {
      stream.Launch(std::move(job), {});
      stream.Synchronize(Trial::Clock::now() + campaign_bounds::kBlock);
    } catch (const StreamError& error) {
      return error.failure().status;
    }
    return Status::None;
  }

  std::unique_ptr<spyre::Context> context_;
  AllocationIndex memory_;
};

void corrupt_a_program(Trial& trial) {
  Program program(trial);
  std::vector<std::byte> host(kMovedBytes), back(kMovedBytes);
  for (auto& byte : host) byte = static_cast<std::byte>(trial.random()());
  const auto claim = [&](const char* name, Status wanted, Status seen) {
    trial.claim(wanted == Status::None ? Proof::Contained : Proof::Detected, name, seen == wanted,
                std::string(wire::name(seen)));
  };
  {
    const Corruption once(trial, "program/to-card/once", false);
    claim("program/to-card/once", Status::None, program.to_card(host));
  }
  {
    const Corruption once(trial, "program/from-card/once", false);
    claim("program/from-card/once", Status::ChecksumMismatch, program.from_card(back));
  }
  program.reset();
  const Status again = program.from_card(back);
  trial.claim(Proof::Recovered, "program/from-card", again == Status::None && host == back,
              std::string(wire::name(again)));
  {
    const Corruption always(trial, "program/from-card/always", true);
    claim("program/from-card/always", Status::ChecksumMismatch, program.from_card(back));
  }
  program.reset();
  {
    const Corruption always(trial, "program/to-card/always", true);
    claim("program/to-card/always", Status::ChecksumMismatch, program.to_card(host));
  }
  program.reset();
}

}  // namespace

void corrupted_dma_payload(Trial& trial) {
  trial.innocent();
  const auto words = trial.desk().host_words(0, kMovedBytes);
  for (auto& word : words) word = trial.random()();
  const std::uint32_t sum = wire::crc32c(0, words.data(), words.size_bytes());
  (void)trial.lane();
  trial.let_loose();
  corrupt_into_the_card(trial, sum);
  corrupt_out_of_the_card(trial, sum);
  trial.close_guilty();
  corrupt_a_program(trial);
  trial.contained();
  trial.recover_stream();
}

// ---- stalled and slow ---------------------------------------------------------------------------------------------------

namespace {

void stall(Trial& trial) {
  constexpr std::uint64_t kBudgetTicks = 300'000 * wire::kTicksPerMicrosecond;
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  ControlBlock copy = Desk::dma(desk.host(0), Desk::in(desk.tensor(), 0), kMovedBytes);
  copy.header.budget = kBudgetTicks;
  const auto good = lane.run(copy, trial.patience());
  trial.claim(Proof::Contained, "undisturbed", ended_as(good, Outcome::Ok, Status::None), ending(good));
  (void)lane.reset();
  const auto fault = trial.arm(Trial::fault_at_guilty(FaultPoint::DmaStep, FaultAction::Stall));
  trial.let_loose();
  const auto end = lane.run(copy, trial.patience());
  trial.claim(Proof::Fired, "stalled", trial.evidence(fault).fired == 1, "no step stood still");
  trial.claim(Proof::Detected, "stalled", ended_as(end, Outcome::Timeout, Status::BudgetExpired), ending(end));
  trial.disarm(fault);
}

std::uint64_t ticks_of(const std::optional<wire::Completion>& end) { return end ? end->end_time - end->start_time : 0; }

// Without a budget: late, and right. How much later is measured here and judged by nobody, because the card's clock is the
// machine's; that it is a hundred times is exact under a clock of work (faults_test.cpp, SlowTransfer).
void slow_down(Trial& trial) {
  constexpr std::uint64_t kTimes = 100;
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();
  const auto words = desk.host_words(0, kMovedBytes);
  for (auto& word : words) word = trial.random()();
  const ControlBlock copy = Desk::dma(desk.host(0), Desk::in(desk.tensor(), 0), kMovedBytes);
  const std::uint64_t undisturbed = ticks_of(lane.run(copy, trial.patience()));
  auto spec = Trial::fault_at_guilty(FaultPoint::DmaStep, FaultAction::Slow);
  spec.argument = kTimes;
  spec.every = 1;
  spec.shots = 0;
  const auto fault = trial.arm(spec);
  const auto late = lane.run(copy, trial.patience());
  const auto evidence = trial.evidence(fault);
  trial.disarm(fault);
  trial.fired(evidence.fired != 0 && evidence.fired == evidence.counted,
              std::to_string(evidence.fired) + " of " + std::to_string(evidence.counted) + " steps slow, " +
                  std::to_string(ticks_of(late)) + " ticks instead of " + std::to_string(undisturbed));
  trial.claim(Proof::Contained, "slow/ends-well", ended_as(late, Outcome::Ok, Status::None), ending(late));
  std::ranges::fill(desk.host_words(kBack, kMovedBytes), 0);
  (void)lane.run(Desk::dma(Desk::in(desk.tensor(), 0), desk.host(kBack), kMovedBytes), trial.patience());
  trial.claim(Proof::Contained, "slow/right", std::ranges::equal(words, desk.host_words(kBack, kMovedBytes)),
              "wrong data");
}

}  // namespace

void slow_or_stalled_dma(Trial& trial) {
  trial.innocent();
  stall(trial);
  trial.contained();
  trial.recover_stream();
  slow_down(trial);
}

}  // namespace svp::campaign
