// SPDX-License-Identifier: Apache-2.0
// Rings and control messages that break the rules (scenarios F5, F13), written into the window by a driver that is
// not ours: circular, over-long, as long as the ring, partly published, with buffers where none may be. The card
// refuses them, goes on, and the function beside it notices nothing.
#include <algorithm>
#include <cstring>
#include <optional>
#include <random>

#include "shared/memory_order.hpp"
#include "tests/conformance/bare_slot.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace svp::conformance {
namespace {

using fwtest::RawBuffer;
using fwtest::RawDriver;
using wire::Outcome;
using wire::Status;

constexpr std::uint16_t kRing = wire::kControlBlockQueueSize;
constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint32_t kStick = wire::kStickBytes;

class HostileRings : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    beside_ = provider().open_bystander();
    neighbour_.emplace(*beside_);
    ASSERT_EQ(neighbour_->run(test::Workbench::fill(neighbour_->tensor(0), 4096, kNeighbourPattern)).outcome,
              Outcome::Ok);
  }
  static void TearDownTestSuite() {
    neighbour_.reset();
    beside_.reset();
  }

  void SetUp() override {
    slot_.emplace(provider().slot());
    driver_.emplace(slot_->window(), [this] { slot_->pump(); });
    ASSERT_TRUE(driver_->bring_up());
    region_ = driver_->acquire(2 * wire::kMiB).value();
    stream_ = {};
    ASSERT_EQ(driver_->run(driver_->fill(stream_, region_, 0, 4096, kPattern)).outcome, Outcome::Ok);
    canary_ = window_copy(wire::host_memory(slot_->window().size()).offset, kCanaryBytes);
  }

  void TearDown() override {
    EXPECT_TRUE(window_copy(wire::kHostMemoryOffset, kCanaryBytes) == canary_) << "host memory changed";
    EXPECT_TRUE(driver_->set_status(0) == 0);
    expect_healthy(*beside_);
    // The neighbour: its memory, and its work.
    ASSERT_EQ(neighbour_->run(test::Workbench::dma(neighbour_->tensor(0), neighbour_->host(0), 4096)).outcome,
              Outcome::Ok);
    const auto* words = reinterpret_cast<const std::uint64_t*>(beside_->host_memory().data());
    EXPECT_TRUE(std::all_of(words, words + 512, [](std::uint64_t w) { return w == kNeighbourPattern; }));
  }

  wire::ControlBlock fill_block() { return driver_->fill(stream_, region_, 0, 4096, kPattern + 1); }
  void place(unsigned slot, const wire::ControlBlock& block) const {
    std::memcpy(slot_->window().data() + block_at(slot), &block, sizeof block);
  }
  fwtest::RawRing& ring() { return driver_->ring(wire::kControlBlockQueue); }

  std::vector<std::byte> window_copy(std::uint64_t offset, std::size_t bytes) const {
    const auto part = slot_->window().subspan(offset, bytes);
    return {part.begin(), part.end()};
  }

  std::uint64_t violations() {
    return driver_->admin(driver_->admin_request(wire::AdminCommand::Stats)).values.stats.ring_violations;
  }

  std::optional<fwtest::UsedElement> next_used() {
    const auto end = test::soon();
    while (Device::Clock::now() < end) {
      if (auto used = ring().poll()) return used;
      slot_->pump();
    }
    return std::nullopt;
  }

  // The chain with `id` of `slots` descriptors comes back refused: without a completion slot as length 0, else with the
  // reason.
  void expect_refused(std::uint16_t id, std::uint16_t slots, std::optional<unsigned> completion, Status status) {
    ring().expect_chain(id, slots);
    const auto used = next_used();
    ASSERT_TRUE(used) << "the chain never came back";
    EXPECT_EQ(used->id, id);
    if (!completion) {
      EXPECT_EQ(used->written, 0u);
    } else {
      EXPECT_EQ(used->written, kStick);
      wire::Completion end;
      std::memcpy(&end, slot_->window().data() + completion_at(*completion), sizeof end);
      EXPECT_EQ(end.outcome, Outcome::Rejected);
      EXPECT_EQ(end.status, status) << wire::name(end.status);
      EXPECT_EQ(end.field, wire::Field::Chain);
    }
  }

  // The region is as it was and the ring takes good blocks.
  void expect_ring_goes_on() {
    const auto end = driver_->run(driver_->nop(stream_));
    ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
    const std::uint64_t at = wire::kHostMemoryOffset + 2 * wire::kMiB;
    ASSERT_EQ(driver_->run(driver_->dma(stream_, RawDriver::device(region_, 0), RawDriver::host(at), 4096)).outcome,
              Outcome::Ok);
    const auto* words = reinterpret_cast<const std::uint64_t*>(slot_->window().data() + at);
    EXPECT_TRUE(std::all_of(words, words + 512, [](std::uint64_t w) { return w == kPattern; }))
        << "a block was executed";
  }

  static constexpr std::uint64_t kPattern = 0x1122334455667788;
  static constexpr std::uint64_t kNeighbourPattern = 0x0102030405060708;
  static constexpr std::size_t kCanaryBytes = 1 * wire::kMiB;

  static inline std::unique_ptr<Device> beside_;
  static inline std::optional<test::Workbench> neighbour_;
  std::optional<BareSlot> slot_;
  std::optional<RawDriver> driver_;
  fwtest::RegionHandle region_{};
  fwtest::StreamHandle stream_;
  std::vector<std::byte> canary_;
};

// NEXT on every descriptor of the ring: it closes on itself, and is as long as the ring.
TEST_F(HostileRings, AChainAsLongAsTheRingIsRefusedAndTheRingGoesOn) {
  for (int round = 0; round < 3; ++round) {
    SCOPED_TRACE(round);
    const std::uint64_t before = violations();
    place(0, driver_->nop(stream_));
    --stream_.next_sequence;
    // From the back to the front, so that the card can not meet a part of it.
    std::vector<std::uint16_t> order;
    std::uint16_t at = ring().next_avail();
    bool wrap = ring().avail_wrap();
    struct Place {
      std::uint16_t at;
      bool wrap;
    };
    std::vector<Place> places;
    for (unsigned i = 0; i < kRing; ++i) {
      places.push_back({at, wrap});
      if (++at == kRing) at = 0, wrap = !wrap;
    }
    for (auto p = places.rbegin(); p != places.rend(); ++p) {
      const auto flags = static_cast<std::uint16_t>(wire::avail_flags(p->wrap) | wire::kDescNext);
      wire::store_relaxed(ring().words(p->at).address, block_at(0));
      wire::store_release(ring().words(p->at).tail, wire::pack_tail({kStick, 7, flags}));
    }
    ring().skip(kRing);
    expect_refused(7, kRing, std::nullopt, Status::BadChain);
    EXPECT_EQ(violations(), before + 1);
    expect_ring_goes_on();
  }
}

TEST_F(HostileRings, OverLongAndMisorderedChainsAreRefused) {
  const RawBuffer block{block_at(0), kStick, false};
  const RawBuffer end{completion_at(0), kStick, true};
  struct Bad {
    const char* what;
    std::vector<RawBuffer> chain;
    bool told;  // with a reason, in its completion slot
  };
  const std::vector<Bad> cases = {
      {"two blocks", {block, block, end}, true},
      {"two completions", {block, end, end}, true},
      {"completion first", {end, block}, true},
      {"no block", {end}, true},
      {"no completion", {block}, false},
      {"three times three", std::vector<RawBuffer>(9, block), false},
      {"hundred", std::vector<RawBuffer>(100, end), true},
      {"empty block", {{block_at(0), 0, false}, end}, true},
      {"empty completion", {block, {completion_at(0), 0, true}}, false},
  };
  for (const Bad& bad : cases) {
    SCOPED_TRACE(bad.what);
    const std::uint64_t before = violations();
    wire::ControlBlock good = fill_block();
    --stream_.next_sequence;
    place(0, good);
    ring().add(3, bad.chain);
    const auto used = next_used();
    ASSERT_TRUE(used);
    EXPECT_EQ(used->id, 3u);
    if (!bad.told) EXPECT_EQ(used->written, 0u);
    EXPECT_EQ(violations(), before + 1);
    expect_ring_goes_on();
  }
}

TEST_F(HostileRings, AChainThatIsPublishedInPartIsRefusedAndItsRestIsJudgedByItself) {
  place(0, fill_block());
  --stream_.next_sequence;
  // The head says NEXT, but what follows has not been made available.
  ring().add_raw(5, block_at(0), kStick, wire::kDescNext);
  ring().expect_chain(5, 1);
  auto used = next_used();
  ASSERT_TRUE(used);
  EXPECT_EQ(used->written, 0u);
  ring().add_raw(6, completion_at(0), kStick, wire::kDescWrite);
  ring().expect_chain(6, 1);
  used = next_used();
  ASSERT_TRUE(used);
  EXPECT_EQ(used->id, 6u);
  expect_ring_goes_on();
}

TEST_F(HostileRings, BuffersWhereNoneMayBeAreRefused) {
  const std::uint64_t window = slot_->window().size();
  const RawBuffer end{completion_at(0), kStick, true};
  const RawBuffer block{block_at(0), kStick, false};
  const std::vector<std::vector<RawBuffer>> blocks = {
      {{0, kStick, false}, end},
      {{wire::kQueueBlock.offset, kStick, false}, end},
      {{wire::kHostMemoryOffset, kStick, false}, end},
      {{wire::kControlBlocks.end(), kStick, false}, end},
      {{wire::kControlBlocks.end() - kStick, 2 * kStick, false}, end},
      {{block_at(0) + 64, kStick, false}, end},
      {{block_at(0), kStick - 1, false}, end},
      {{block_at(0), 5 * kStick, false}, end},
      {{block_at(0), ~0u, false}, end},
      {{window, kStick, false}, end},
      {{window - 64, kStick, false}, end},
      {{kMax - 127, kStick, false}, end},
      {{0x80000000, kStick, false}, end},
  };
  for (const auto& chain : blocks) {
    SCOPED_TRACE(chain[0].offset);
    place(0, fill_block());
    --stream_.next_sequence;
    ring().add(9, chain);
    expect_refused(9, 2, 0, Status::BadDescriptor);
    expect_ring_goes_on();
  }
  const std::vector<RawBuffer> completions = {
      {0, kStick, true},
      {wire::kQueueBlock.offset, kStick, true},
      {block_at(1), kStick, true},
      {wire::kHostMemoryOffset, kStick, true},
      {wire::kStartedSequences.offset, kStick, true},
      {completion_at(0) + 8, kStick, true},
      {completion_at(0), kStick - 8, true},
      {wire::kCompletions.end(), kStick, true},
      {kMax - 127, kStick, true},
      {0x10000000, kStick, true},
  };
  for (const auto& completion : completions) {
    SCOPED_TRACE(completion.offset);
    place(0, fill_block());
    --stream_.next_sequence;
    const auto header = window_copy(0, 128);
    const RawBuffer chain[] = {block, completion};
    ring().add(9, chain);
    expect_refused(9, 2, std::nullopt, Status::BadDescriptor);
    EXPECT_EQ(window_copy(0, 128), header);
    expect_ring_goes_on();
  }
}

TEST_F(HostileRings, BadIndirectTablesAreRefused) {
  ASSERT_TRUE(driver_->bring_up(wire::kMandatoryFeatures | wire::kFeatureIndirectDesc));
  region_ = driver_->acquire(2 * wire::kMiB).value();
  stream_ = {};
  ASSERT_EQ(driver_->run(driver_->fill(stream_, region_, 0, 4096, kPattern)).outcome, Outcome::Ok);
  const std::uint64_t table = wire::kHostMemoryOffset + 4 * wire::kMiB;
  const RawBuffer block{block_at(0), kStick, false};
  const RawBuffer end{completion_at(0), kStick, true};
  const auto table_bytes = [](unsigned entries) {
    return static_cast<std::uint32_t>(entries * sizeof(wire::Descriptor));
  };
  // A good one first.
  place(0, driver_->nop(stream_));
  const RawBuffer good[] = {block, end};
  ring().add_indirect(1, table, good);
  auto used = next_used();
  ASSERT_TRUE(used);
  EXPECT_EQ(used->written, kStick);

  const auto refused = [&](const char* what, std::uint64_t at, std::uint32_t bytes, std::uint16_t more = 0) {
    SCOPED_TRACE(what);
    place(0, fill_block());
    --stream_.next_sequence;
    ring().add_raw(2, at, bytes, static_cast<std::uint16_t>(wire::kDescIndirect | more));
    ring().expect_chain(2, 1);
    const auto back = next_used();
    ASSERT_TRUE(back);
    EXPECT_EQ(back->id, 2u);
    expect_ring_goes_on();
  };
  refused("empty", table, 0);
  refused("half an entry", table, table_bytes(2) - 8);
  refused("longer than allowed", table, table_bytes(wire::kMaxIndirectEntries + 1));
  refused("in the header", 0, table_bytes(2));
  refused("between words", table + 4, table_bytes(2));
  refused("behind the window", slot_->window().size() - 16, table_bytes(2));
  refused("in the firmware", 0x80000000, table_bytes(2));
  refused("with a next", table, table_bytes(2), wire::kDescNext);
  auto& nested = reinterpret_cast<wire::DescriptorWords*>(slot_->window().data() + table)[0];
  wire::store_relaxed(nested.tail, wire::pack_tail({kStick, 0, wire::kDescIndirect}));
  refused("nested", table, table_bytes(2));
  wire::store_relaxed(nested.tail, wire::pack_tail({kStick, 0, wire::kDescNext}));
  refused("linked inside", table, table_bytes(2));
}

// Random rings, random queues: whatever the card makes of them, it goes on, and a reset brings the function back.
TEST_F(HostileRings, RandomDescriptorsNeverHarmTheCard) {
  std::mt19937_64 random(20260121);
  const std::uint64_t spots[] = {0,
                                 block_at(0),
                                 completion_at(0),
                                 wire::kQueueBlock.offset,
                                 block_at(3),
                                 wire::kHostMemoryOffset,
                                 slot_->window().size(),
                                 kMax - 63,
                                 0x80000000,
                                 wire::kAdminRequests.offset,
                                 wire::kEvents.offset};
  for (int round = 0; round < 12; ++round) {
    for (int i = 0; i < 600; ++i) {
      auto& target = driver_->ring(random() % wire::kQueueCount);
      const std::uint64_t address = spots[random() % std::size(spots)] + (random() % 4 == 0 ? random() % 300 : 0);
      const auto length = static_cast<std::uint32_t>(random() % 3 == 0 ? random() : (random() % 5) * kStick);
      target.add_raw(static_cast<std::uint16_t>(random()), address, length, static_cast<std::uint16_t>(random() & 7));
      if (i % 16 == 0) slot_->pump();
    }
    for (int i = 0; i < 50; ++i) slot_->pump();
    provider().expect_alive();
    ASSERT_TRUE(driver_->bring_up()) << "round " << round;
    region_ = driver_->acquire(2 * wire::kMiB).value();
    stream_ = {};
    ASSERT_EQ(driver_->run(driver_->fill(stream_, region_, 0, 4096, kPattern)).outcome, Outcome::Ok);
    expect_ring_goes_on();
  }
}

// The card's side of the FIFO is at `written`: it has read everything, and nothing is under way.
bool has_read_up_to(BareSlot& slot, const wire::Fifo& fifo, std::uint32_t written) {
  for (const auto end = test::soon(); wire::load_acquire(fifo.read) != written; slot.pump()) {
    if (Device::Clock::now() > end) return false;
  }
  return true;
}

TEST_F(HostileRings, RandomControlMessagesNeverHarmTheCard) {
  std::mt19937_64 random(4711);
  auto& fifo = *driver_->at<wire::Fifo>(wire::kFifoToCard.offset);
  for (int i = 0; i < 3000; ++i) {
    wire::Message message;
    for (auto& byte : message.bytes) byte = static_cast<std::uint8_t>(random());
    message.header = {static_cast<std::uint8_t>(random() % 8), static_cast<std::uint8_t>(random() % 0x44),
                      static_cast<std::uint16_t>(random() % 8 == 0 ? random() : 0),
                      static_cast<std::uint16_t>(random()),
                      static_cast<std::uint16_t>(random() % 4 == 0 ? random() : random() % 65)};
    driver_->send(message);
    while (driver_->receive()) {  // bounded: there are no more messages than the FIFO holds
    }
    if (i % 8 == 0) slot_->pump();
    // A card without a CPU must not be overrun: that is for the indices below.
    if (i % 32 == 31) ASSERT_TRUE(has_read_up_to(*slot_, fifo, wire::load_relaxed(fifo.written)));
  }
  // Indices that can not be: further ahead than the FIFO is long, and backwards.
  const auto written = wire::load_relaxed(fifo.written);
  ASSERT_TRUE(has_read_up_to(*slot_, fifo, written));
  for (const std::uint32_t jump : {61u, 1u << 31, ~0u}) {
    wire::store_release(fifo.written, written + jump);
    for (int i = 0; i < 20; ++i) slot_->pump();
    provider().expect_alive();
    EXPECT_EQ(wire::load_acquire(fifo.read), written) << "the card has read messages that nobody wrote";
  }
  wire::store_release(fifo.written, written);
  while (driver_->receive()) {  // bounded: there are no more messages than the FIFO holds
  }
  ASSERT_TRUE(driver_->bring_up());
  region_ = driver_->acquire(2 * wire::kMiB).value();
  stream_ = {};
  ASSERT_EQ(driver_->run(driver_->fill(stream_, region_, 0, 4096, kPattern)).outcome, Outcome::Ok);
  expect_ring_goes_on();
}

}  // namespace
}  // namespace svp::conformance
