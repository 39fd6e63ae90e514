// SPDX-License-Identifier: Apache-2.0
// How a function comes up and goes down (docs/protocol.md §3): who it says it is, which steps its status takes, what a
// driver may set when, and that a reset leaves nothing. By our driver, and by one that knows the contract only.
#include <gtest/gtest.h>

#include <cstring>
#include <optional>

#include "shared/message.hpp"
#include "shared/version.hpp"
#include "tests/conformance/bare_slot.hpp"
#include "tests/conformance/provider.hpp"
#include "tests/unit/firmware/core/raw_driver.hpp"

namespace svp::conformance {
namespace {

using fwtest::RawDriver;
using test::Blocks;
using test::CompletionCounter;
using wire::MessageOp;

constexpr std::uint32_t kAck = wire::kStatusAcknowledge;
constexpr std::uint32_t kDriver = kAck | wire::kStatusDriver;
constexpr std::uint32_t kFeaturesOk = kDriver | wire::kStatusFeaturesOk;
constexpr std::uint32_t kDriverOk = kFeaturesOk | wire::kStatusDriverOk;

TEST(BringUp, TheConfigurationTellsWhichFunctionItIs) {
  const auto device = provider().open();
  const auto& config = device->config();
  const bool is_virtual = provider().kind() == wire::FunctionKind::Virtual;
  EXPECT_EQ(config.kind, provider().kind());
  EXPECT_EQ(config.function_index, is_virtual ? 1u : 0u);
  EXPECT_EQ(config.abi_version, wire::kAbiVersion);
  EXPECT_EQ(config.streams, wire::kStreamsPerFunction);
  EXPECT_EQ(config.stream_credits, wire::kStreamCredits);
  EXPECT_EQ(config.virtual_functions, Provider::kBystanders);
  for (unsigned which = 0; which < Provider::kBystanders; ++which) {
    const auto other = provider().open_bystander(which);
    EXPECT_NE(other->config().slot, config.slot);
    EXPECT_EQ(other->config().boot_epoch, config.boot_epoch) << "the same card";
  }
}

TEST(BringUp, EveryOwnerStartsAfresh) {
  std::uint64_t generation = 0;
  for (int i = 0; i < 20; ++i) {
    const auto device = provider().open();
    EXPECT_GT(device->config().generation, generation);
    generation = device->config().generation;
    const auto block = Blocks::nop();
    CompletionCounter counter;
    const std::vector<ControlBlockRequest> requests(3, {&block, &counter});
    ASSERT_EQ(svp::value_or_throw(device->submit(0, requests)), 3u);
    ASSERT_EQ(device->wait_until([&] { return counter.ended() == 3; }, test::soon()), WaitStatus::Done);
    EXPECT_EQ(counter.not_ok(), 0u);
    const auto stats = svp::value_or_throw(device->card_statistics()).values.stats;
    EXPECT_EQ(stats.completed, 3u) << "the statistics of an earlier owner";
    EXPECT_EQ(svp::value_or_throw(device->open_stream(StreamPriority::Low)), 1u) << "a stream of an earlier owner";
    (void)svp::value_or_throw(device->acquire_region(RegionType::Tensor, 2 * wire::kMiB));
  }
}

TEST(BringUp, OptionalFeaturesAreTakenOneByOne) {
  for (const std::uint64_t features : {std::uint64_t{0}, wire::kFeatureEventIdx, wire::kFeatureControlBlockCrc,
                                       wire::kFeatureIndirectDesc, wire::kOptionalFeatures}) {
    OpenOptions options;
    options.optional_features = features;
    EXPECT_EQ(provider().open(options)->features() & wire::kOptionalFeatures, features);
  }
}

// ---- by hand --------------------------------------------------------------------------------------------------------

class BringUpByHand : public testing::Test {
 protected:
  void SetUp() override {
    slot_.emplace(provider().slot());
    driver_.emplace(slot_->window(), [this] { slot_->pump(); });
    ASSERT_EQ(driver_->set_status(0), 0u);
  }
  void TearDown() override {
    EXPECT_TRUE(driver_->bring_up()) << "the function does not come up any more";
    fwtest::StreamHandle stream;
    EXPECT_EQ(driver_->run(driver_->nop(stream)).outcome, wire::Outcome::Ok);
    EXPECT_EQ(driver_->set_status(0), 0u);
    provider().expect_alive();
  }

  void walk_to(std::uint32_t status) {
    ASSERT_EQ(driver_->set_status(0), 0u);
    if (status == 0) return;
    ASSERT_EQ(driver_->set_status(kAck), kAck);
    if (status == kAck) return;
    ASSERT_EQ(driver_->set_status(kDriver), kDriver);
    if (status == kDriver) return;
    ASSERT_TRUE(driver_->set_features(wire::kMandatoryFeatures));
    ASSERT_EQ(driver_->set_status(kFeaturesOk), kFeaturesOk);
    if (status == kFeaturesOk) return;
    ASSERT_EQ(driver_->set_status(kDriverOk), kDriverOk);
  }

  std::optional<BareSlot> slot_;
  std::optional<RawDriver> driver_;
};

TEST_F(BringUpByHand, AStepOutOfOrderChangesNothing) {
  constexpr std::uint32_t kSteps[] = {0, kAck, kDriver, kFeaturesOk, kDriverOk};
  constexpr std::uint32_t kAll[] = {kAck,
                                    kDriver,
                                    kFeaturesOk,
                                    kDriverOk,
                                    wire::kStatusDriver,
                                    wire::kStatusDriverOk,
                                    wire::kStatusFeaturesOk,
                                    kDriverOk | wire::kStatusNeedsReset,
                                    1u << 8,
                                    ~std::uint32_t{0}};
  for (std::size_t at = 0; at < std::size(kSteps); ++at) {
    for (const std::uint32_t wanted : kAll) {
      SCOPED_TRACE(std::to_string(kSteps[at]) + " to " + std::to_string(wanted));
      walk_to(kSteps[at]);
      if (HasFatalFailure()) return;
      // The card's own bit can neither be set nor cleared.
      const std::uint32_t asked = wanted & ~std::uint32_t{wire::kStatusNeedsReset};
      const bool next = at + 1 < std::size(kSteps) && asked == kSteps[at + 1];
      // Without the mandatory features FEATURES_OK is not taken.
      const bool taken = next && asked != kFeaturesOk;
      EXPECT_EQ(driver_->set_status(wanted), taken ? asked : kSteps[at]);
    }
  }
}

TEST_F(BringUpByHand, EachMandatoryFeatureIsMandatory) {
  for (std::uint64_t left = wire::kMandatoryFeatures; left != 0; left &= left - 1) {
    const std::uint64_t missing = left & (~left + 1);
    walk_to(kDriver);
    ASSERT_TRUE(driver_->set_features(wire::kMandatoryFeatures & ~missing));
    EXPECT_EQ(driver_->set_status(kFeaturesOk), kDriver) << "without feature bits " << missing;
  }
}

TEST_F(BringUpByHand, FeaturesThatAreNotOfferedAreRefused) {
  walk_to(kDriver);
  for (const unsigned bit : {1u, 27u, 31u, 41u, 63u}) {
    EXPECT_FALSE(driver_->set_features(wire::kMandatoryFeatures | std::uint64_t{1} << bit)) << bit;
  }
  walk_to(kFeaturesOk);
  EXPECT_FALSE(driver_->set_features(wire::kMandatoryFeatures)) << "after FEATURES_OK";
}

TEST_F(BringUpByHand, QueuesComeAfterFeaturesOkAndOnceOnly) {
  walk_to(kDriver);
  EXPECT_FALSE(driver_->set_queue(wire::kAdminQueue)) << "before FEATURES_OK";
  walk_to(kFeaturesOk);
  EXPECT_TRUE(driver_->set_queue(wire::kAdminQueue));
  EXPECT_FALSE(driver_->set_queue(wire::kAdminQueue)) << "twice";
}

TEST_F(BringUpByHand, AQueueOutsideItsBlockIsRefused) {
  walk_to(kFeaturesOk);
  const auto& layout = wire::kQueueLayouts[wire::kControlBlockQueue];
  const wire::SetQueue good{wire::kControlBlockQueue, 0, layout.size, 0, layout.descriptors, layout.driver_area,
                            layout.device_area};
  const std::uint64_t window = slot_->window().size();
  std::vector<wire::SetQueue> bad(11, good);
  bad[0].index = wire::kQueueCount;
  bad[1].size = 2u * layout.size;
  bad[2].reserved = 1;
  bad[3].descriptors = 0;
  bad[4].descriptors = wire::kControlBlocks.offset;
  bad[5].descriptors = layout.descriptors + 8;
  bad[6].descriptors = ~std::uint64_t{0} - 15;
  bad[7].driver_area = window;
  bad[8].driver_area = wire::kHeaderBlock.offset;
  bad[9].device_area = 0x80000000;
  bad[10].device_area = wire::kCompletions.offset + 2;
  for (std::size_t i = 0; i < bad.size(); ++i) {
    const auto answer = driver_->call(driver_->request(MessageOp::SetVirtqueue, bad[i]));
    ASSERT_TRUE(answer);
    wire::QueueState state;
    EXPECT_FALSE(wire::read_payload(*answer, state)) << "bad queue " << i << " was set";
  }
  const auto answer = driver_->call(driver_->request(MessageOp::SetVirtqueue, good));
  wire::QueueState state{};
  ASSERT_TRUE(answer && wire::read_payload(*answer, state));
  EXPECT_EQ(state.size, layout.size);
}

TEST_F(BringUpByHand, AResetGivesANewGenerationAndOldBlocksAreStale) {
  ASSERT_TRUE(driver_->bring_up());
  const std::uint64_t before = driver_->generation();
  fwtest::StreamHandle stream;
  const auto region = driver_->acquire(2 * wire::kMiB).value();
  auto old = driver_->fill(stream, region, 0, 4096, 1);
  ASSERT_TRUE(driver_->bring_up());
  EXPECT_GT(driver_->generation(), before);
  auto end = driver_->run(old);
  EXPECT_EQ(end.outcome, wire::Outcome::Rejected);
  EXPECT_EQ(end.status, wire::Status::StaleGeneration);
  // The same block made new but for its region: the handle is of a region that went with the reset.
  old.header.generation = driver_->generation();
  end = driver_->run(old);
  EXPECT_EQ(end.outcome, wire::Outcome::Rejected);
  EXPECT_EQ(end.status, wire::Status::UnknownRegion) << wire::name(end.status);
}

TEST_F(BringUpByHand, NothingIsConsumedBeforeDriverOk) {
  walk_to(kFeaturesOk);
  for (std::uint32_t queue = 0; queue < wire::kQueueCount; ++queue) ASSERT_TRUE(driver_->set_queue(queue));
  fwtest::StreamHandle stream;
  driver_->forget_blocks();
  const auto block = driver_->nop(stream);
  driver_->submit(block);
  // Four messages there and back: the card has been through its loop.
  for (int i = 0; i < 4; ++i) (void)driver_->config();
  EXPECT_TRUE(driver_->collect().empty());
}

}  // namespace
}  // namespace svp::conformance
