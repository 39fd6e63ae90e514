// SPDX-License-Identifier: Apache-2.0
// A tenant that never waits for its replies (tests/validation/raw/unawaited.hpp), one step of the card at a time: after
// each the card's own state is looked at.
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "firmware/hal/memory.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/launch_fixture.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace {

using fw::Stream;
using fwtest::Launch;
using fwtest::Program;

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
    if (function.reset.running()) return;  // what is being torn down
    ASSERT_EQ(computing != 0, card_.card().launches.active(function.id()));
    if (!function.queues[wire::kControlBlockQueue].active()) ASSERT_EQ(computing, 0u) << "work behind a reset queue";
  }

  // A little of everything, so that requests meet every state: sometimes rings only, sometimes cores only.
  void pump() {
    const std::uint64_t what = random_() % 4;
    if (what != 0) fw::run_iteration(card_.card());
    if (what != 1) slice();
    if (what == 2) card_.card().pool.scrub_step(wire::kGranuleBytes);
    expect_consistent();
  }

  std::mt19937_64 random_{base_seed()};
};

TEST_F(UnawaitedRequests, LeaveEveryStreamConsistentAndTheNeighbourAlone) {
  constexpr unsigned kRuns = 4;
  constexpr unsigned kSteps = 10'000;
  const auto region = driver_.acquire(2 * wire::kMiB).value();
  ASSERT_EQ(driver_.run(driver_.fill(stream_, region, 0, region.bytes, 0x5a5a5a5a5a5a5a5a)).outcome, wire::Outcome::Ok);
  const std::uint64_t pages_before = card_.board().pages_in_use();
  for (unsigned run = 0; run < kRuns; ++run) {
    SCOPED_TRACE("SPYRE_SEED=" + std::to_string(base_seed() + run));
    raw::RawDriver driver(card_.window(3), [this] { pump(); });
    raw::UnawaitedRequests tenant(
        driver,
        {{fwtest::image_of(Program::Endless)}, {fwtest::image_of(Program::Exit)}, {fwtest::image_of(Program::Slices)}},
        base_seed() + run);
    tenant.begin();
    for (unsigned i = 0; i < kSteps && !HasFatalFailure(); ++i) tenant.step();
    tenant.drain();
    EXPECT_GT(tenant.blocks_ok(), 0u);
    EXPECT_GT(tenant.queue_resets(), 0u);
    ASSERT_EQ(driver.set_status(0), 0u);
    EXPECT_EQ(card_.board().pages_in_use(), pages_before) << "memory of contexts is not given back";
  }
  const auto offset = card_.function(2).regions.at(0).base - hal::region_memory().begin;
  const auto bytes = card_.board().region_memory().subspan(offset, region.bytes);
  EXPECT_TRUE(svp::test::all_bytes_are(bytes, std::byte{0x5a}));
}

}  // namespace
