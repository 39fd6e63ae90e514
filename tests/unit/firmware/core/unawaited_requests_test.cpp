// SPDX-License-Identifier: Apache-2.0
// A tenant that never waits for its replies (tests/validation/raw/unawaited.hpp), one step of the card at a time: after
// each the card's own state is looked at (function_check.hpp). Time passes by work alone, so that a seed repeats a run.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <random>
#include <vector>

#include "firmware/core/charges.hpp"
#include "firmware/core/dispatcher.hpp"
#include "firmware/core/traces.hpp"
#include "firmware/hal/memory.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/function_check.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace {

using fw::Stream;
using fwtest::Launch;
using fwtest::Program;
using fwtest::RawDriver;
using fwtest::StreamHandle;

std::uint64_t base_seed() {
  const char* text = std::getenv("SPYRE_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 0);
}

class UnawaitedRequests : public Launch {
 protected:
  // Two harts: kernels on core 1 leave entries of the trace there, and DMAs are moved ahead beside them.
  UnawaitedRequests() : Launch(2, 1024 * wire::kMiB, 2, "watchdog=1000", native::WorkClock{}) {}

  fw::Function& attacked() { return card_.function(3); }

  // ---- what is met, by a look before an iteration of the card and one behind it

  struct Waiter {
    unsigned stream;
    unsigned awaited;
    std::uint16_t block;
    wire::EventPayload event;
  };
  struct Before {
    std::uint64_t generation;
    bool entries;  // core 1 has left entries of the trace
    std::array<std::uint32_t, wire::kStreamsPerFunction> opened_in;
    std::vector<Waiter> waiters;  // for streams of the same function
  };
  Before look() {
    Before before{attacked().generation(), card_.card().traces.queued(1) != 0, {}, {}};
    fw::StreamTable& streams = attacked().streams;
    before.waiters.reserve(wire::kStreamsPerFunction);
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      before.opened_in[s] = streams.timeline(s).opened_in;
      if (streams[s].phase != Stream::Phase::Waiting) continue;
      const wire::EventPayload& event = streams.head(s).cb.payload.event;
      if ((event.flags & wire::kEventGranted) == 0) before.waiters.push_back({s, event.stream, streams[s].head, event});
    }
    return before;
  }
  void count_what_was_met(const Before& before) {
    fw::StreamTable& streams = attacked().streams;
    if (attacked().generation() != before.generation) {
      resets_beside_entries_ += before.entries ? 1 : 0;
      return;
    }
    for (const Stream& stream : streams) {
      if (stream.phase != Stream::Phase::Computing || streams.block(stream.head).next == fw::kNoBlock) continue;
      looks_at_moved_ahead_ += streams.block(streams.block(stream.head).next).moved_ahead ? 1 : 0;
    }
    // Of a timeline that was opened: the waits that it found are heads as before, and are to be looked at again.
    const auto found = std::ranges::count_if(before.waiters, [&](const Waiter& waiter) {
      const Stream& stream = streams[waiter.stream];
      return streams.timeline(waiter.awaited).opened_in != before.opened_in[waiter.awaited] &&
             stream.phase == Stream::Phase::Idle && stream.state() == fw::StreamState::Open &&
             stream.head == waiter.block &&
             std::memcmp(&streams.head(waiter.stream).cb.payload.event, &waiter.event, sizeof waiter.event) == 0;
    });
    opens_with_waiters_ += found != 0 ? 1 : 0;
    most_found_waiting_ = std::max<std::uint64_t>(most_found_waiting_, static_cast<std::uint64_t>(found));
    most_waiting_ = std::max<std::uint64_t>(most_waiting_, before.waiters.size());
  }

  void slices() {
    for (unsigned hart = 0; hart < card_.card().core_count(); ++hart) {
      native::become_hart(hart);
      slices_[hart] += card_.card().launches.run_slice(hart, fw::kSliceTicks) ? 1 : 0;
    }
    native::become_hart(0);
  }

  // M grants a timeline of the neighbour, whose signals come now and then, without waiting for the reply either; and
  // the PF has its short self-tests.
  void work_of_others(raw::UnawaitedRequests& tenant, RawDriver& driver) {
    switch (random_() % 64) {
      case 0:
        if (manager_.admin_slot_free()) grants_.push_back(manager_.send_admin(grant_to(driver)));
        break;
      case 1:
        if (!known_.empty() && manager_.admin_slot_free()) {
          grants_.push_back(manager_.send_admin(manager_.revoke_request(3, known_.back())));
          known_.pop_back();
        }
        break;
      case 2:
        if (driver_.block_slot_free()) driver_.submit(driver_.event_signal(signals_, ++signalled_));
        break;
      case 3:
        if (physical_.admin_slot_free()) self_tests_.push_back(physical_.send_admin(self_test()));
        break;
      default: break;
    }
    driver_.collect();
    std::erase_if(grants_, [&](std::uint16_t slot) {
      const auto reply = manager_.take_admin(slot);
      if (reply && reply->outcome == wire::Outcome::Ok && reply->values.event_grant.epoch != 0) {
        known_.push_back({reply->values.event_grant.grant, reply->values.event_grant.epoch});
        tenant.know_grant(known_.back(), signals_);
      }
      return reply.has_value();
    });
    take_self_tests();
  }
  // An echo has no rounds: nobody changes the word that it copies.
  wire::AdminRequest self_test() {
    auto request = physical_.admin_request(wire::AdminCommand::SelfTest);
    const auto kind = static_cast<wire::SelfTestKind>(random_() % 3);
    const auto rounds = kind == wire::SelfTestKind::Echo ? 0 : 1 + static_cast<std::uint32_t>(random_() % 8);
    request.arguments.self_test = {kind, rounds, wire::kHostMemoryOffset};
    return request;
  }
  void take_self_tests() {
    std::erase_if(self_tests_, [&](std::uint16_t slot) {
      const auto reply = physical_.take_admin(slot);
      if (!reply) return false;
      EXPECT_EQ(reply->outcome, wire::Outcome::Ok) << wire::name(reply->status);
      ++self_tests_done_;
      return true;
    });
  }
  wire::AdminRequest grant_to(const RawDriver& driver) {
    return manager_.grant_request(2, driver_, signals_, 3, driver);
  }

  // A little of everything, so that requests meet every state: sometimes rings only, sometimes cores only.
  void pump() {
    const std::uint64_t what = random_() % 4;
    if (what != 0) {
      const Before before = look();
      const std::uint64_t charged = attacked().charged();
      fw::run_iteration(card_.card());
      ASSERT_LE(attacked().charged() - charged, kMostOfAQuantum);
      count_what_was_met(before);
    }
    if (what != 1) slices();
    if (what == 2) card_.card().pool.scrub_step(wire::kGranuleBytes);
    if (random_() % 16 == 0) card_.card().traces.drain();  // as a beat does
    ASSERT_EQ(fwtest::broken_property(card_.card(), attacked()), "");
  }

  // Of each part of an iteration: what it may use, and its last step.
  static constexpr std::uint64_t kFetched = fw::kQuantumBytes / 2 + fw::kBytesOfATransfer + wire::kMaxCorrectionBytes;
  static constexpr std::uint64_t kStepped = 2 * fw::kQuantumBytes;  // the last one may end 32 blocks of a stream
  static constexpr std::uint64_t kNewCommands = fw::kQuantumBytes / 2 + fw::kHeavyCommand;
  // The last of them may be a part of BUFFER_CREATE, with a block too many and the buffer's pages.
  static constexpr std::uint64_t kCommandsUnderWay =
      fw::kQuantumBytes / 2 + fw::kQuantumBytes / 4 + fw::kQuantumBytes / 8;
  static constexpr std::uint64_t kMostOfAQuantum =
      kFetched + kStepped + kNewCommands + kCommandsUnderWay + fw::Traces::kEmptyingCost;

  std::mt19937_64 random_{base_seed()};
  RawDriver& manager_ = card_.driver(0);
  RawDriver& physical_ = card_.driver(1);
  std::vector<std::uint16_t> self_tests_;  // slots of those under way
  std::uint64_t self_tests_done_ = 0;
  StreamHandle signals_;
  std::uint64_t signalled_ = 0;
  std::vector<std::uint16_t> grants_;  // slots of requests under way
  std::vector<raw::GrantHandle> known_;

  std::array<std::uint64_t, 2> slices_{};    // by core
  std::uint64_t looks_at_moved_ahead_ = 0;   // at DMAs that were moved and are not the head yet
  std::uint64_t resets_beside_entries_ = 0;  // function resets with entries of the trace that core 1 has left
  std::uint64_t opens_with_waiters_ = 0;     // timelines that were opened beside waits for the one before
  std::uint64_t most_found_waiting_ = 0;     // by one of them
  std::uint64_t most_waiting_ = 0;           // at a time
};

TEST_F(UnawaitedRequests, LeaveEveryStreamConsistentAndTheNeighbourAlone) {
  constexpr unsigned kRuns = 6;
  // Of every third run: more than a quantum of hart 0 looks at.
  constexpr unsigned kManyStreams = fw::Card::kContendedBudget + 16;
  constexpr unsigned kSteps = 10'000;
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 0x5a5a5a5a5a5a5a5a)).outcome, wire::Outcome::Ok);
  ASSERT_TRUE(manager_.bring_up());
  ASSERT_TRUE(physical_.bring_up());
  signals_ = driver_.open_stream().value();
  std::array<std::uint64_t, static_cast<unsigned>(wire::kLastOpcode) + 1> ended_ok{};
  std::uint64_t two_core_launches = 0;
  const std::uint64_t pages_before = card_.board().pages_in_use();
  for (unsigned run = 0; run < kRuns; ++run) {
    SCOPED_TRACE("SPYRE_SEED=" + std::to_string(base_seed() + run));
    raw::RawDriver driver(card_.window(3), [this] { pump(); });
    raw::UnawaitedRequests tenant(
        driver,
        {{fwtest::image_of(Program::Endless)}, {fwtest::image_of(Program::Exit)}, {fwtest::image_of(Program::Slices)}},
        base_seed() + run, run % 3 == 2 ? kManyStreams : raw::UnawaitedRequests::kFewStreams);
    tenant.begin();
    for (unsigned i = 0; i < kSteps && !HasFatalFailure(); ++i) {
      work_of_others(tenant, driver);
      tenant.step();
    }
    tenant.drain();
    for (unsigned opcode = 0; opcode <= static_cast<unsigned>(wire::kLastOpcode); ++opcode) {
      ended_ok[opcode] += tenant.ended_ok(static_cast<wire::Opcode>(opcode));
    }
    two_core_launches += tenant.two_core_launches_ok();
    EXPECT_GT(tenant.blocks_ok(), 0u);
    EXPECT_GT(tenant.queue_resets(), 0u);
    ASSERT_EQ(driver.set_status(0), 0u);
    EXPECT_EQ(card_.board().pages_in_use(), pages_before) << "memory of contexts is not given back";
  }
  for (unsigned opcode = 0; opcode < ended_ok.size(); ++opcode) {
    EXPECT_GT(ended_ok[opcode], 0u) << wire::name(static_cast<wire::Opcode>(opcode)) << " was never met";
  }
  EXPECT_GT(most_waiting_, 0u);
  EXPECT_GT(opens_with_waiters_, 0u);
  EXPECT_GT(most_found_waiting_, fw::Card::kContendedBudget);
  EXPECT_GT(looks_at_moved_ahead_, 0u);
  EXPECT_GT(slices_[1], 0u);
  EXPECT_GT(two_core_launches, 0u);
  EXPECT_GT(resets_beside_entries_, 0u);
  EXPECT_GT(signalled_, 0u);
  EXPECT_GT(self_tests_done_, 0u);
  const auto offset = card_.function(2).regions.at(0).base - hal::region_memory().begin;
  const auto bytes = card_.board().region_memory().subspan(offset, region.bytes);
  EXPECT_TRUE(svp::test::all_bytes_are(bytes, std::byte{0x5a}));
}

}  // namespace
