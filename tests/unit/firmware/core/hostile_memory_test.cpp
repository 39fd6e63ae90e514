// SPDX-License-Identifier: Apache-2.0
// A driver that changes what the card is reading (scenario F40): a second thread writes rubbish into control blocks,
// requests, descriptors, event areas and FIFO slots while the card works. The card keeps going, hurts nobody else, and
// after a function reset the same function is as good as new. The sanitizers are the judges of the rest.
#include <gtest/gtest.h>

#include <atomic>
#include <random>
#include <thread>

#include "shared/memory_order.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::StreamHandle;
using wire::Outcome;

// Words of these blocks are all that a driver writes.
constexpr wire::Block kWritten[] = {wire::kQueueBlock, wire::kControlBlocks, wire::kAdminRequests, wire::kFifoToCard};

class Mutator {
 public:
  Mutator(std::span<std::byte> window, std::uint64_t seed, bool everything)
      : window_(window), thread_([this, seed, everything] { run(seed, everything); }) {}
  ~Mutator() {
    stop_ = true;
    thread_.join();  // bounded: the flag is set; it only writes to memory
  }

 private:
  void run(std::uint64_t seed, bool everything) {
    std::mt19937_64 random(seed);
    while (!stop_) {
      const wire::Block& block = everything ? kWritten[random() % 4] : kWritten[1 + random() % 2];
      // Mostly where the few blocks in use are.
      const std::uint64_t span = random() % 4 == 0 ? block.bytes : std::min<std::uint64_t>(block.bytes, 4096);
      const std::uint64_t at = block.offset + random() % span / 8 * 8;
      // The card's own index stays: it is how the driver finds back into step.
      if (at == wire::kFifoToCard.offset + offsetof(wire::Fifo, read)) continue;
      auto& word = *reinterpret_cast<std::uint64_t*>(window_.data() + at);
      const std::uint64_t old = wire::load_relaxed(word);
      switch (random() % 4) {
        case 0: wire::store_relaxed(word, random()); break;
        case 1: wire::store_relaxed(word, old ^ std::uint64_t{1} << random() % 64); break;
        case 2: wire::store_relaxed(word, random() % 256); break;
        default: wire::store_relaxed(word, old ^ std::uint64_t{0x8080} << 48); break;  // AVAIL and USED
      }
    }
  }

  std::span<std::byte> window_;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

// Its FIFO may be full of rubbish that the card is still answering.
void find_back_into_step(fwtest::TestCard& card, fwtest::RawDriver& driver) {
  auto& fifo = *driver.at<wire::Fifo>(wire::kFifoToCard.offset);
  for (int calm = 0; calm < 200;) {
    const auto read = wire::load_acquire(fifo.read);
    calm = wire::load_relaxed(fifo.written) == read ? calm + 1 : 0;
    wire::store_release(fifo.written, read);
    while (driver.receive()) {  // bounded: there are no more messages than the FIFO holds
    }
    card.pump();
  }
}

class HostileMemory : public testing::TestWithParam<bool> {};

TEST_P(HostileMemory, HurtsNobodyButItself) {
  fwtest::TestCard card;
  auto& hostile = card.driver(2);
  auto& bystander = card.driver(1);
  ASSERT_TRUE(bystander.bring_up());
  const auto region = bystander.acquire(8 * wire::kMiB).value();
  StreamHandle stream;
  ASSERT_EQ(bystander.run(bystander.fill(stream, region, 0, region.bytes, 0x0123456789abcdef)).outcome, Outcome::Ok);
  card.start_loop();
  for (std::uint64_t round = 0; round < 6; ++round) {
    ASSERT_TRUE(hostile.bring_up(wire::kOfferedFeatures & ~wire::kFeatureControlBlockCrc));
    const auto mine = hostile.acquire(8 * wire::kMiB);
    ASSERT_TRUE(mine);
    std::vector<StreamHandle> streams(1);
    for (int i = 0; i < 3; ++i) streams.push_back(hostile.open_stream().value());
    {
      const Mutator mutator(hostile.window(), round, GetParam());
      std::mt19937_64 random(round);
      for (int i = 0; i < 400; ++i) {
        // Straight into the ring: what comes back, if anything, is not looked at.
        auto& s = streams[random() % streams.size()];
        const auto block = random() % 2 == 0 ? hostile.nop(s) : hostile.fill(s, *mine, 0, 1 + random() % 100000, 1);
        const std::uint64_t slot = random() % 8;
        const std::uint64_t cb = wire::kControlBlocks.offset + slot * wire::kControlBlockSlotBytes;
        wire::store_shared_words(hostile.at<std::uint64_t>(cb), reinterpret_cast<const std::uint64_t*>(&block), 16);
        const fwtest::RawBuffer chain[] = {{cb, 128, false},
                                           {wire::kCompletions.offset + slot * wire::kStickBytes, 128, true}};
        hostile.ring(wire::kControlBlockQueue).add(static_cast<std::uint16_t>(slot), chain);
        card.board().doorbell();
        if (i % 8 == 0) ASSERT_EQ(bystander.run(bystander.nop(stream)).outcome, Outcome::Ok);
      }
    }
    find_back_into_step(card, hostile);
  }
  const auto host = fwtest::RawDriver::host(wire::kHostMemoryOffset);
  ASSERT_EQ(bystander.run(bystander.dma(stream, fwtest::RawDriver::device(region, 0), host, 65536)).outcome,
            Outcome::Ok);
  card.stop_loop();
  for (int i = 0; i < 8192; ++i) {
    ASSERT_EQ(bystander.at<std::uint64_t>(wire::kHostMemoryOffset)[i], 0x0123456789abcdefu);
  }
  EXPECT_EQ(hostile.header().magic, wire::kWindowMagic);
}

INSTANTIATE_TEST_SUITE_P(Of, HostileMemory, testing::Bool(),
                         [](const auto& info) { return info.param ? "EverythingItWrites" : "BlocksAndRequests"; });

}  // namespace
