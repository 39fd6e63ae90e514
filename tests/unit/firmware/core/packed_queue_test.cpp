// SPDX-License-Identifier: Apache-2.0
// The device side of a packed ring against VIRTIO 1.4 §2.8 and the bugs that others had in theirs.
#include "firmware/core/packed_queue.hpp"

#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <random>
#include <vector>

#include "tests/unit/firmware/core/raw_driver.hpp"

namespace {

using fw::Chain;
using fw::PackedQueue;
using fwtest::RawBuffer;
using fwtest::RawRing;

constexpr std::uint64_t kDescriptors = wire::kQueueBlock.offset;
constexpr std::uint64_t kDriverArea = kDescriptors + 32 * wire::kKiB;
constexpr std::uint64_t kDeviceArea = kDriverArea + wire::kStickBytes;
constexpr std::uint64_t kTable = wire::kHostMemoryOffset;

struct Ring {
  explicit Ring(std::uint16_t size, bool event_idx = false, bool indirect = true)
      : memory(wire::kMinWindowBytes / 8), driver(window(), size, kDescriptors, kDriverArea, kDeviceArea) {
    EXPECT_TRUE(card.set(window(), size, kDescriptors, kDriverArea, kDeviceArea));
    card.set_features(event_idx, indirect);
  }
  std::span<std::byte> window() { return std::as_writable_bytes(std::span(memory)); }
  Chain take() {
    Chain chain{};
    EXPECT_TRUE(card.pop(chain));
    return chain;
  }
  void give_back(const Chain& chain, std::uint32_t written = 0) { card.push_used(chain.id, chain.slots, written); }

  std::vector<std::uint64_t> memory;
  RawRing driver;
  PackedQueue card;
};

constexpr RawBuffer kReadable{0x1000, 128, false};
constexpr RawBuffer kWritable{0x2000, 256, true};
const std::vector<RawBuffer> kPair{kReadable, kWritable};

TEST(PackedQueue, AnEmptyRingGivesNothing) {
  Ring ring(4);
  Chain chain;
  EXPECT_FALSE(ring.card.ready());
  EXPECT_FALSE(ring.card.pop(chain));
}

TEST(PackedQueue, AQueueThatWasNeverSetGivesNothing) {
  PackedQueue queue;
  Chain chain;
  EXPECT_FALSE(queue.ready());
  EXPECT_FALSE(queue.pop(chain));
  queue.arm();
  queue.disarm();
}

TEST(PackedQueue, GeometryOutsideTheQueueBlockIsRefused) {
  std::vector<std::uint64_t> memory(wire::kMinWindowBytes / 8);
  const auto window = std::as_writable_bytes(std::span(memory));
  const std::uint64_t end = wire::kQueueBlock.end();
  const struct {
    std::uint32_t size;
    std::uint64_t descriptors, driver_area, device_area;
  } kBad[] = {
      {0, kDescriptors, kDriverArea, kDeviceArea},
      {wire::kMaxQueueSize + 1, kDescriptors, kDriverArea, kDeviceArea},
      {0xffffffff, kDescriptors, kDriverArea, kDeviceArea},
      {4, kDescriptors + 8, kDriverArea, kDeviceArea},
      {4, kDescriptors, kDriverArea + 2, kDeviceArea},
      {4, kDescriptors, kDriverArea, kDeviceArea + 1},
      {4, 0, kDriverArea, kDeviceArea},
      {4, kDescriptors - 16, kDriverArea, kDeviceArea},
      {4, end - 48, kDriverArea, kDeviceArea},
      {4, kDescriptors, end, kDeviceArea},
      {4, kDescriptors, kDriverArea, end},
      {4, kDescriptors, 0, kDeviceArea},
      {4, kDescriptors, kDriverArea, 0},
      {4, ~std::uint64_t{15}, kDriverArea, kDeviceArea},
      {4, kDescriptors, ~std::uint64_t{3}, kDeviceArea},
      {4, kDescriptors, kDriverArea, ~std::uint64_t{3}},
  };
  for (const auto& bad : kBad) {
    PackedQueue queue;
    EXPECT_FALSE(queue.set(window, bad.size, bad.descriptors, bad.driver_area, bad.device_area));
    EXPECT_FALSE(queue.active());
    EXPECT_EQ(queue.size(), 0);
  }
  PackedQueue queue;
  EXPECT_TRUE(queue.set(window, 4, end - 64, kDriverArea, kDeviceArea));
}

TEST(PackedQueue, TheIdOfAChainIsItsLastDescriptors) {
  Ring ring(8);
  ring.driver.add(0x1234, kPair);  // its head carries the inverted id
  const Chain chain = ring.take();
  EXPECT_TRUE(chain.well_formed);
  EXPECT_EQ(chain.id, 0x1234);
  EXPECT_EQ(chain.slots, 2);
  EXPECT_EQ(chain.readable.offset, kReadable.offset);
  EXPECT_EQ(chain.readable.bytes, kReadable.bytes);
  EXPECT_EQ(chain.writable.offset, kWritable.offset);
  EXPECT_EQ(chain.writable.bytes, kWritable.bytes);
}

// Linux 1acfe2c12258, openvmm PR#3990: a chain that fills the ring exactly must flip the wrap bit, at every position.
TEST(PackedQueue, AChainAsLongAsTheRingFlipsTheWrapBit) {
  for (std::uint16_t shift = 0; shift < 2; ++shift) {
    Ring ring(2);
    const std::vector<RawBuffer> one{kReadable};
    for (std::uint16_t i = 0; i < shift; ++i) {
      ring.driver.add(9, one);
      ring.give_back(ring.take());
      ASSERT_TRUE(ring.driver.poll());
    }
    for (std::uint16_t lap = 0; lap < 9; ++lap) {
      ring.driver.add(lap, kPair);
      const Chain chain = ring.take();
      ASSERT_TRUE(chain.well_formed) << lap;
      ASSERT_EQ(chain.id, lap);
      ASSERT_EQ(chain.slots, 2);
      ASSERT_FALSE(ring.card.ready());
      ring.give_back(chain, 7);
      const auto used = ring.driver.poll();
      ASSERT_TRUE(used && used->id == lap && used->written == 7 && used->write_flag);
      ASSERT_FALSE(ring.driver.has_used());
    }
  }
}

TEST(PackedQueue, ACircularChainEndsAfterTheRingAndTheRingGoesOn) {
  for (const std::uint16_t size : std::initializer_list<std::uint16_t>{1, 2, 3, 8, 1024}) {
    Ring ring(size);
    for (std::uint16_t i = 0; i < size; ++i) ring.driver.add_raw(5, 0x1000, 128, wire::kDescNext);
    const Chain chain = ring.take();
    EXPECT_FALSE(chain.well_formed);
    EXPECT_EQ(chain.slots, size);
    EXPECT_EQ(chain.id, 5);
    ring.driver.expect_chain(5, size);
    ring.give_back(chain);
    ASSERT_TRUE(ring.driver.poll());
    const std::vector<RawBuffer> one{kReadable};
    ring.driver.add(6, one);
    EXPECT_TRUE(ring.take().well_formed);
  }
}

TEST(PackedQueue, AChainWithTooManyBuffersIsTakenWholeAndCalledMalformed) {
  Ring ring(16);
  const std::vector<RawBuffer> many{kReadable, kReadable, kReadable, kWritable, kWritable};
  ring.driver.add(3, many);
  ring.driver.add(4, kPair);
  const Chain chain = ring.take();
  EXPECT_FALSE(chain.well_formed);
  EXPECT_EQ(chain.slots, 5);
  EXPECT_EQ(chain.id, 3);
  EXPECT_TRUE(ring.take().well_formed);
}

TEST(PackedQueue, APartlyPublishedChainEndsWhereItIsNotAvailable) {
  Ring ring(8);
  ring.driver.add_raw(1, 0x1000, 128, wire::kDescNext);
  ring.driver.add_raw(2, 0x1000, 128, wire::kDescNext);
  const Chain chain = ring.take();
  EXPECT_FALSE(chain.well_formed);
  EXPECT_EQ(chain.slots, 2);
  EXPECT_FALSE(ring.card.ready());
  ring.driver.add_raw(7, 0x2000, 128, wire::kDescWrite);
  const Chain rest = ring.take();
  EXPECT_TRUE(rest.well_formed);
  EXPECT_EQ(rest.id, 7);
}

TEST(PackedQueue, ReadableAfterWritableIsMalformed) {
  Ring ring(8);
  const std::vector<RawBuffer> wrong{kWritable, kReadable};
  ring.driver.add(1, wrong);
  const Chain chain = ring.take();
  EXPECT_FALSE(chain.well_formed);
  EXPECT_EQ(chain.slots, 2);
}

TEST(PackedQueue, AZeroLengthBufferIsMalformed) {
  Ring ring(8);
  for (const bool writable : {false, true}) {
    const std::vector<RawBuffer> empty{{0x1000, 0, writable}};
    ring.driver.add(1, empty);
    EXPECT_FALSE(ring.take().well_formed);
  }
}

TEST(PackedQueue, ADescriptorThatIsUsedAlreadyIsNotAvailable) {
  Ring ring(4);
  for (const std::uint16_t flags :
       {std::uint16_t{0}, std::uint16_t{wire::kDescAvail | wire::kDescUsed}, std::uint16_t{wire::kDescUsed}}) {
    wire::store_release(ring.driver.words(0).tail, wire::pack_tail({128, 1, flags}));
    EXPECT_FALSE(ring.card.ready()) << flags;
  }
  wire::store_release(ring.driver.words(0).tail, wire::pack_tail({128, 1, wire::kDescAvail}));
  EXPECT_TRUE(ring.card.ready());
}

TEST(PackedQueue, UnknownDescriptorFlagsAreIgnored) {
  Ring ring(4);
  ring.driver.add_raw(1, 0x1000, 128, static_cast<std::uint16_t>(0x7f78));
  const Chain chain = ring.take();
  EXPECT_TRUE(chain.well_formed);
  EXPECT_EQ(chain.readable.bytes, 128u);
}

// ---- indirect -------------------------------------------------------------------------------------------------------

TEST(PackedQueue, AnIndirectTableCountsAsOneSlot) {
  Ring ring(2);
  for (std::uint16_t i = 0; i < 7; ++i) {
    ring.driver.add_indirect(i, kTable, kPair);
    const Chain chain = ring.take();
    ASSERT_TRUE(chain.well_formed);
    EXPECT_EQ(chain.slots, 1);
    EXPECT_EQ(chain.id, i);
    EXPECT_EQ(chain.readable.offset, kReadable.offset);
    EXPECT_EQ(chain.writable.offset, kWritable.offset);
    ring.give_back(chain);
    ASSERT_TRUE(ring.driver.poll());
  }
}

TEST(PackedQueue, AnIndirectTableThatWasNotNegotiatedIsMalformed) {
  Ring ring(4, false, false);
  ring.driver.add_indirect(1, kTable, kPair);
  EXPECT_FALSE(ring.take().well_formed);
}

TEST(PackedQueue, HostileIndirectTablesAreMalformedAndTheRingGoesOn) {
  Ring ring(64);
  const std::uint64_t window_end = wire::kMinWindowBytes;
  const struct {
    std::uint64_t address;
    std::uint32_t length;
    std::uint16_t flags;
  } kBad[] = {
      {kTable, 0, 0},
      {kTable, 15, 0},
      {kTable, 17, 0},
      {kTable, 16 * (wire::kMaxIndirectEntries + 1), 0},
      {kTable, 0xfffffff0, 0},
      {kTable + 8, 32, 0},
      {0, 32, 0},
      {wire::kCompletions.offset, 32, 0},
      {window_end - 16, 32, 0},
      {window_end, 16, 0},
      {~std::uint64_t{15}, 32, 0},
      {~std::uint64_t{31}, 16, 0},
      {kTable, 32, wire::kDescNext},
  };
  for (const auto& bad : kBad) {
    const auto flags = static_cast<std::uint16_t>(bad.flags | wire::kDescIndirect);
    ring.driver.add_raw(1, bad.address, bad.length, flags);
    const Chain chain = ring.take();
    EXPECT_FALSE(chain.well_formed) << std::hex << bad.address << " " << bad.length;
    ring.give_back(chain);
    ring.driver.expect_chain(1, chain.slots);
    ASSERT_TRUE(ring.driver.poll());
  }
  // Inside the table only WRITE is known.
  for (const std::uint16_t flags : {wire::kDescNext, wire::kDescIndirect, wire::kDescAvail, std::uint16_t{8}}) {
    auto& entry = reinterpret_cast<wire::DescriptorWords*>(ring.window().data() + kTable)[0];
    entry = {0x1000, wire::pack_tail({128, 0, flags})};
    ring.driver.add_raw(1, kTable, 16, wire::kDescIndirect);
    EXPECT_FALSE(ring.take().well_formed) << flags;
  }
}

TEST(PackedQueue, AnIndirectDescriptorBehindOthersIsMalformed) {
  Ring ring(8);
  ring.driver.add_raw(1, 0x1000, 128, wire::kDescNext);
  ring.driver.add_raw(1, kTable, 32, wire::kDescIndirect);
  const Chain chain = ring.take();
  EXPECT_FALSE(chain.well_formed);
  EXPECT_EQ(chain.slots, 2);
}

// ---- used -----------------------------------------------------------------------------------------------------------

TEST(PackedQueue, ChainsMayBeGivenBackInAnyOrder) {
  Ring ring(8);
  const std::vector<RawBuffer> one{kWritable};
  for (std::uint16_t round = 0; round < 20; ++round) {
    ring.driver.add(10, kPair);
    ring.driver.add(11, one);
    ring.driver.add(12, kPair);
    const Chain a = ring.take(), b = ring.take(), c = ring.take();
    ring.give_back(c, 3);
    ring.give_back(a, 1);
    ring.give_back(b, 0);
    EXPECT_EQ(ring.driver.poll()->id, 12);
    EXPECT_EQ(ring.driver.poll()->id, 10);
    const auto last = ring.driver.poll();
    EXPECT_EQ(last->id, 11);
    EXPECT_FALSE(last->write_flag) << "nothing was written";
    EXPECT_FALSE(ring.driver.poll());
  }
}

TEST(PackedQueue, ResetForgetsPositionsAndWrapBits) {
  Ring ring(3);
  const std::vector<RawBuffer> one{kReadable};
  for (int i = 0; i < 4; ++i) {
    ring.driver.add(1, one);
    ring.give_back(ring.take());
    ASSERT_TRUE(ring.driver.poll());
  }
  ring.card.reset();
  EXPECT_FALSE(ring.card.active());
  ring.driver = RawRing(ring.window(), 3, kDescriptors, kDriverArea, kDeviceArea);
  ASSERT_TRUE(ring.card.set(ring.window(), 3, kDescriptors, kDriverArea, kDeviceArea));
  ring.driver.add(2, one);
  EXPECT_EQ(ring.take().id, 2);
}

// A model of the ring as a list: whatever lengths, orders and laps, both sides see the same chains.
TEST(PackedQueue, RandomChainsArriveAndReturnExactlyAsAListWould) {
  std::mt19937_64 random(20250611);
  for (const std::uint16_t size : std::initializer_list<std::uint16_t>{1, 2, 3, 4, 5, 7, 8, 9, 31, 64}) {
    Ring ring(size);
    struct Sent {
      std::uint16_t id;
      std::vector<RawBuffer> buffers;
    };
    std::deque<Sent> sent;
    std::vector<Chain> held;
    std::deque<std::pair<std::uint16_t, std::uint32_t>> returned;
    std::uint16_t next_id = 0;
    const auto chance = [&](unsigned n) { return random() % n; };
    for (int step = 0; step < 4000; ++step) {
      switch (chance(4)) {
        case 0: {
          std::vector<RawBuffer> buffers(1 + chance(4));
          for (auto& b : buffers) {
            b = {chance(1000), static_cast<std::uint32_t>(chance(5) == 0 ? 0 : 1 + chance(500)), chance(2) == 0};
          }
          if (!ring.driver.room_for(static_cast<unsigned>(buffers.size()))) break;
          ring.driver.add(next_id, buffers);
          sent.push_back({next_id++, buffers});
          break;
        }
        case 1: {
          Chain chain;
          if (!ring.card.pop(chain)) {
            ASSERT_TRUE(sent.empty());
            break;
          }
          ASSERT_FALSE(sent.empty());
          const Sent expected = sent.front();
          sent.pop_front();
          ASSERT_EQ(chain.id, expected.id);
          ASSERT_EQ(chain.slots, expected.buffers.size());
          const auto& b = expected.buffers;
          bool good = b.size() <= 2 && b[0].bytes != 0;
          if (b.size() == 2) good = good && b[1].bytes != 0 && !b[0].writable && b[1].writable;
          ASSERT_EQ(chain.well_formed, good);
          held.push_back(chain);
          break;
        }
        case 2: {
          if (held.empty()) break;
          const auto which = static_cast<std::ptrdiff_t>(chance(static_cast<unsigned>(held.size())));
          const auto written = static_cast<std::uint32_t>(chance(3) * 128);
          ring.give_back(held[static_cast<std::size_t>(which)], written);
          returned.emplace_back(held[static_cast<std::size_t>(which)].id, written);
          held.erase(held.begin() + which);
          break;
        }
        default: {
          const auto used = ring.driver.poll();
          ASSERT_EQ(used.has_value(), !returned.empty());
          if (!used) break;
          ASSERT_EQ(used->id, returned.front().first);
          ASSERT_EQ(used->written, returned.front().second);
          ASSERT_EQ(used->write_flag, used->written != 0);
          returned.pop_front();
        }
      }
    }
  }
}

// Rubbish in the ring: pop() takes at most `size` descriptors, always moves on, and never touches what it must not.
TEST(PackedQueue, RandomRubbishNeverStopsTheRing) {
  std::mt19937_64 random(99);
  for (int round = 0; round < 300; ++round) {
    const auto size = static_cast<std::uint16_t>(1 + random() % 17);
    Ring ring(size, true);
    unsigned slots = 0;
    for (int step = 0; step < 200; ++step) {
      for (std::uint16_t i = 0; i < size; ++i) {
        if (random() % 3 != 0) continue;
        auto& words = ring.driver.words(i);
        words.address = random() % 4 == 0 ? random() : kTable + random() % 64;
        words.tail = random();
      }
      Chain chain;
      if (!ring.card.pop(chain)) continue;
      ASSERT_GE(chain.slots, 1);
      ASSERT_LE(chain.slots, size);
      slots += chain.slots;
      ring.give_back(chain, 1);
      ring.card.take_notification();
    }
    ASSERT_GT(slots, 0u);
  }
}

// ---- notification ---------------------------------------------------------------------------------------------------

// Walks the ring one descriptor at a time: the definition that the arithmetic must agree with. A chain or batch that
// jumps over the armed slot counts (openvmm PR#4267, hermit-os PR#1274).
bool passes_the_armed_slot(wire::EventSuppression event, std::uint16_t old, bool wrap, unsigned advanced,
                           std::uint16_t size) {
  for (unsigned i = 0; i < advanced; ++i) {
    if (event.offset == old && event.wrap == wrap) return true;
    if (++old == size) {
      old = 0;
      wrap = !wrap;
    }
  }
  return false;
}

TEST(Notification, AgreesWithAWalkOverTheRingInEveryCase) {
  unsigned cases = 0;
  for (std::uint16_t size = 1; size <= 9; ++size) {
    for (std::uint16_t old = 0; old < size; ++old) {
      for (const bool old_wrap : {false, true}) {
        for (std::uint16_t advanced = 1; advanced <= size; ++advanced) {
          const bool lapped = old + advanced >= size;
          const auto now = static_cast<std::uint16_t>(lapped ? old + advanced - size : old + advanced);
          const bool now_wrap = old_wrap != lapped;
          for (std::uint16_t offset = 0; offset < size; ++offset) {
            for (const bool wrap : {false, true}) {
              const wire::EventSuppression event{offset, wrap, wire::EventFlags::Descriptor};
              ASSERT_EQ(wire::wants_notification(event, true, now, now_wrap, advanced, size),
                        passes_the_armed_slot(event, old, old_wrap, advanced, size))
                  << size << " " << old << " " << old_wrap << " +" << advanced << " armed " << offset << wrap;
              ++cases;
            }
          }
          for (const bool event_idx : {false, true}) {
            EXPECT_FALSE(wire::wants_notification({0, true, wire::EventFlags::Disable}, event_idx, now, now_wrap,
                                                  advanced, size));
            EXPECT_TRUE(wire::wants_notification({0, true, wire::EventFlags::Enable}, event_idx, now, now_wrap,
                                                 advanced, size));
          }
          // DESC without EVENT_IDX, and an offset outside of the ring: a doorbell too many, never one too few.
          EXPECT_TRUE(
              wire::wants_notification({0, true, wire::EventFlags::Descriptor}, false, now, now_wrap, advanced, size));
          EXPECT_TRUE(wire::wants_notification({size, true, wire::EventFlags::Descriptor}, true, now, now_wrap,
                                               advanced, size));
        }
      }
    }
  }
  EXPECT_GT(cases, 5000u);
}

TEST(Notification, TheReservedEventFlagMeansEnable) {
  EXPECT_EQ(wire::unpack_event(3u << 16).flags, wire::EventFlags::Enable);
  EXPECT_EQ(wire::unpack_event(0xfffd0000u).flags, static_cast<wire::EventFlags>(1)) << "reserved bits are ignored";
}

TEST(Notification, NoUsedElementNoDoorbell) {
  Ring ring(4);
  ring.driver.ask({0, true, wire::EventFlags::Enable});
  EXPECT_FALSE(ring.card.take_notification());
  ring.driver.add(1, kPair);
  const Chain chain = ring.take();
  EXPECT_FALSE(ring.card.take_notification());
  ring.give_back(chain);
  EXPECT_TRUE(ring.card.take_notification());
  EXPECT_FALSE(ring.card.take_notification()) << "one doorbell per batch";
}

// crosvm computes the decision and then drops it: every flag must decide.
TEST(Notification, TheDriversFlagsDecide) {
  for (const bool event_idx : {false, true}) {
    Ring ring(8, event_idx);
    const auto batch = [&](unsigned n) {
      for (unsigned i = 0; i < n; ++i) ring.driver.add(1, kPair);
      for (unsigned i = 0; i < n; ++i) ring.give_back(ring.take());
      const bool doorbell = ring.card.take_notification();
      while (ring.driver.poll()) {  // bounded: there are no more descriptors than the ring holds
      }
      return doorbell;
    };
    ring.driver.ask({0, false, wire::EventFlags::Disable});
    EXPECT_FALSE(batch(2));
    ring.driver.ask({0, false, wire::EventFlags::Enable});
    EXPECT_TRUE(batch(2));
    // position 0 of the second lap now; a batch of two chains jumps over slot 2 without ending there
    ring.driver.ask({3, false, wire::EventFlags::Descriptor});
    EXPECT_TRUE(batch(2));
    EXPECT_EQ(batch(1), !event_idx) << "already passed";
  }
}

// A whole lap in one batch is the longest legal one, and the counter of a hostile flood must not come round to zero.
TEST(Notification, AFloodBetweenTwoLooksStillRings) {
  Ring ring(1024);
  ring.driver.ask({0, false, wire::EventFlags::Enable});
  Chain chain{};
  chain.slots = 1024;
  for (int i = 0; i < 64; ++i) ring.card.push_used(1, 1024, 0);
  EXPECT_TRUE(ring.card.take_notification());
}

TEST(Notification, ArmAsksForTheNextAvailableSlot) {
  for (const bool event_idx : {false, true}) {
    Ring ring(3, event_idx);
    const std::vector<RawBuffer> one{kReadable};
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(wire::unpack_event(ring.driver.card_event_word()).flags, wire::EventFlags::Disable);
      EXPECT_FALSE(i != 0 && ring.driver.doorbell_wanted(event_idx));
      ring.card.arm();
      const auto event = wire::unpack_event(ring.driver.card_event_word());
      if (event_idx) {
        EXPECT_EQ(event.flags, wire::EventFlags::Descriptor);
        EXPECT_EQ(event.offset, ring.driver.next_avail());
        EXPECT_EQ(event.wrap, ring.driver.avail_wrap());
      } else {
        EXPECT_EQ(event.flags, wire::EventFlags::Enable);
      }
      ring.driver.add(1, one);
      EXPECT_TRUE(ring.driver.doorbell_wanted(event_idx));
      ring.card.disarm();
      ring.give_back(ring.take());
      ASSERT_TRUE(ring.driver.poll());
      ring.driver.add(1, one);
      EXPECT_FALSE(ring.driver.doorbell_wanted(event_idx)) << "disarmed";
      ring.give_back(ring.take());
      ASSERT_TRUE(ring.driver.poll());
    }
  }
}

}  // namespace
