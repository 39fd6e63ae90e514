// SPDX-License-Identifier: Apache-2.0
// What one iteration of hart 0 may cost: however dear the work of a function is, its quantum ends after so much card
// time, the others are served, and the heartbeat goes on. Time is the native board's WorkClock, so every bound is
// exact.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "firmware/core/dispatcher.hpp"
#include "firmware/core/image.hpp"
#include "firmware/core/timeouts.hpp"
#include "firmware/hal/hart.hpp"
#include "shared/timeouts.hpp"
#include "tests/support/lengthened_image.hpp"
#include "tests/unit/firmware/core/played_kernels.hpp"

namespace {

using fwtest::Program;
using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::Outcome;
using wire::Status;

constexpr native::WorkClock kClock;
constexpr std::uint64_t kStepTicks = fw::kImageStepBytes / kClock.summed_bytes_per_tick;
constexpr std::uint64_t kOverheadTicks = 300;  // readings of the clock and moves of single sticks
constexpr std::uint64_t kImageBytes = wire::kMaxImageBytes;
constexpr std::uint64_t kImageAt = fwtest::kImageStride * 32;  // behind the small ones
constexpr std::uint64_t kSpoiltAt = 16 * wire::kKiB;           // in the padding: summed in the first iteration

std::vector<std::byte> long_image(Program program) {
  return svp::test::lengthened_image(fwtest::image_of(program), std::byte{0x7e});
}

struct Tenant {
  Tenant(fwtest::TestCard& card, unsigned slot) : driver(card.driver(slot)) {
    EXPECT_TRUE(driver.bring_up(wire::kMandatoryFeatures));
    program = driver.acquire(4 * wire::kMiB, wire::RegionType::Program).value();
  }
  void write(std::uint64_t offset, std::span<const std::byte> bytes) {
    std::memcpy(driver.at<std::byte>(wire::kHostMemoryOffset), bytes.data(), bytes.size());
    const auto end = driver.run(
        driver.dma(stream, RawDriver::host(wire::kHostMemoryOffset), RawDriver::device(program, offset), bytes.size()));
    EXPECT_EQ(end.outcome, Outcome::Ok);
  }
  void spoil() {
    const std::byte other[128]{};
    write(kImageAt + kImageBytes - sizeof other, other);
  }
  // One launch on a stream of its own.
  StreamHandle launch() {
    StreamHandle own = driver.open_stream().value();
    driver.submit(driver.compute(own, program, kImageAt, kImageBytes, 1));
    return own;
  }
  RawDriver& driver;
  StreamHandle stream;
  RegionHandle program{};
};

class BoundedIterations : public testing::Test {
 protected:
  BoundedIterations()
      : card_({.virtual_functions = 3,
               .region_bytes = 256 * wire::kMiB,
               .kernel = kernels_.player(),
               .clock = kClock,
               .page_bytes = 256 * wire::kMiB}) {
    kernels_.board = &card_.board();
  }
  std::uint64_t iteration_ticks() {
    const std::uint64_t before = hal::now();
    fw::run_iteration(card_.card());
    return hal::now() - before;
  }

  fwtest::PlayedKernels kernels_;
  fwtest::TestCard card_;
};

TEST_F(BoundedIterations, RefusedLaunchesWithLongImagesTakeOneQuantumPerPass) {
  Tenant tenant(card_, 2);
  tenant.write(kImageAt, long_image(Program::Exit));
  tenant.spoil();
  constexpr unsigned kLaunches = 64;
  for (unsigned i = 0; i < kLaunches; ++i) tenant.launch();
  std::uint64_t longest = 0;
  std::size_t ended = 0;
  for (unsigned iterations = 0; ended < kLaunches; ++iterations) {
    ASSERT_LT(iterations, 100'000u);
    longest = std::max(longest, iteration_ticks());
    for (const auto& end : tenant.driver.collect()) {
      EXPECT_EQ(end.completion.status, Status::ImageCrc);
      ++ended;
    }
  }
  // The quantum's time runs from its first dear step, and the last one is finished.
  EXPECT_LE(longest, fw::kUncontendedQuantumTicks + 2 * kStepTicks + kOverheadTicks);
  EXPECT_GE(longest, fw::kUncontendedQuantumTicks) << "nobody else wants anything";
}

// Two that flood, one that sends an empty block now and then: it waits for one quantum of each.
TEST_F(BoundedIterations, ANeighbourOfSuchAFloodWaitsForOneQuantumOfEach) {
  Tenant first(card_, 2), second(card_, 3);
  for (Tenant* tenant : {&first, &second}) {
    tenant->write(kImageAt, long_image(Program::Exit));
    tenant->spoil();
  }
  RawDriver& victim = card_.driver(4);
  ASSERT_TRUE(victim.bring_up());
  for (unsigned i = 0; i < 32; ++i) first.launch(), second.launch();
  StreamHandle stream;
  for (unsigned i = 0; i < 100; ++i) {
    victim.submit(victim.nop(stream));
    const std::uint64_t began = hal::now();
    while (victim.collect().empty()) {
      ASSERT_LT(hal::now() - began, 100 * fw::kUncontendedQuantumTicks);  // elapsed: under the WorkClock
      fw::run_iteration(card_.card());
    }
    if (i < 2) continue;  // it has been quiet, and is found
    // elapsed: under the WorkClock
    EXPECT_LE(hal::now() - began, 2 * (fw::kQuantumTicks + kStepTicks) + 2 * kOverheadTicks) << "block " << i;
  }
}

TEST_F(BoundedIterations, TheHeartbeatGoesOnBesideLongImages) {
  Tenant tenant(card_, 2);
  tenant.write(kImageAt, long_image(Program::Exit));
  tenant.spoil();
  for (unsigned i = 0; i < 100; ++i) tenant.launch();
  unsigned quiet = 0;
  std::uint64_t seen = card_.card().heart.beats(), seen_at = hal::now(), longest = 0;
  for (std::size_t ended = 0; ended < 100;) {
    fw::loop_step(card_.card(), quiet);
    ended += tenant.driver.collect().size();
    if (card_.card().heart.beats() == seen) continue;
    if (ended != 0) longest = std::max(longest, hal::now() - seen_at);
    seen = card_.card().heart.beats();
    seen_at = hal::now();
  }
  EXPECT_GT(longest, 0u);  // elapsed: under the WorkClock
  // elapsed: under the WorkClock
  EXPECT_LE(longest, wire::kHeartbeatTicks + fw::kUncontendedQuantumTicks + kStepTicks + kOverheadTicks);
}

// A self-test holds hart 0 for two seconds, by a clock that a look moves on by a millisecond.
TEST(SelfTestOfHartZero, KeepsTheHeartbeat) {
  fwtest::TestCard card({.clock = native::WorkClock{.reading_ticks = wire::kTicksPerMillisecond}});
  RawDriver& driver = card.driver(1);
  ASSERT_TRUE(driver.bring_up());
  auto request = driver.admin_request(wire::AdminCommand::SelfTest);
  request.arguments.self_test = {wire::SelfTestKind::Echo, 1,
                                 wire::kHostMemoryOffset};  // of a word that nobody changes
  const std::uint64_t before = card.card().heart.beats();
  const auto reply = driver.admin(request);
  ASSERT_EQ(reply.outcome, Outcome::Ok);
  ASSERT_EQ(reply.values.self_test.rounds, 0u);
  const std::uint64_t longest = card.card().options.loop_watchdog_ms * wire::kTicksPerMillisecond / 4;
  const std::uint64_t beats = longest / (wire::kHeartbeatTicks + 2 * wire::kTicksPerMillisecond);
  EXPECT_GE(card.card().heart.beats() - before, beats);
}

// Each of the function's streams waits for stream 0, until its budget is over: that ends them all at once, and each is
// looked for in the list of those that wait.
TEST_F(BoundedIterations, WaitsWhoseBudgetsEndAtOnceEndInSeveralQuanta) {
  constexpr std::uint64_t kBudget = 1'000'000;
  constexpr std::uint64_t kMost = fw::kQuantumBytes + wire::kStreamsPerFunction * fw::kBytesOfALook;  // with the last
  RawDriver& tenant = card_.driver(2);
  ASSERT_TRUE(tenant.bring_up());
  const StreamHandle zero;
  std::size_t waits = 0;
  for (; auto stream = tenant.open_stream(); ++waits) tenant.submit(tenant.event_wait(*stream, zero, 1, kBudget));
  ASSERT_EQ(waits, wire::kStreamsPerFunction - 1);
  (void)tenant.admin(tenant.admin_request(wire::AdminCommand::Stats));
  ASSERT_TRUE(tenant.collect().empty());
  const std::uint64_t over = hal::now() + kBudget;
  while (hal::now() <= over) {
  }
  std::size_t ended = 0;
  for (unsigned iterations = 0; ended < waits; ++iterations) {
    ASSERT_LT(iterations, 100'000u);
    const std::uint64_t before = card_.function(2).charged();
    fw::run_iteration(card_.card());
    EXPECT_LE(card_.function(2).charged() - before, kMost);
    const auto ends = tenant.collect();
    EXPECT_LE(ends.size(), fw::kQuantumBytes / fw::kBytesOfAStep);
    for (const auto& end : ends) EXPECT_EQ(end.completion.status, Status::BudgetExpired);
    ended += ends.size();
  }
  EXPECT_GE(card_.function(2).charged(), waits * fw::kBytesOfAStep);
}

class SelfTestBesideOthers : public testing::Test {
 protected:
  SelfTestBesideOthers() {
    EXPECT_TRUE(physical_.bring_up());
    EXPECT_TRUE(tenant_.bring_up());
  }
  // Echoes of a word that nobody changes: over when the card says so.
  wire::AdminRequest self_test() {
    auto request = physical_.admin_request(wire::AdminCommand::SelfTest);
    request.arguments.self_test = {wire::SelfTestKind::Echo, ~std::uint32_t{0}, wire::kHostMemoryOffset};
    return request;
  }
  std::uint64_t iteration_ticks() {
    const std::uint64_t before = hal::now();
    fw::run_iteration(card_.card());
    return hal::now() - before;
  }

  fwtest::TestCard card_{
      {.region_bytes = 64 * wire::kMiB, .clock = native::WorkClock{.reading_ticks = wire::kTicksPerMillisecond}}};
  RawDriver& physical_ = card_.driver(1);
  RawDriver& tenant_ = card_.driver(2);
};

// Other harts take an iteration of the loop's watchdog for a hang, whatever the admin ring holds.
TEST_F(SelfTestBesideOthers, AQuantumHasOneAndItTakesAQuarterOfTheLoopsWatchdog) {
  std::vector<std::uint16_t> slots(4);
  for (std::uint16_t& slot : slots) slot = physical_.send_admin(self_test());
  const std::uint64_t watchdog = card_.card().options.loop_watchdog_ms * wire::kTicksPerMillisecond;
  std::uint64_t all = 0;
  for (int iterations = 0; !slots.empty(); ++iterations) {
    ASSERT_LT(iterations, 100);
    const std::uint64_t took = iteration_ticks();
    EXPECT_LE(took, watchdog / 4 + 100 * wire::kTicksPerMillisecond) << "iteration " << iterations;
    all += took;
    std::erase_if(slots, [&](std::uint16_t slot) { return physical_.take_admin(slot).has_value(); });
  }
  EXPECT_GE(all, watchdog * 3 / 4) << "the self-tests have to be long";
}

// Of a transfer no ring tells when it has begun: it goes on all the same.
TEST_F(SelfTestBesideOthers, ATransferOfAnotherFunctionThatHasBegunGoesOn) {
  const auto region = tenant_.acquire(32 * wire::kMiB).value();
  StreamHandle stream;
  tenant_.submit(tenant_.fill(stream, region, 0, region.bytes, 7));
  fw::run_iteration(card_.card());
  ASSERT_EQ(card_.function(2).streams[0].phase, fw::Stream::Phase::Moving);
  for (int i = 0; i < 4; ++i) physical_.send_admin(self_test());
  for (int i = 0; i < 4; ++i) {
    ASSERT_EQ(card_.function(2).streams[0].phase, fw::Stream::Phase::Moving);
    EXPECT_LE(iteration_ticks(), 100 * wire::kTicksPerMillisecond) << "iteration " << i;
  }
}

// ---- the check in steps ---------------------------------------------------------------------------------------------

TEST_F(BoundedIterations, ALongImageThatIsGoodIsLaunched) {
  Tenant tenant(card_, 2);
  tenant.write(kImageAt, long_image(Program::Exit));
  tenant.launch();
  card_.run_until_idle();
  ASSERT_TRUE(card_.card().launches.run_slice(0, fw::kSliceTicks));
  card_.run_until_idle();
  const auto ended = tenant.driver.collect();
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Ok);
  EXPECT_EQ(ended[0].completion.bytes, 0u);
  EXPECT_EQ(ended[0].completion.checksum, 0u);
}

// Stream 0 writes while the launch's image is being summed: what counts is what is there in the end.
TEST_F(BoundedIterations, AWriteBetweenTwoStepsOfTheCheckBeginsItAnew) {
  for (const bool spoilt_first : {false, true}) {
    Tenant tenant(card_, 2);
    const auto image = long_image(Program::Exit);
    const std::byte other[128]{};
    const std::span<const std::byte> good = std::span(image).subspan(kSpoiltAt, sizeof other);
    tenant.write(kImageAt, image);
    if (spoilt_first) tenant.write(kImageAt + kSpoiltAt, other);
    tenant.launch();
    fw::run_iteration(card_.card());  // sums the first steps
    ASSERT_TRUE(tenant.driver.collect().empty());
    std::memcpy(tenant.driver.at<std::byte>(wire::kHostMemoryOffset), spoilt_first ? good.data() : other, sizeof other);
    tenant.driver.submit(tenant.driver.dma(tenant.stream, RawDriver::host(wire::kHostMemoryOffset),
                                           RawDriver::device(tenant.program, kImageAt + kSpoiltAt), sizeof other));
    card_.run_until_idle();
    card_.card().launches.run_slice(0, fw::kSliceTicks);
    card_.run_until_idle();
    const auto ended = tenant.driver.collect();
    ASSERT_EQ(ended.size(), 2u);
    EXPECT_EQ(ended[0].completion.stream, 0u);
    EXPECT_EQ(ended[1].completion.status, spoilt_first ? Status::None : Status::ImageCrc);
    ASSERT_EQ(tenant.driver.set_status(0), 0u);
  }
}

TEST_F(BoundedIterations, AReleasedRegionEndsTheCheckOfAnImageInIt) {
  Tenant tenant(card_, 2);
  tenant.write(kImageAt, long_image(Program::Exit));
  tenant.launch();
  fw::run_iteration(card_.card());
  ASSERT_TRUE(tenant.driver.collect().empty());
  ASSERT_EQ(tenant.driver.release(tenant.program).outcome, Outcome::Ok);
  const auto ended = tenant.driver.wait_for(1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Rejected);
  EXPECT_EQ(ended[0].completion.field, wire::Field::ComputeImage);
}

TEST_F(BoundedIterations, ALaunchThatIsCancelledInItsCheckHasNotStarted) {
  Tenant tenant(card_, 2);
  tenant.write(kImageAt, long_image(Program::Exit));
  const StreamHandle own = tenant.launch();
  fw::run_iteration(card_.card());
  ASSERT_TRUE(tenant.driver.collect().empty());
  auto request = tenant.driver.admin_request(wire::AdminCommand::Cancel);
  request.arguments.cancel = {own.id, own.incarnation, 1};
  ASSERT_EQ(tenant.driver.admin(request).outcome, Outcome::Ok);
  const auto ended = tenant.driver.wait_for(1);
  ASSERT_EQ(ended.size(), 1u);
  EXPECT_EQ(ended[0].completion.outcome, Outcome::Aborted);
  EXPECT_EQ(ended[0].completion.start_time, 0u);
  EXPECT_EQ(ended[0].completion.bytes, 0u);
}

// What waits for room is called whenever a launch ends; it must not sum its image again each time.
TEST_F(BoundedIterations, ALaunchThatWaitsForRoomSumsItsImageOnce) {
  Tenant tenant(card_, 2);
  tenant.write(kImageAt, long_image(Program::UntilReleased));
  for (unsigned i = 0; i < fw::kContextsPerCore; ++i) tenant.launch();
  card_.run_until_idle();
  const std::uint64_t before = card_.card().spaces.prepared_bytes();
  for (unsigned i = 0; i < 16; ++i) tenant.launch();
  card_.run_until_idle();
  for (int called = 0; called < 50; ++called) {
    fw::retry_waiting_launch(card_.function(2));
    card_.run_until_idle();
  }
  EXPECT_EQ(card_.card().spaces.prepared_bytes(), before) << "the image is loaded; there is no context";
}

}  // namespace
