// SPDX-License-Identifier: Apache-2.0
// Bytes to the card and back, on QEMU.
#include <sys/wait.h>
#include <unistd.h>

#include "tests/device/runtime/shared_context.hpp"
#include "tests/support/gate.hpp"

namespace svp {
namespace {

using test::fill_pattern;
using wire::kGiB;
using wire::kMiB;
using wire::kStickBytes;

class Transfers : public test::OneCard {
 protected:
  // Out and back through `host`, whatever kind of memory it is.
  static void round_trip(std::span<std::byte> host, AllocationIndex memory, std::uint64_t offset, std::uint64_t seed) {
    fill_pattern(host, seed);
    stream().Launch(Job::to_device(host.data(), memory, host.size(), offset), {});
    stream().Synchronize(test::soon());
    std::vector<std::byte> expected(host.begin(), host.end());
    std::fill(host.begin(), host.end(), std::byte{0xEE});
    stream().Launch(Job::from_device(host.data(), memory, host.size(), offset), {});
    stream().Synchronize(test::soon());
    EXPECT_EQ(std::memcmp(host.data(), expected.data(), host.size()), 0) << host.size() << " bytes at " << offset;
  }
};

TEST_F(Transfers, SmallNumbersOfSticksAndOddBytes) {
  const auto memory = allocate(1 * kMiB);
  PinnedBuffer pinned = context().host_memory().allocate(66 * kStickBytes);
  std::vector<std::byte> pageable(66 * kStickBytes);
  for (const std::uint64_t sticks : {1, 2, 3, 63, 64, 65}) {
    for (const std::uint64_t bytes : {sticks * kStickBytes, sticks * kStickBytes - 1, sticks * kStickBytes - 127}) {
      round_trip(pinned.bytes().first(bytes), memory, 0, bytes);
      round_trip(std::span(pageable).first(bytes), memory, kStickBytes, bytes);
    }
  }
  free(memory);
}

TEST_F(Transfers, PowersOfTwoAndTheirNeighboursPinned) {
  PinnedBuffer pinned = context().host_memory().allocate(128 * kMiB);
  const auto memory = allocate(128 * kMiB);
  for (std::uint64_t bytes = 4096; bytes <= 128 * kMiB; bytes *= 8) {
    for (const std::uint64_t size : {bytes - kStickBytes, bytes, bytes + kStickBytes}) {
      if (size <= pinned.size()) round_trip(pinned.bytes().first(size), memory, 0, size);
    }
  }
  round_trip(pinned.bytes(), memory, 0, 128);
  free(memory);
}

TEST_F(Transfers, QuarterOfAGigabyteFromPageableMemoryDoesNotBlockLaunch) {
  std::vector<std::byte> out(256 * kMiB);
  std::vector<std::byte> back(out.size());
  fill_pattern(out, 11);
  const auto memory = allocate(out.size());
  test::Gate gate;
  stream().LaunchHost(gate.passing());  // nothing behind it moves: a launch that waited for a copy would never return
  stream().Launch(Job::to_device(out.data(), memory, out.size()), {});
  stream().Launch(Job::from_device(back.data(), memory, back.size()), {});
  EXPECT_FALSE(stream().Query());
  gate.open();
  stream().Synchronize(test::soon());
  EXPECT_EQ(std::memcmp(out.data(), back.data(), out.size()), 0);
  free(memory);
}

TEST_F(Transfers, RegionStartEndAndGranuleEdges) {
  const std::uint64_t region = 12 * kGiB;
  const auto memory = allocate(region);
  ASSERT_EQ(context().runtime().allocator().resolve(memory).address.offset, 0u) << "a region of its own";
  PinnedBuffer pinned = context().host_memory().allocate(4 * kMiB);
  std::vector<std::byte> pageable(3 * kStickBytes);
  round_trip(pinned.bytes().first(kStickBytes), memory, 0, 1);
  round_trip(std::span(pageable), memory, region - pageable.size(), 2);
  round_trip(pinned.bytes().first(2 * kMiB + 256), memory, region - 2 * kMiB - 256, 3);
  for (const std::uint64_t edge : {2 * kMiB, 4 * kMiB, region / 2}) {
    round_trip(pinned.bytes().first(2 * kStickBytes), memory, edge - kStickBytes, edge);
    round_trip(pinned.bytes().first(2 * kMiB + 2 * kStickBytes), memory, edge - kStickBytes, edge + 1);
  }
  free(memory);
}

TEST_F(Transfers, AStreamIsFirstInFirstOut) {
  const auto memory = allocate(4096);
  std::vector<std::array<std::uint64_t, 16>> seen(200);
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    stream().Launch(Job::fill(memory, 4096, i), {});
    stream().Launch(Job::from_device(seen[i].data(), memory, sizeof seen[i]), {});
  }
  stream().Synchronize(test::soon());
  for (std::uint64_t i = 0; i < seen.size(); ++i) {
    for (const std::uint64_t word : seen[i]) EXPECT_EQ(word, i);
  }
  free(memory);
}

TEST_F(Transfers, TwoStreamsDoNotMix) {
  FlexStream& other = context().runtime().next_stream(StreamPriority::High);
  const auto mine = allocate(2 * kMiB);
  const auto theirs = allocate(2 * kMiB);
  std::vector<std::byte> a(2 * kMiB), b(2 * kMiB), back_a(2 * kMiB), back_b(2 * kMiB);
  fill_pattern(a, 21);
  fill_pattern(b, 22);
  for (int i = 0; i < 8; ++i) {
    stream().Launch(Job::to_device(a.data(), mine, a.size()), {});
    other.Launch(Job::to_device(b.data(), theirs, b.size()), {});
  }
  stream().Launch(Job::from_device(back_a.data(), mine, back_a.size()), {});
  other.Launch(Job::from_device(back_b.data(), theirs, back_b.size()), {});
  stream().Synchronize(test::soon());
  other.Synchronize(test::soon());
  EXPECT_EQ(back_a, a);
  EXPECT_EQ(back_b, b);
  free(mine);
  free(theirs);
}

// Also when a broker empties the window of an owner that has ended.
TEST_F(Transfers, RegisteredMemoryKeepsItsContentWhenTheContextEnds) {
  constexpr std::size_t kBytes = 2 * kMiB;
  const std::unique_ptr<void, decltype(&std::free)> heap(std::aligned_alloc(4096, kBytes), std::free);
  const std::span pages(static_cast<std::byte*>(heap.get()), kBytes);
  const auto memory = allocate(kBytes);
  context().host_memory().register_memory(pages);
  const auto before = context().runtime().transfer_counters().snapshot();
  round_trip(pages, memory, 0, 91);
  EXPECT_EQ(context().runtime().transfer_counters().snapshot().direct_bytes - before.direct_bytes, 2 * kBytes);
  const std::vector<std::byte> expected(pages.begin(), pages.end());
  opened.reset();
  EXPECT_EQ(std::memcmp(pages.data(), expected.data(), kBytes), 0);
  SetUpTestSuite();
}

// A worker of a data loader: forked without exec, it destroys what it inherited and exits. One opens a card of its own.
[[noreturn]] void work_and_exit(std::unique_ptr<svp::Context>& inherited, bool opens) {
  ::alarm(static_cast<unsigned>(test::kBound.count()));  // a worker that hangs ends by a signal
  int code = 0;
  try {
    inherited->runtime().default_stream().Synchronize();
    code = 40;
  } catch (const Error& error) {
    if (error.info().message.find("forked") == std::string::npos) code = 41;
  }
  inherited.reset();
  if (opens) {
    const auto own = svp::Context::open({.card = CardOptions{}});
    std::vector<std::byte> out(4096, std::byte{9}), back(out.size());
    const auto memory = own->runtime().allocator().allocate(out.size());
    FlexStream& stream = own->runtime().default_stream();
    stream.Launch(Job::to_device(out.data(), memory, out.size()), {});
    stream.Launch(Job::from_device(back.data(), memory, back.size()), {});
    stream.Synchronize(test::soon());
    if (back != out) code = 42;
  }
  std::exit(code);
}

TEST_F(Transfers, ForkedWorkersExitAndTheProgramGoesOn) {
  const auto memory = allocate(4 * kMiB);
  PinnedBuffer pinned = context().host_memory().allocate(4 * kMiB);
  for (int i = 0; i < 4; ++i) {
    stream().Launch(Job::to_device(pinned.data(), memory, pinned.size()), {});
    const pid_t worker = ::fork();
    ASSERT_GE(worker, 0);
    if (worker == 0) work_and_exit(opened, i == 3);
    round_trip(pinned.bytes(), memory, 0, 70 + static_cast<unsigned>(i));
    int status = 0;
    ASSERT_EQ(::waitpid(worker, &status, 0), worker);  // bounded: the worker's alarm
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
    round_trip(pinned.bytes(), memory, 0, 80 + static_cast<unsigned>(i));
  }
  free(memory);
}

TEST_F(Transfers, OutOfMemoryTellsItsNumbers) {
  try {
    allocate(20 * kGiB);
    FAIL() << "a block larger than a region was granted";
  } catch (const OutOfMemory& error) {
    EXPECT_EQ(error.requested(), 20 * kGiB);
    EXPECT_GT(error.total_bytes(), 0u);
  }
  const auto memory = allocate(128);
  free(memory);
}

}  // namespace
}  // namespace svp
