// SPDX-License-Identifier: Apache-2.0
#include "host_driver/transport/window.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <csignal>

#include "host_driver/transport/doorbells.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/transport/control_peer.hpp"

namespace svp {
namespace {

TEST(Window, OnlyAFileOfExactlyTheGivenLegalSizeIsMapped) {
  const int fd = ::memfd_create("w", MFD_CLOEXEC);
  ASSERT_EQ(::ftruncate(fd, 4 << 20), 0);
  EXPECT_TRUE(Window::map(fd, 4 << 20));
  for (const std::uint64_t bytes : {std::uint64_t{0}, std::uint64_t{4096}, std::uint64_t{2 << 20},
                                    std::uint64_t{3 << 20}, std::uint64_t{8 << 20}, std::uint64_t{1} << 40}) {
    const auto window = Window::map(fd, bytes);
    ASSERT_FALSE(window) << bytes;
    EXPECT_FALSE(window.error().next_step.empty());
  }
  EXPECT_FALSE(Window::map(-1, 4 << 20));
  ::close(fd);
}

TEST(Window, TheMappingOutlivesTheDescriptorAndIsShared) {
  test::ControlPeer peer;
  wire::store_relaxed(peer.header().heartbeat, std::uint64_t{17});
  const auto slot = peer.slot();
  const auto window = Window::map(slot.window_fd(), slot.window_bytes()).value();
  EXPECT_EQ(window->heartbeat(), 17u);
  EXPECT_EQ(window->header().magic, wire::kWindowMagic);
  EXPECT_EQ(window->host_memory().size(), slot.window_bytes() - wire::kHostMemoryOffset);
}

TEST(Doorbells, ADeadReaderIsNeitherASignalNorAnError) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC | O_NONBLOCK), 0);
  int back[2];
  ASSERT_EQ(::pipe2(back, O_CLOEXEC | O_NONBLOCK), 0);
  Doorbells doorbells({1, wire::kMinWindowBytes, UniqueFd{}, UniqueFd{fds[1]}, UniqueFd{back[0]}}, FaultHooks{});
  ::close(fds[0]);
  for (int i = 0; i < 20'000; ++i) doorbells.ring();  // also more than the pipe holds
  EXPECT_EQ(doorbells.signalled(), 20'000u);
  ::close(back[1]);
  EXPECT_TRUE(doorbells.sleep(-1, -1, test_bounds::kThread).gone)
      << "a doorbell that hung up means that the emulator has ended";
}

TEST(Doorbells, LostRingsAreAsOftenAsAskedForAndTheSameForTheSameSeed) {
  for (const double p : {0.0, 0.25, 1.0}) {
    Chance one(p, 42), two(p, 42);
    int fired = 0;
    for (int i = 0; i < 10'000; ++i) {
      const bool now = one.fires();
      ASSERT_EQ(now, two.fires());
      fired += now;
    }
    EXPECT_NEAR(fired, p * 10'000, 200);
  }
}

TEST(Doorbells, ARingThatAHookTakesAwayDoesNotEndTheSleepEarly) {
  test::ControlPeer peer;
  FaultHooks faults;
  faults.drop_doorbells_from_card = 1;
  Doorbells doorbells(peer.slot(), faults);
  peer.ring();
  const auto start = std::chrono::steady_clock::now();
  const auto wakeup = doorbells.sleep(-1, -1, test_bounds::kExpires);
  EXPECT_FALSE(wakeup.rang || wakeup.gone);
  // elapsed: a late thread only makes it longer
  EXPECT_GE(std::chrono::steady_clock::now() - start, test_bounds::kExpires);
}

}  // namespace
}  // namespace svp
