// SPDX-License-Identifier: Apache-2.0
// What a tenant can do to its doorbells: flood the one it rings, never listen to the other, change flags, close both. A
// doorbell is a hint; none of it may reach the emulator's loop or another function.
#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <fstream>
#include <optional>
#include <sstream>
#include <thread>

#include "host_driver/transport/window.hpp"
#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace svp {
namespace {

using fwtest::RawDriver;
using wire::Outcome;

constexpr unsigned kVirtualSlot = 2;
// More doorbells than a pipe holds.
constexpr unsigned kUnheardDoorbells = 20'000;

class HostileDoorbells : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    card_ = test::boot();
    physical_ = value_or_throw(card_->open_physical());
    neighbour_.emplace(*physical_);
  }
  static void TearDownTestSuite() {
    neighbour_.reset();
    physical_.reset();
    card_.reset();
  }

  void TearDown() override { test::expect_healthy(*card_, *physical_); }

  static SlotHandle slot() {
    auto handle = card_->machine().slot(kVirtualSlot);
    if (!handle) throw std::runtime_error(qemu::to_string(handle.error()));
    return *std::move(handle);
  }
  static void ring(const SlotHandle& handle) {
    const std::uint64_t word = 1;
    [[maybe_unused]] const auto written = ::write(handle.doorbell_to_card(), &word, sizeof word);
  }

  // The neighbour's work, with its data checked.
  static void neighbour_works(unsigned rounds) {
    for (unsigned i = 0; i < rounds; ++i) {
      const std::uint64_t pattern = 0x0101010101010101u * (i % 255 + 1);
      ASSERT_EQ(neighbour_->run(test::Workbench::fill(neighbour_->tensor(0), 4096, pattern)).outcome, Outcome::Ok);
      ASSERT_EQ(neighbour_->run(test::Workbench::dma(neighbour_->tensor(0), neighbour_->host(0), 4096)).outcome,
                Outcome::Ok);
      ASSERT_EQ(*reinterpret_cast<const std::uint64_t*>(physical_->host_memory().data()), pattern);
    }
  }
  static void virtual_function_works() {
    const auto device = value_or_throw(card_->open_virtual(1));
    const test::Workbench bench(*device);
    EXPECT_EQ(bench.run(test::Workbench::fill(bench.tensor(0), 4096, 7)).outcome, Outcome::Ok);
  }

  static inline std::unique_ptr<Card> card_;
  static inline std::unique_ptr<Device> physical_;
  static inline std::optional<test::Workbench> neighbour_;
};

TEST_F(HostileDoorbells, AFloodIsOnlySlow) {
  const auto handle = slot();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> signalled{0};
  std::thread flood([&] {
    std::array<std::byte, 4096> many{};
    while (!stop) signalled += ::write(handle.doorbell_to_card(), many.data(), many.size()) > 0 ? many.size() / 8 : 0;
  });
  // A flood that has just begun is none.
  const auto limit = std::chrono::steady_clock::now() + test_bounds::kWork;
  do {
    neighbour_works(200);
  } while (signalled.load() <= kUnheardDoorbells && std::chrono::steady_clock::now() < limit);
  stop = true;
  flood.join();  // bounded: the flag is set; its pipe does not block
  EXPECT_GT(signalled.load(), kUnheardDoorbells);
  virtual_function_works();
}

TEST_F(HostileDoorbells, ATenantThatNeverListensStopsNobody) {
  const auto handle = slot();
  const auto window = value_or_throw(Window::map(handle.window_fd(), handle.window_bytes()));
  RawDriver driver(window->bytes(), [&] {
    ring(handle);
    std::this_thread::yield();
  });
  ASSERT_TRUE(driver.bring_up());
  fwtest::StreamHandle stream;
  // One doorbell is asked for each block, and not one is read.
  for (unsigned i = 0; i < kUnheardDoorbells; ++i) {
    driver.ring(wire::kControlBlockQueue).ask_for_next(false);
    ASSERT_EQ(driver.run(driver.nop(stream)).outcome, Outcome::Ok) << i;
  }
  neighbour_works(100);
  EXPECT_EQ(driver.set_status(0), 0u);
  virtual_function_works();
}

TEST_F(HostileDoorbells, FlagsOfATenantsEndsAreItsOwn) {
  const auto handle = slot();
  for (const int fd : {handle.doorbell_to_card(), handle.doorbell_from_card()}) {
    const int flags = ::fcntl(fd, F_GETFL);
    ASSERT_EQ(::fcntl(fd, F_SETFL, flags & ~O_NONBLOCK), 0);
  }
  std::array<std::byte, 64> byte{};
  std::thread blocked([&] {
    for (int i = 0; i < 2000; ++i) ring(handle);
  });
  neighbour_works(200);
  blocked.join();  // bounded: the card drains the pipe that it writes to
  for (const int fd : {handle.doorbell_to_card(), handle.doorbell_from_card()}) {
    ASSERT_EQ(::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK), 0);
  }
  while (::read(handle.doorbell_from_card(), byte.data(), byte.size()) > 0) {  // bounded: O_NONBLOCK was set above
  }
  virtual_function_works();
}

TEST_F(HostileDoorbells, ClosedEndsDoNotKeepTheEmulatorBusy) {
  {
    const auto closed = slot();
  }
  neighbour_works(1);
  // Nobody wants anything for half a second: a loop that spins on a pipe's end would take all of it.
  const std::uint64_t before = test::cpu_ticks(card_->machine().pid());
  std::this_thread::sleep_for(test_bounds::kRest);  // bounded: the time that is measured
  const double used = static_cast<double>(test::cpu_ticks(card_->machine().pid()) - before) /
                      static_cast<double>(::sysconf(_SC_CLK_TCK));
  EXPECT_LT(used, 0.2) << "seconds of CPU time in half a second of rest";
  virtual_function_works();
}

}  // namespace
}  // namespace svp
