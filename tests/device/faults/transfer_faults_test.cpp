// SPDX-License-Identifier: Apache-2.0
// Transfers and memory, broken on purpose, as a runtime's user sees them: retried, or a typed error; and checksums.
#include <cstring>
#include <functional>
#include <memory>
#include <random>

#include "host_driver/frontend/context.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/faults/armed_fault.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp {
namespace {

using test::ArmedFault;
using test::fault_of;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint32_t kVf1 = wire::target_of_virtual(1);
constexpr std::uint64_t kBytes = 3 * wire::kMiB + 17;

// No two sticks are alike.
void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < bytes.size(); at += 8) {
    const std::uint64_t word = random();
    std::memcpy(bytes.data() + at, &word, std::min<std::size_t>(8, bytes.size() - at));
  }
}

class TransferFaults : public testing::Test {
 protected:
  TransferFaults() : card_(value_or_throw(Card::boot(test::small_card()))) {
    management_ = value_or_throw(card_->open_management());
    context_ = open(true);
  }
  std::unique_ptr<svp::Context> open(bool checksums) {
    svp::ContextOptions options;
    options.function = 1;
    options.runtime.checksums = checksums;
    options.runtime.staging.chunk_bytes = wire::kMiB;
    return svp::Context::open(card_, std::move(options));
  }
  FlexStream& stream() { return context_->runtime().default_stream(); }
  void to_card(std::span<std::byte> host, AllocationIndex memory) {
    stream().Launch(Job::to_device(host.data(), memory, host.size()), {});
    stream().Synchronize(test::soon());
  }
  void from_card(std::span<std::byte> host, AllocationIndex memory) {
    stream().Launch(Job::from_device(host.data(), memory, host.size()), {});
    stream().Synchronize(test::soon());
  }
  StreamFailure failure_of(const std::function<void()>& transfer) {
    try {
      transfer();
    } catch (const StreamError& error) {
      EXPECT_TRUE(error.info().recoverable);
      EXPECT_FALSE(error.info().next_step.empty());
      return error.failure();
    }
    ADD_FAILURE() << "no error";
    return {};
  }

  std::shared_ptr<Card> card_;
  std::unique_ptr<Device> management_;
  std::unique_ptr<svp::Context> context_;
};

TEST_F(TransferFaults, CorruptionOnTheWayInIsMovedAgainWithChecksums) {
  const auto memory = context_->runtime().allocator().allocate(4 * wire::kMiB);
  PinnedBuffer pinned = context_->host_memory().allocate(kBytes);
  std::vector<std::byte> pageable(kBytes), back(kBytes);
  for (const std::span<std::byte> host : {pinned.bytes().first(kBytes), std::span(pageable)}) {
    fill_pattern(host, host.size());
    ArmedFault fault(*management_, fault_of(FaultPoint::DmaStep, FaultAction::Corrupt, kVf1, 4711));
    to_card(host, memory);
    EXPECT_EQ(fault.evidence().fired, 1u);
    from_card(back, memory);
    EXPECT_EQ(std::memcmp(back.data(), host.data(), kBytes), 0);
  }
}

TEST_F(TransferFaults, CorruptionThatStaysIsATypedFault) {
  const auto memory = context_->runtime().allocator().allocate(4 * wire::kMiB);
  std::vector<std::byte> host(kBytes);
  auto spec = fault_of(FaultPoint::DmaStep, FaultAction::Corrupt, kVf1);
  spec.trigger.every = 1;
  {
    ArmedFault fault(*management_, spec);
    const auto failure = failure_of([&] { to_card(host, memory); });
    EXPECT_EQ(failure.outcome, Outcome::Fault);
    EXPECT_EQ(failure.status, Status::ChecksumMismatch);
    EXPECT_EQ(failure.field, wire::Field::DmaChecksum);
  }
  stream().Reset();
  to_card(host, memory);
}

TEST_F(TransferFaults, CorruptionOnTheWayOutIsFoundByTheHost) {
  const auto memory = context_->runtime().allocator().allocate(4 * wire::kMiB);
  PinnedBuffer pinned = context_->host_memory().allocate(kBytes);
  std::vector<std::byte> pageable(kBytes);
  to_card(pageable, memory);
  for (const std::span<std::byte> host : {pinned.bytes().first(kBytes), std::span(pageable)}) {
    {
      ArmedFault fault(*management_, fault_of(FaultPoint::DmaStep, FaultAction::Corrupt, kVf1));
      const auto failure = failure_of([&] { from_card(host, memory); });
      EXPECT_EQ(failure.outcome, Outcome::Fault);
      EXPECT_EQ(failure.status, Status::ChecksumMismatch);
      EXPECT_EQ(fault.evidence().fired, 1u);
    }
    stream().Reset();
    from_card(host, memory);
  }
}

TEST_F(TransferFaults, WithoutChecksumsCorruptionIsWrongData) {
  context_.reset();
  context_ = open(false);
  const auto memory = context_->runtime().allocator().allocate(4 * wire::kMiB);
  std::vector<std::byte> host(kBytes), back(kBytes);
  fill_pattern(host, 1);
  ArmedFault fault(*management_, fault_of(FaultPoint::DmaStep, FaultAction::Corrupt, kVf1));
  to_card(host, memory);
  from_card(back, memory);
  EXPECT_EQ(fault.evidence().fired, 1u);
  EXPECT_NE(std::memcmp(back.data(), host.data(), kBytes), 0);
}

TEST_F(TransferFaults, AnAbortedTransferIsATypedFaultAndResetHeals) {
  const auto memory = context_->runtime().allocator().allocate(4 * wire::kMiB);
  std::vector<std::byte> host(kBytes);
  ArmedFault fault(*management_, fault_of(FaultPoint::DmaStep, FaultAction::Abort, kVf1));
  EXPECT_EQ(failure_of([&] { to_card(host, memory); }).status, Status::TransferAborted);
  stream().Reset();
  to_card(host, memory);
}

TEST_F(TransferFaults, AStalledTransferEndsByTheResetOfItsStream) {
  const auto memory = context_->runtime().allocator().allocate(4 * wire::kMiB);
  PinnedBuffer pinned = context_->host_memory().allocate(kBytes);
  ArmedFault fault(*management_, fault_of(FaultPoint::DmaStep, FaultAction::Stall, kVf1));
  stream().Launch(Job::to_device(pinned.data(), memory, kBytes), {});
  EXPECT_TRUE(fault.fires());
  FlexStream& bystander = context_->runtime().next_stream(StreamPriority::Low);
  PinnedBuffer other = context_->host_memory().allocate(4096);
  bystander.Launch(Job::to_device(other.data(), memory, 4096), {});
  EXPECT_NO_THROW(bystander.Synchronize(test::soon()));
  stream().Reset();
  EXPECT_NO_THROW(to_card(pinned.bytes().first(kBytes), memory));
}

TEST_F(TransferFaults, AnUncorrectableErrorIsATypedFaultOfItsUnitAndTheMemoryLeavesTheCard) {
  auto& allocator = context_->runtime().allocator();
  const auto memory = allocator.allocate(4 * wire::kMiB);
  const auto at = allocator.resolve(memory);
  std::vector<std::byte> host(kBytes);
  fill_pattern(host, 5);
  auto spec = fault_of(FaultPoint::Memory, FaultAction::Uncorrectable, kVf1);
  spec.region_id = at.address.region_id;
  spec.offset = at.address.offset + wire::kMiB;
  {
    ArmedFault fault(*management_, spec);
    const auto failure = failure_of([&] { to_card(host, memory); });
    EXPECT_EQ(failure.outcome, Outcome::Fault);
    EXPECT_EQ(failure.status, Status::UncorrectableMemory);
    EXPECT_EQ(failure.fault.offset, spec.offset);
  }
  EXPECT_EQ(test::figures_of(*management_, kVf1).retired_granules, 1u);
}

}  // namespace
}  // namespace svp
