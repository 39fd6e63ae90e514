// SPDX-License-Identifier: Apache-2.0
// A driver that changes what the card is reading (scenario F40): a thread writes rubbish over every byte of the window
// while the card works for it. The card goes on, its neighbours notice nothing, and after a function reset the function
// is as good as new, also for our own driver.
#include <atomic>
#include <random>
#include <thread>

#include "shared/memory_order.hpp"
#include "tests/conformance/attacker.hpp"
#include "tests/conformance/bystanders.hpp"

namespace svp::conformance {
namespace {

using fwtest::RawDriver;
using wire::Outcome;

// The words by which the driver finds back into step afterwards, each written by the card alone.
constexpr std::uint64_t kKept[] = {wire::kFifoToCard.offset + offsetof(wire::Fifo, read),
                                   wire::kFifoToHost.offset + offsetof(wire::Fifo, written)};

class Mutator {
 public:
  Mutator(std::span<std::byte> window, std::uint64_t seed) : window_(window), thread_([this, seed] { run(seed); }) {}
  ~Mutator() {
    stop_ = true;
    thread_.join();  // bounded: the flag is set; it only writes to memory
  }
  // How often every word of the window's blocks was written.
  std::uint64_t sweeps() const { return sweeps_; }
  void wait_for_sweep() const {
    const std::uint64_t before = sweeps_;
    const auto limit = test::soon();
    while (sweeps_ == before && Device::Clock::now() < limit) std::this_thread::yield();
    EXPECT_GT(sweeps_, before);
  }

 private:
  // What the card reads most, and where in it the few slots in use lie.
  static constexpr wire::Block kHot[] = {{wire::kQueueBlock.offset, 256},
                                         {wire::kQueueLayouts[wire::kControlBlockQueue].descriptors, 16384},
                                         {wire::kQueueLayouts[wire::kControlBlockQueue].driver_area, 256},
                                         {wire::kControlBlocks.offset, 4096},
                                         {wire::kAdminRequests.offset, 4096},
                                         {wire::kFifoToCard.offset, 4096},
                                         {wire::kFifoToHost.offset, 4096},
                                         {wire::kHostMemoryOffset, 65536}};
  // The blocks, and as much host memory.
  static constexpr std::uint64_t kSwept = 2 * wire::kHostMemoryOffset;

  void run(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::uint64_t at = 0; !stop_; at += 8) {
      if (at == kSwept) at = 0, ++sweeps_;
      spoil(at, random);
      const wire::Block& hot = kHot[random() % std::size(kHot)];
      spoil(hot.offset + random() % hot.bytes / 8 * 8, random);
    }
  }
  void spoil(std::uint64_t at, std::mt19937_64& random) {
    for (const std::uint64_t kept : kKept) {
      if (at == kept / 8 * 8) return;
    }
    auto& word = *reinterpret_cast<std::uint64_t*>(window_.data() + at);
    const std::uint64_t old = wire::load_relaxed(word);
    switch (random() % 4) {
      case 0: return wire::store_relaxed(word, random());
      case 1: return wire::store_relaxed(word, old ^ std::uint64_t{1} << random() % 64);
      case 2: return wire::store_relaxed(word, random() % 256);
      default: return wire::store_relaxed(word, old ^ std::uint64_t{0x8080} << 48);  // AVAIL and USED
    }
  }

  std::span<std::byte> window_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> sweeps_{0};
  std::thread thread_;
};

// Its FIFO may be full of rubbish that the card is still answering.
void find_back_into_step(RawDriver& driver) {
  auto& to_card = *driver.at<wire::Fifo>(wire::kFifoToCard.offset);
  auto& to_host = *driver.at<wire::Fifo>(wire::kFifoToHost.offset);
  const auto limit = test::soon();
  for (int calm = 0; calm < 200 && Device::Clock::now() < limit; driver.pump()) {
    const auto read = wire::load_acquire(to_card.read);
    calm = wire::load_relaxed(to_card.written) == read ? calm + 1 : 0;
    wire::store_release(to_card.written, read);
    wire::store_release(to_host.read, wire::load_acquire(to_host.written));
  }
}

// Straight into the rings: what comes back, if anything, is not looked at.
void work_regardless(Attacker& attacker, std::uint64_t seed) {
  Attempts attempts(attacker.targets(), seed);
  RawDriver& driver = attacker.driver();
  fwtest::StreamHandle stream;
  for (int i = 0; i < 400; ++i) {
    const auto block = attempts.control_block(stream);
    stream.next_sequence += attempts.below(2);
    const std::uint64_t slot = attempts.below(8);
    wire::store_shared_words(driver.at<std::uint64_t>(block_at(static_cast<unsigned>(slot))),
                             reinterpret_cast<const std::uint64_t*>(&block), sizeof block / 8);
    const auto sticks = std::clamp<std::uint32_t>(block.header.sticks, 1, wire::kMaxControlBlockSticks);
    const fwtest::RawBuffer chain[] = {
        {block_at(static_cast<unsigned>(slot)), sticks * static_cast<std::uint32_t>(wire::kStickBytes), false},
        {completion_at(static_cast<unsigned>(slot)), wire::kStickBytes, true}};
    driver.ring(wire::kControlBlockQueue).add(static_cast<std::uint16_t>(slot), chain);
    attacker.slot().pump();
  }
}

TEST(MutatedWindow, HurtsNobodyButItselfAndAResetHeals) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  Bystanders bystanders;
  bystanders.start_work();
  for (std::uint64_t round = 0; round < 4; ++round) {
    {
      Attacker attacker(bystanders.regions());
      ASSERT_TRUE(attacker.begin(wire::kOfferedFeatures & ~wire::kFeatureControlBlockCrc)) << "round " << round;
      {
        const Mutator mutator(attacker.slot().window(), attack_seed() + round);
        work_regardless(attacker, attack_seed() + round);
        mutator.wait_for_sweep();
      }
      find_back_into_step(attacker.driver());
      attacker.expect_works();
      if (testing::Test::HasFatalFailure()) break;
    }
    const auto device = provider().open();
    EXPECT_EQ(test::Workbench(*device).run(test::Workbench::nop()).outcome, Outcome::Ok);
    expect_healthy(*device);
  }
  bystanders.stop_work();
  bystanders.expect_untouched();
}

}  // namespace
}  // namespace svp::conformance
