// SPDX-License-Identifier: Apache-2.0
// A tenant that never waits for its replies (tests/validation/raw/unawaited.hpp), one step of the card at a time: after
// each the card's own state is looked at.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <map>
#include <random>
#include <vector>

#include "firmware/core/dispatcher.hpp"
#include "firmware/hal/memory.hpp"
#include "tests/support/bytes.hpp"
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
  UnawaitedRequests() : Launch(1, 1024 * wire::kMiB, 2, "watchdog=1000") {}

  fw::Function& attacked() { return card_.function(3); }

  void expect_consistent() {
    fw::Function& function = attacked();
    unsigned computing = 0;
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      const Stream& stream = function.streams[s];
      ASSERT_EQ(stream.head == fw::kNoBlock, stream.count == 0) << "stream " << s;
      ASSERT_EQ(stream.phase == Stream::Phase::Computing, stream.launch != fw::kNoLaunch) << "stream " << s;
      if (stream.phase != Stream::Phase::Idle) ASSERT_NE(stream.head, fw::kNoBlock) << "stream " << s;
      if (stream.state() == fw::StreamState::Closed) ASSERT_TRUE(stream.empty()) << "stream " << s << " is closed";
      computing += stream.phase == Stream::Phase::Computing ? 1 : 0;
    }
    ASSERT_NO_FATAL_FAILURE(expect_waits_in_lists());
    ASSERT_NO_FATAL_FAILURE(expect_users_of_buffers());
    if (function.reset.running()) return;  // what is being torn down
    ASSERT_EQ(computing != 0, card_.card().launches.active(function.id()));
    if (!function.queues[wire::kControlBlockQueue].active()) ASSERT_EQ(computing, 0u) << "work behind a reset queue";
  }

  // A stream that waits is in the list of what it waits for, once, and nobody else is in any list.
  void expect_waits_in_lists() {
    fw::StreamTable& streams = attacked().streams;
    std::array<unsigned, wire::kStreamsPerFunction> lists{};
    const auto walk = [&](unsigned first, bool granted, unsigned name) {
      unsigned length = 0;
      for (unsigned waiter = first; waiter != fw::kNoWaiter; waiter = streams.waiter_behind(waiter)) {
        ASSERT_LT(waiter, wire::kStreamsPerFunction);
        ASSERT_LT(length++, wire::kStreamsPerFunction) << "a list without an end";
        ASSERT_EQ(streams[waiter].phase, Stream::Phase::Waiting) << "stream " << waiter;
        const wire::EventPayload& wait = streams.head(waiter).cb.payload.event;
        ASSERT_EQ((wait.flags & wire::kEventGranted) != 0, granted) << "stream " << waiter;
        ASSERT_EQ(granted ? wait.grant : wait.stream, name) << "stream " << waiter;
        ++lists[waiter];
      }
    };
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) walk(streams.timeline(s).first_waiter, false, s);
    for (std::uint32_t g = 0; g < wire::kGrantsPerFunction; ++g) {
      walk(card_.card().event_grants.first_waiter(attacked().id(), g), true, g);
    }
    for (unsigned s = 0; s < wire::kStreamsPerFunction; ++s) {
      ASSERT_EQ(lists[s], streams[s].phase == Stream::Phase::Waiting ? 1u : 0u) << "stream " << s;
      most_waiting_ = std::max(most_waiting_, lists[s]);
    }
  }

  // A command buffer has as many users as calls that have begun.
  void expect_users_of_buffers() {
    fw::StreamTable& streams = attacked().streams;
    std::map<const fw::CommandBuffer*, std::uint32_t> users;
    for (const Stream& stream : streams) {
      for (std::uint16_t b = stream.head; b != fw::kNoBlock; b = streams.block(b).next) {
        if (streams.block(b).call.buffer != nullptr) ++users[streams.block(b).call.buffer];
      }
    }
    for (const auto& [buffer, count] : users) ASSERT_EQ(buffer->users, count);
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
      const std::uint64_t charged = attacked().charged();
      fw::run_iteration(card_.card());
      // Its streams, its commands and the part of a trace's ring that is emptied: each has its own bound.
      ASSERT_LE(attacked().charged() - charged, kMostOfAQuantum);
    }
    if (what != 1) slice();
    if (what == 2) card_.card().pool.scrub_step(wire::kGranuleBytes);
    expect_consistent();
  }

  // A quantum of blocks and the last of them, which may be one of 64 entries of a buffer; likewise of commands.
  static constexpr std::uint64_t kMostOfAQuantum = 4 * fw::kQuantumBytes;

  std::mt19937_64 random_{base_seed()};
  RawDriver& manager_ = card_.driver(0);
  RawDriver& physical_ = card_.driver(1);
  std::vector<std::uint16_t> self_tests_;  // slots of those under way
  std::uint64_t self_tests_done_ = 0;
  StreamHandle signals_;
  std::uint64_t signalled_ = 0;
  std::vector<std::uint16_t> grants_;  // slots of requests under way
  std::vector<raw::GrantHandle> known_;
  unsigned most_waiting_ = 0;
};

TEST_F(UnawaitedRequests, LeaveEveryStreamConsistentAndTheNeighbourAlone) {
  constexpr unsigned kRuns = 4;
  constexpr unsigned kSteps = 10'000;
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 0x5a5a5a5a5a5a5a5a)).outcome, wire::Outcome::Ok);
  ASSERT_TRUE(manager_.bring_up());
  ASSERT_TRUE(physical_.bring_up());
  signals_ = driver_.open_stream().value();
  std::array<std::uint64_t, static_cast<unsigned>(wire::kLastOpcode) + 1> ended_ok{};
  const std::uint64_t pages_before = card_.board().pages_in_use();
  for (unsigned run = 0; run < kRuns; ++run) {
    SCOPED_TRACE("SPYRE_SEED=" + std::to_string(base_seed() + run));
    raw::RawDriver driver(card_.window(3), [this] { pump(); });
    raw::UnawaitedRequests tenant(
        driver,
        {{fwtest::image_of(Program::Endless)}, {fwtest::image_of(Program::Exit)}, {fwtest::image_of(Program::Slices)}},
        base_seed() + run);
    tenant.begin();
    for (unsigned i = 0; i < kSteps && !HasFatalFailure(); ++i) {
      work_of_others(tenant, driver);
      tenant.step();
    }
    tenant.drain();
    for (unsigned opcode = 0; opcode <= static_cast<unsigned>(wire::kLastOpcode); ++opcode) {
      ended_ok[opcode] += tenant.ended_ok(static_cast<wire::Opcode>(opcode));
    }
    EXPECT_GT(tenant.blocks_ok(), 0u);
    EXPECT_GT(tenant.queue_resets(), 0u);
    ASSERT_EQ(driver.set_status(0), 0u);
    EXPECT_EQ(card_.board().pages_in_use(), pages_before) << "memory of contexts is not given back";
  }
  for (unsigned opcode = 0; opcode < ended_ok.size(); ++opcode) {
    EXPECT_GT(ended_ok[opcode], 0u) << wire::name(static_cast<wire::Opcode>(opcode)) << " was never met";
  }
  EXPECT_GT(most_waiting_, 0u);
  EXPECT_GT(signalled_, 0u);
  EXPECT_GT(self_tests_done_, 0u);
  const auto offset = card_.function(2).regions.at(0).base - hal::region_memory().begin;
  const auto bytes = card_.board().region_memory().subspan(offset, region.bytes);
  EXPECT_TRUE(svp::test::all_bytes_are(bytes, std::byte{0x5a}));
}

}  // namespace
