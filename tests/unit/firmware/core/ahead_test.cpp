// SPDX-License-Identifier: Apache-2.0
// wire::kDmaAhead: a DMA that is moved while the COMPUTE in front of it runs on another core. Only its destination
// changes early; where it ends, and how, is as without the flag.
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "firmware/hal/memory.hpp"
#include "shared/trace.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"

namespace {

using fwtest::Program;
using fwtest::RawDriver;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kHost = wire::kHostMemoryOffset + 64 * wire::kKiB;
constexpr std::uint64_t kSlot = 512 * wire::kKiB;  // of the Program region, behind the images
constexpr std::uint64_t kOtherSlot = kSlot + wire::kMaxCorrectionBytes;
constexpr std::uint64_t kBytes = 256;
constexpr std::uint64_t kOnCore1 = 2;

class Ahead : public fwtest::Launch {
 protected:
  Ahead() : Launch(2) {}

  void put(std::byte value) { std::memset(driver_.at<std::byte>(kHost), static_cast<int>(value), kBytes); }
  std::byte at(std::uint64_t offset) {
    const auto base = card_.function(2).regions.at(wire::kProgramRegion).base - hal::region_memory().begin;
    return card_.board().region_memory()[base + offset];
  }
  wire::ControlBlock dma(std::uint64_t to = kSlot, std::uint32_t flags = wire::kDmaAhead) {
    auto block = driver_.dma(stream_, RawDriver::host(kHost), RawDriver::device(programs_, to), kBytes);
    block.payload.dma.flags = flags;
    driver_.seal(block);
    return block;
  }
  std::vector<wire::Completion> collect() {
    card_.run_until_idle();
    std::vector<wire::Completion> ends;
    for (const auto& end : driver_.collect()) ends.push_back(end.completion);
    return ends;
  }
  // Until nothing runs any more.
  std::vector<wire::Completion> finish() {
    std::vector<wire::Completion> ends;
    for (int i = 0; i < 1000 && (i == 0 || card_.card().launches.active(2)); ++i) {
      for (const auto& end : collect()) ends.push_back(end);
      slice();
    }
    for (const auto& end : collect()) ends.push_back(end);
    return ends;
  }
};

TEST_F(Ahead, TheBytesMoveWhileTheKernelRunsAndTheBlocksEndInOrder) {
  put(std::byte{1});
  driver_.submit(block(stream_, Program::UntilReleased, kOnCore1));
  driver_.submit(dma());
  driver_.submit(block(stream_, Program::Exit, kOnCore1));
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(at(kSlot), std::byte{1});
  put(std::byte{2});  // the driver may not; it shows that the bytes are moved once
  kernels_.released = true;
  const auto ends = finish();
  ASSERT_EQ(ends.size(), 3u);
  for (std::size_t i = 0; i < ends.size(); ++i) {
    EXPECT_EQ(ends[i].outcome, Outcome::Ok) << i;
    EXPECT_EQ(ends[i].sequence, ends[0].sequence + i);
  }
  EXPECT_EQ(ends[1].bytes, kBytes);
  EXPECT_GE(ends[1].start_time, ends[0].end_time) << "it began behind the kernel";
  EXPECT_EQ(at(kSlot), std::byte{1});
}

TEST_F(Ahead, ABlockThatComesWhileTheKernelRunsIsMovedAsWell) {
  put(std::byte{1});
  driver_.submit(block(stream_, Program::UntilReleased, kOnCore1));
  EXPECT_TRUE(collect().empty());
  driver_.submit(dma());
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(at(kSlot), std::byte{1});
  kernels_.released = true;
  EXPECT_EQ(finish().size(), 2u);
}

// The next one may be read by the kernel in between.
TEST_F(Ahead, OnlyTheBlockDirectlyBehindTheKernelIsMoved) {
  put(std::byte{1});
  driver_.submit(block(stream_, Program::UntilReleased, kOnCore1));
  driver_.submit(dma());
  driver_.submit(dma(kOtherSlot));
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(at(kSlot), std::byte{1});
  EXPECT_EQ(at(kOtherSlot), std::byte{0});
  kernels_.released = true;
  EXPECT_EQ(finish().size(), 3u);
  EXPECT_EQ(at(kOtherSlot), std::byte{1});
}

// Core 1 computes meanwhile; the kernel's part on core 0 comes afterwards.
TEST_F(Ahead, BesideAKernelOnAllCoresItIsMoved) {
  put(std::byte{1});
  driver_.submit(block(stream_, Program::UntilReleased, 3));
  driver_.submit(dma());
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(at(kSlot), std::byte{1});
  kernels_.released = true;
  EXPECT_EQ(finish().size(), 2u);
}

// That costs a page fault of the machine, which a quantum of steps ends with.
TEST_F(Ahead, MemoryThatIsTouchedForTheFirstTimeIsNotMovedAhead) {
  const auto fresh = driver_.acquire(4 * wire::kMiB).value();
  const std::uint64_t before = card_.card().pool.populated_granules();
  driver_.submit(block(stream_, Program::UntilReleased, kOnCore1));
  wire::ControlBlock first =
      driver_.dma(stream_, fwtest::RawDriver::host(kHost), fwtest::RawDriver::device(fresh, 0), kBytes);
  first.payload.dma.flags = wire::kDmaAhead;
  driver_.seal(first);
  driver_.submit(first);
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(card_.card().pool.populated_granules(), before);
  kernels_.released = true;
  EXPECT_EQ(finish().size(), 2u);
  EXPECT_GT(card_.card().pool.populated_granules(), before);
}

TEST_F(Ahead, TheTraceTellsWhatWasMovedAhead) {
  auto request = driver_.admin_request(wire::AdminCommand::Trace);
  request.arguments.trace.on = 1;
  ASSERT_EQ(driver_.admin(request).outcome, Outcome::Ok);
  driver_.submit(block(stream_, Program::UntilReleased, 3));
  const wire::ControlBlock moved = dma();
  driver_.submit(moved);
  EXPECT_TRUE(collect().empty());
  kernels_.released = true;
  EXPECT_EQ(finish().size(), 2u);
  const auto* ring = reinterpret_cast<const wire::TraceEntry*>(driver_.window().data() + wire::kTraceRing.offset);
  unsigned ahead = 0;
  for (std::uint64_t i = 0; i < wire::kTraceEntries && ring[i].number == i + 1; ++i) {
    if (ring[i].kind != wire::TraceKind::Ahead) continue;
    ++ahead;
    EXPECT_EQ(ring[i].sequence, moved.header.sequence);
    EXPECT_EQ(ring[i].value, moved.payload.dma.bytes);
  }
  EXPECT_EQ(ahead, 1u);
}

TEST_F(Ahead, WithoutTheFlagAndBehindAKernelOfCore0NothingMovesEarly) {
  put(std::byte{1});
  const struct {
    std::uint64_t mask;
    std::uint32_t flags;
  } kCases[] = {{kOnCore1, 0}, {1, wire::kDmaAhead}, {0, wire::kDmaAhead}};
  std::uint64_t to = kSlot;
  for (const auto& c : kCases) {
    kernels_.released = false;
    driver_.submit(block(stream_, Program::UntilReleased, c.mask));
    driver_.submit(dma(to, c.flags));
    EXPECT_TRUE(collect().empty());
    EXPECT_EQ(at(to), std::byte{0}) << c.mask;
    kernels_.released = true;
    EXPECT_EQ(finish().size(), 2u);
    EXPECT_EQ(at(to), std::byte{1}) << c.mask;
    to += wire::kMaxCorrectionBytes;
  }
}

// The kernel of a call is not the last that the call does: a block behind it may use what the DMA writes.
TEST_F(Ahead, BehindACallNothingMovesEarly) {
  EXPECT_EQ(run(Program::Exit, kOnCore1).outcome, Outcome::Ok);  // its record is that of the call afterwards
  put(std::byte{1});
  fwtest::StreamHandle scratch;
  wire::ControlBlock compute = block(scratch, Program::UntilReleased, kOnCore1);
  const std::uint8_t sticks = compute.header.sticks;
  compute.header = {};
  compute.header.magic = wire::kControlBlockMagic;
  compute.header.sticks = sticks;
  compute.header.opcode = wire::Opcode::Compute;
  constexpr std::uint64_t kBuffer = kHost + wire::kMiB;
  std::memcpy(driver_.at<std::byte>(kBuffer), &compute, sizeof compute);
  auto request = driver_.admin_request(wire::AdminCommand::BufferCreate);
  request.arguments.buffer_create = {kBuffer, 1, 0};
  const auto made = driver_.admin(request);
  ASSERT_EQ(made.outcome, Outcome::Ok) << wire::name(made.status) << " " << wire::name(made.field);
  wire::ControlBlock call = driver_.nop(stream_);
  call.header.opcode = wire::Opcode::Call;
  call.payload.call = {made.values.buffer.buffer, 0, made.values.buffer.epoch, 0, {}};
  driver_.seal(call);
  driver_.submit(call);
  driver_.submit(dma());
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(at(kSlot), std::byte{0});
  kernels_.released = true;
  const auto ends = finish();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].outcome, Outcome::Ok) << wire::name(ends[0].status) << " " << wire::name(ends[0].field);
  EXPECT_EQ(ends[1].outcome, Outcome::Ok);
  EXPECT_EQ(at(kSlot), std::byte{1});
}

TEST_F(Ahead, BehindAKernelThatFailsItEndsAbortedWithoutBytes) {
  put(std::byte{1});
  driver_.submit(block(stream_, Program::Endless, kOnCore1));
  driver_.submit(dma());
  EXPECT_TRUE(collect().empty());
  EXPECT_EQ(at(kSlot), std::byte{1});
  const auto ends = finish();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].outcome, Outcome::Timeout);
  EXPECT_EQ(ends[1].outcome, Outcome::Aborted);
  EXPECT_EQ(ends[1].bytes, 0u);
  EXPECT_EQ(ends[1].start_time, 0u);
  ASSERT_EQ(driver_.reset_stream(stream_).outcome, Outcome::Ok);
  put(std::byte{3});
  EXPECT_EQ(driver_.run(dma()).outcome, Outcome::Ok);
  EXPECT_EQ(at(kSlot), std::byte{3});
}

TEST_F(Ahead, AResetOfTheStreamEndsItOnce) {
  put(std::byte{1});
  driver_.submit(block(stream_, Program::Endless, kOnCore1));
  driver_.submit(dma());
  EXPECT_TRUE(collect().empty());
  driver_.send_admin(driver_.stream_request(wire::AdminCommand::StreamReset, stream_));
  const auto ends = finish();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[1].outcome, Outcome::Aborted);
  EXPECT_EQ(ends[1].bytes, 0u);
}

// A place that is wrong is told when the block comes to the head of its stream.
TEST_F(Ahead, ABadPlaceIsRejectedAtTheHeadOfTheStream) {
  driver_.submit(block(stream_, Program::UntilReleased, kOnCore1));
  driver_.submit(dma(programs_.bytes - wire::kStickBytes));
  EXPECT_TRUE(collect().empty());
  kernels_.released = true;
  const auto ends = finish();
  ASSERT_EQ(ends.size(), 2u);
  EXPECT_EQ(ends[0].outcome, Outcome::Ok);
  EXPECT_EQ(ends[1].outcome, Outcome::Rejected);
  EXPECT_EQ(ends[1].status, Status::OutOfBounds);
  EXPECT_EQ(ends[1].bytes, 0u);
}

// An image is loaded from what its bytes are when it is started.
TEST_F(Ahead, AnImageThatIsWrittenEarlyIsLoadedAnew) {
  EXPECT_EQ(run(Program::Exit, kOnCore1).outcome, Outcome::Ok);
  put(std::byte{0});
  driver_.submit(block(stream_, Program::UntilReleased, kOnCore1));
  driver_.submit(dma(static_cast<std::uint64_t>(Program::Exit) * fwtest::kImageStride));
  driver_.submit(block(stream_, Program::Exit, kOnCore1));
  EXPECT_TRUE(collect().empty());
  kernels_.released = true;
  const auto ends = finish();
  ASSERT_EQ(ends.size(), 3u);
  EXPECT_EQ(ends[2].outcome, Outcome::Rejected);
  EXPECT_EQ(ends[2].status, Status::ImageMagic);
}

}  // namespace
