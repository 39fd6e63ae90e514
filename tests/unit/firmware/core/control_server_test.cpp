// SPDX-License-Identifier: Apache-2.0
// Control plane: the status machine edge by edge, features, queues, config space, and messages that make no sense.
#include "firmware/core/control_server.hpp"

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "shared/version.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using wire::Message;
using wire::MessageOp;

constexpr std::uint32_t kAck = wire::kStatusAcknowledge;
constexpr std::uint32_t kDriver = kAck | wire::kStatusDriver;
constexpr std::uint32_t kFeatures = kDriver | wire::kStatusFeaturesOk;
constexpr std::uint32_t kRunning = kFeatures | wire::kStatusDriverOk;

class ControlServer : public testing::Test {
 protected:
  std::uint32_t status() {
    const auto answer = driver_.call(driver_.bare_request(MessageOp::GetDeviceStatus));
    wire::StatusValue value{~0u};
    EXPECT_TRUE(answer && wire::read_payload(*answer, value));
    return value.status;
  }
  void walk_to(std::uint32_t wanted) {
    ASSERT_EQ(driver_.set_status(0), 0u);
    for (const std::uint32_t step : {kAck, kDriver, kFeatures, kRunning}) {
      if (step > wanted) return;
      if (step == kFeatures) ASSERT_TRUE(driver_.set_features(wire::kMandatoryFeatures));
      ASSERT_EQ(driver_.set_status(step), step);
    }
  }
  bool refused(const Message& message) {
    const auto answer = driver_.call(message);
    return answer && answer->header.size == sizeof(wire::MessageHeader);
  }

  fwtest::TestCard card_{{.region_bytes = 128 * wire::kMiB}};  // shares of 64 MiB
  fwtest::RawDriver& driver_ = card_.driver(2);
};

// The whole machine: from every state, what every value of the status byte does.
TEST_F(ControlServer, OnlyTheStepsOfTheStatusMachineAreTaken) {
  for (const std::uint32_t state : {0u, kAck, kDriver, kFeatures, kRunning}) {
    for (std::uint32_t wanted = 1; wanted < 256; ++wanted) {
      walk_to(state);
      const std::uint32_t asked = wanted & ~std::uint32_t{wire::kStatusNeedsReset};
      const std::uint32_t next = state == 0 ? kAck : state == kAck ? kDriver : state == kDriver ? kFeatures : kRunning;
      bool legal = asked == next || asked == (state | wire::kStatusFailed);
      // Without the mandatory features FEATURES_OK stays off; here none were set.
      if (state == kDriver && asked == kFeatures) legal = false;
      const std::uint32_t expected = legal ? asked : state;
      ASSERT_EQ(driver_.set_status(wanted), expected) << "from " << state << " to " << wanted;
      ASSERT_EQ(status(), expected);
      ASSERT_EQ(driver_.header().device_status, expected);
      ASSERT_EQ(card_.function(2).running(), (expected & wire::kStatusDriverOk) != 0);
    }
  }
}

TEST_F(ControlServer, AfterFailedOnlyAResetHelps) {
  walk_to(kDriver);
  ASSERT_TRUE(driver_.set_features(wire::kMandatoryFeatures));
  ASSERT_EQ(driver_.set_status(kDriver | wire::kStatusFailed), kDriver | wire::kStatusFailed);
  for (std::uint32_t wanted = 1; wanted < 256; ++wanted) {
    ASSERT_EQ(driver_.set_status(wanted), kDriver | wire::kStatusFailed) << wanted;
  }
  EXPECT_EQ(driver_.set_status(0), 0u);
  EXPECT_TRUE(driver_.bring_up());
}

TEST_F(ControlServer, EveryMandatoryFeatureIsMandatory) {
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t one = wire::feature_bit(bit);
    if ((wire::kMandatoryFeatures & one) == 0) continue;
    walk_to(kDriver);
    ASSERT_TRUE(driver_.set_features(wire::kOfferedFeatures & ~one));
    EXPECT_EQ(driver_.set_status(kFeatures), kDriver) << "bit " << bit;
  }
}

TEST_F(ControlServer, FeaturesThatAreNotOfferedAreRefused) {
  walk_to(kDriver);
  for (unsigned bit = 0; bit < 64; ++bit) {
    const std::uint64_t one = wire::feature_bit(bit);
    EXPECT_EQ(driver_.set_features(wire::kMandatoryFeatures | one), (wire::kOfferedFeatures & one) != 0) << bit;
  }
  ASSERT_TRUE(driver_.set_features(wire::kMandatoryFeatures));
  for (const auto& blocks :
       {wire::FeatureBlocks{1, 2, {0, 0}}, wire::FeatureBlocks{0, 1, {0, 0}}, wire::FeatureBlocks{0, ~0u, {0, 0}}}) {
    EXPECT_TRUE(refused(driver_.request(MessageOp::SetDriverFeatures, blocks)));
  }
  EXPECT_EQ(driver_.set_status(kFeatures), kFeatures) << "a refused request changed the features";
}

TEST_F(ControlServer, FeaturesAreLatchedAtFeaturesOk) {
  walk_to(kFeatures);
  EXPECT_FALSE(driver_.set_features(wire::kOfferedFeatures));
  EXPECT_EQ(driver_.set_status(0), 0u);
  EXPECT_EQ(driver_.set_status(kAck), kAck);
  EXPECT_EQ(driver_.set_status(kDriver), kDriver);
  EXPECT_EQ(driver_.set_status(kFeatures), kDriver) << "a reset forgets the features";
}

TEST_F(ControlServer, OfferedFeaturesAndDeviceInfoAreTold) {
  wire::DeviceInfo info;
  ASSERT_TRUE(wire::read_payload(driver_.call(driver_.bare_request(MessageOp::GetDeviceInfo)).value(), info));
  EXPECT_EQ(info.queues, wire::kQueueCount);
  EXPECT_EQ(info.config_bytes, sizeof(wire::DeviceConfig));
  wire::FeatureBlocks offered;
  ASSERT_TRUE(wire::read_payload(driver_.call(driver_.bare_request(MessageOp::GetDeviceFeatures)).value(), offered));
  EXPECT_EQ(offered.bits[0] | std::uint64_t{offered.bits[1]} << 32, wire::kOfferedFeatures);
}

TEST_F(ControlServer, ConfigSpaceTellsWhoAnswers) {
  const auto config = driver_.config();
  EXPECT_EQ(config.abi_version, wire::kAbiVersion);
  EXPECT_EQ(config.kind, wire::FunctionKind::Virtual);
  EXPECT_EQ(config.function_index, 1u);
  EXPECT_EQ(config.slot, 2u);
  EXPECT_EQ(config.generation, driver_.header().generation);
  EXPECT_EQ(config.boot_epoch, 1u);
  EXPECT_EQ(config.window_bytes, driver_.window().size());
  EXPECT_EQ(config.memory_bytes, 128 * wire::kMiB);
  EXPECT_EQ(config.share_bytes, 64 * wire::kMiB);
  EXPECT_EQ(config.budget_bytes, 0u);
  EXPECT_EQ(config.quota_bytes, 0u);
}

TEST_F(ControlServer, ConfigReadsOutsideOfTheSpaceGiveNoBytes) {
  const std::uint32_t size = sizeof(wire::DeviceConfig);
  for (const auto& range : {wire::ConfigRange{size, 1}, wire::ConfigRange{size - 1, 2}, wire::ConfigRange{0, 41},
                            wire::ConfigRange{~0u, 1}, wire::ConfigRange{~0u, 40}, wire::ConfigRange{1, ~0u}}) {
    wire::ConfigData data;
    ASSERT_TRUE(wire::read_payload(driver_.call(driver_.request(MessageOp::GetConfig, range)).value(), data));
    EXPECT_EQ(data.bytes, 0u) << range.offset << " +" << range.bytes;
  }
}

TEST_F(ControlServer, TheGenerationIsNewAfterEveryReset) {
  std::set<std::uint64_t> seen{driver_.config().generation};
  std::uint32_t config_generation = 0;
  for (int i = 0; i < 20; ++i) {
    ASSERT_EQ(driver_.set_status(0), 0u);
    const auto generation = driver_.config().generation;
    EXPECT_TRUE(seen.insert(generation).second) << generation;
    EXPECT_EQ(driver_.header().generation, generation);
    wire::ConfigData data;
    ASSERT_TRUE(
        wire::read_payload(driver_.call(driver_.request(MessageOp::GetConfig, wire::ConfigRange{0, 4})).value(), data));
    EXPECT_NE(data.generation, config_generation);
    config_generation = data.generation;
  }
}

// ---- queues ---------------------------------------------------------------------------------------------------------

wire::SetQueue standard(std::uint32_t queue) {
  const auto& layout = wire::kQueueLayouts[queue];
  return {queue, 0, layout.size, 0, layout.descriptors, layout.driver_area, layout.device_area};
}

TEST_F(ControlServer, BadQueuesAreRefusedAndLeaveTheQueueOff) {
  walk_to(kFeatures);
  const auto bad = [&](auto spoil) {
    wire::SetQueue queue = standard(wire::kControlBlockQueue);
    spoil(queue);
    EXPECT_TRUE(refused(driver_.request(MessageOp::SetVirtqueue, queue)));
    EXPECT_FALSE(card_.function(2).queues[wire::kControlBlockQueue].active());
  };
  bad([](auto& q) { q.index = wire::kQueueCount; });
  bad([](auto& q) { q.index = ~0u; });
  bad([](auto& q) { q.reserved = 1; });
  bad([](auto& q) { q.reserved1 = 1; });
  bad([](auto& q) { q.size = 0; });
  bad([](auto& q) { q.size = wire::kControlBlockQueueSize + 1; });
  bad([](auto& q) { q.size = ~0u; });
  bad([](auto& q) { q.descriptors += 8; });
  bad([](auto& q) { q.descriptors = 0; });
  bad([](auto& q) { q.descriptors = ~std::uint64_t{15}; });
  bad([](auto& q) { q.driver_area = wire::kCompletions.offset; });
  bad([](auto& q) { q.device_area = 0; });
  bad([](auto& q) { q.device_area = ~std::uint64_t{3}; });
  EXPECT_TRUE(driver_.set_queue(wire::kControlBlockQueue));
  EXPECT_TRUE(refused(driver_.request(MessageOp::SetVirtqueue, standard(wire::kControlBlockQueue)))) << "set twice";
}

TEST_F(ControlServer, QueuesComeAfterFeaturesOkAndGoWithAReset) {
  for (const std::uint32_t state : {0u, kAck, kDriver}) {
    walk_to(state);
    EXPECT_FALSE(driver_.set_queue(0)) << state;
  }
  walk_to(kFeatures);
  EXPECT_TRUE(driver_.set_queue(0));
  wire::QueueState queue;
  ASSERT_TRUE(
      wire::read_payload(driver_.call(driver_.request(MessageOp::GetVirtqueue, wire::QueueIndex{0})).value(), queue));
  EXPECT_EQ(queue.size, wire::kAdminQueueSize);
  EXPECT_EQ(queue.max_size, wire::kAdminQueueSize);
  EXPECT_EQ(queue.descriptors, wire::kQueueLayouts[0].descriptors);
  ASSERT_EQ(driver_.set_status(0), 0u);
  ASSERT_TRUE(
      wire::read_payload(driver_.call(driver_.request(MessageOp::GetVirtqueue, wire::QueueIndex{0})).value(), queue));
  EXPECT_EQ(queue.size, 0u);
  EXPECT_TRUE(refused(driver_.request(MessageOp::GetVirtqueue, wire::QueueIndex{3})));
  EXPECT_TRUE(refused(driver_.request(MessageOp::ResetVirtqueue, wire::QueueIndex{0}))) << "not set";
  EXPECT_TRUE(refused(driver_.request(MessageOp::ResetVirtqueue, wire::QueueIndex{~0u})));
}

TEST_F(ControlServer, NothingIsConsumedBeforeDriverOk) {
  walk_to(kFeatures);
  for (std::uint32_t q = 0; q < wire::kQueueCount; ++q) ASSERT_TRUE(driver_.set_queue(q));
  fwtest::StreamHandle stream;
  driver_.submit(driver_.nop(stream));
  card_.pump();
  EXPECT_TRUE(driver_.collect().empty());
}

TEST_F(ControlServer, AQueueWorksAgainAfterItsReset) {
  ASSERT_TRUE(driver_.bring_up());
  fwtest::StreamHandle stream;
  for (std::uint32_t lap = 0; lap < 4; ++lap) {
    for (int i = 0; i < 3; ++i) EXPECT_EQ(driver_.run(driver_.nop(stream)).outcome, wire::Outcome::Ok);
    ASSERT_TRUE(driver_.reset_queue(wire::kControlBlockQueue));
    ASSERT_TRUE(driver_.set_queue(wire::kControlBlockQueue));
    stream = {0, stream.incarnation + 1, 1};
  }
}

TEST_F(ControlServer, AQueueResetEndsEveryOutstandingBlockBeforeItsAnswer) {
  ASSERT_TRUE(driver_.bring_up());
  const auto region = driver_.acquire(32 * wire::kMiB).value();
  fwtest::StreamHandle stream;
  auto other = driver_.open_stream().value();
  driver_.submit(driver_.fill(stream, region, 0, region.bytes, 1));
  driver_.submit(driver_.nop(stream));
  driver_.submit(driver_.fill(other, region, 0, region.bytes, 1));
  fw::run_iteration(card_.card());
  driver_.send(driver_.request(MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kControlBlockQueue}));
  for (int i = 0; !driver_.receive(); ++i) {  // blocks end in steps of their streams
    ASSERT_LT(i, 4) << "answered";
    fw::run_iteration(card_.card());
  }
  const auto ended = driver_.collect();
  ASSERT_EQ(ended.size(), 3u);
  for (const auto& end : ended) EXPECT_EQ(end.completion.status, wire::Status::Stopped);
  card_.pump();
  EXPECT_TRUE(driver_.collect().empty());
}

// The reply must not go to a ring that is not there any more, nor to the next one.
TEST_F(ControlServer, AnAdminQueueResetForgetsCommandsThatWait) {
  ASSERT_TRUE(driver_.bring_up());
  const auto region = driver_.acquire(64 * wire::kMiB).value();
  fwtest::StreamHandle stream;
  ASSERT_EQ(driver_.run(driver_.fill(stream, region, 0, region.bytes, 1)).outcome, wire::Outcome::Ok);
  auto request = driver_.admin_request(wire::AdminCommand::RegionRelease);
  request.arguments.region_release = {region.id, region.generation};
  driver_.send_admin(request);
  request = driver_.admin_request(wire::AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {64 * wire::kMiB, wire::RegionType::Tensor};
  driver_.send_admin(request);
  card_.run_until_idle();  // no scrub: the second waits
  ASSERT_EQ(card_.function(2).commands.count(), 1u);
  driver_.send(driver_.request(MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kAdminQueue}));
  card_.run_until_idle();
  ASSERT_TRUE(driver_.receive());
  EXPECT_EQ(card_.function(2).commands.count(), 0u);
  card_.pump();
  ASSERT_TRUE(driver_.set_queue(wire::kAdminQueue));
  card_.pump();
  EXPECT_FALSE(driver_.ring(wire::kAdminQueue).has_used()) << "an answer of before the reset";
}

// ---- messages that make no sense ------------------------------------------------------------------------------------

TEST_F(ControlServer, MessagesThatMakeNoSenseGetAnErrorResponse) {
  const auto spoilt = [&](auto spoil) {
    Message message = driver_.bare_request(MessageOp::GetDeviceStatus);
    spoil(message.header);
    return message;
  };
  for (const std::uint16_t size : std::initializer_list<std::uint16_t>{0, 7, 65, 0xffff}) {
    EXPECT_TRUE(refused(spoilt([=](auto& h) { h.size = size; }))) << size;
  }
  EXPECT_TRUE(refused(spoilt([](auto& h) { h.device = 1; })));
  EXPECT_TRUE(refused(spoilt([](auto& h) { h.type = wire::kMessageResponse; })));
  for (unsigned bit = 2; bit < 8; ++bit) {
    EXPECT_TRUE(refused(spoilt([=](auto& h) { h.type = static_cast<std::uint8_t>(1u << bit); }))) << bit;
  }
  const std::set<unsigned> known{2, 3, 4, 5, 7, 8, 9, 10, 11};
  for (unsigned op = 0; op < 256; ++op) {
    if (!known.contains(op)) {
      EXPECT_TRUE(refused(spoilt([=](auto& h) { h.op = static_cast<std::uint8_t>(op); }))) << op;
    }
    if (op != static_cast<unsigned>(wire::BusOp::Ping)) {
      EXPECT_TRUE(refused(spoilt([=](auto& h) { h.op = static_cast<std::uint8_t>(op), h.type = wire::kMessageBus; })));
    }
  }
  for (const MessageOp op : {MessageOp::SetDriverFeatures, MessageOp::GetConfig, MessageOp::SetDeviceStatus,
                             MessageOp::GetVirtqueue, MessageOp::SetVirtqueue, MessageOp::ResetVirtqueue}) {
    EXPECT_TRUE(refused(driver_.bare_request(op))) << "payload missing: " << wire::name(op);
  }
  EXPECT_EQ(status(), 0u);
}

TEST_F(ControlServer, PingIsEchoedInEveryState) {
  for (const std::uint32_t state : {0u, kAck, kRunning}) {
    walk_to(state);
    const auto answer = driver_.call(wire::make_message(wire::kMessageBus, 3, 77, wire::Ping{0xfeedface}));
    wire::Ping ping{};
    ASSERT_TRUE(answer && wire::read_payload(*answer, ping));
    EXPECT_EQ(ping.value, 0xfeedfaceu);
    EXPECT_EQ(answer->header.type, wire::kMessageBus | wire::kMessageResponse);
  }
}

TEST_F(ControlServer, NonsenseIndicesReadAsAnEmptyFifoUntilTheyMakeSense) {
  auto& fifo = *driver_.at<wire::Fifo>(wire::kFifoToCard.offset);
  const std::uint32_t good = fifo.written;
  for (const std::uint32_t distance : {wire::kFifoSlots + 1, 1000u, 0x80000000u, 0xffffffffu}) {
    wire::store_release(fifo.written, good + distance);
    EXPECT_FALSE(fw::run_iteration(card_.card())) << distance;
    EXPECT_FALSE(fw::control_pending(card_.function(2)));
    EXPECT_FALSE(driver_.receive());
  }
  wire::store_release(fifo.written, good);
  EXPECT_EQ(status(), 0u);
}

TEST_F(ControlServer, AFullFifoOfRequestsIsAnsweredOneByOne) {
  for (std::uint32_t lap = 0; lap < 3; ++lap) {
    std::set<std::uint16_t> tokens;
    for (std::uint32_t i = 0; i < wire::kFifoSlots; ++i) {
      const auto message = driver_.bare_request(MessageOp::GetDeviceStatus);
      tokens.insert(message.header.token);
      driver_.send(message);
    }
    card_.pump();
    for (std::uint32_t i = 0; i < wire::kFifoSlots; ++i) {
      const auto answer = driver_.receive();
      ASSERT_TRUE(answer);
      EXPECT_EQ(tokens.erase(answer->header.token), 1u);
    }
    EXPECT_FALSE(driver_.receive());
  }
}

TEST_F(ControlServer, AHostThatDoesNotReadLosesAnswersAndNothingElse) {
  for (std::uint32_t i = 0; i < wire::kFifoSlots + 10; ++i) {
    driver_.send(driver_.bare_request(MessageOp::GetDeviceStatus));
    card_.pump();
  }
  std::uint32_t answers = 0;
  while (driver_.receive()) ++answers;
  EXPECT_EQ(answers, wire::kFifoSlots);
  EXPECT_EQ(status(), 0u);
  // A read index ahead of what was written leaves no room either.
  auto& fifo = *driver_.at<wire::Fifo>(wire::kFifoToHost.offset);
  const std::uint32_t read = fifo.read;
  wire::store_release(fifo.read, read + 5);
  driver_.send(driver_.bare_request(MessageOp::GetDeviceStatus));
  card_.pump();
  wire::store_release(fifo.read, read);
  EXPECT_FALSE(driver_.receive());
  EXPECT_TRUE(driver_.bring_up());
}

TEST_F(ControlServer, RandomMessagesNeverStopTheCard) {
  std::mt19937_64 random(11);
  for (int i = 0; i < 20000; ++i) {
    Message message;
    for (auto& byte : message.bytes) byte = static_cast<std::uint8_t>(random() % 3 == 0 ? random() : 0);
    message.header = {static_cast<std::uint8_t>(random() % 4), static_cast<std::uint8_t>(random() % 14), 0,
                      static_cast<std::uint16_t>(random()), static_cast<std::uint16_t>(8 + random() % 57)};
    driver_.send(message);
    card_.run_until_idle();
    ASSERT_TRUE(driver_.receive()) << "every request gets one answer";
    ASSERT_FALSE(driver_.receive());
  }
  EXPECT_EQ(driver_.header().magic, wire::kWindowMagic);
  EXPECT_TRUE(driver_.bring_up());
  fwtest::StreamHandle stream;
  EXPECT_EQ(driver_.run(driver_.nop(stream)).outcome, wire::Outcome::Ok);
}

// ---- needs reset ----------------------------------------------------------------------------------------------------

TEST_F(ControlServer, NeedsResetIsToldOnceAndStaysUntilStatusZero) {
  ASSERT_TRUE(driver_.bring_up());
  const auto rings = card_.rings(2);
  fw::raise_needs_reset(card_.function(2));
  fw::raise_needs_reset(card_.function(2));
  const auto event = driver_.receive();
  ASSERT_TRUE(event);
  EXPECT_EQ(event->header.op, static_cast<std::uint8_t>(MessageOp::EventConfig));
  wire::ConfigEvent payload;
  ASSERT_TRUE(wire::read_payload(*event, payload));
  EXPECT_EQ(payload.status, kRunning | wire::kStatusNeedsReset);
  EXPECT_FALSE(driver_.receive());
  EXPECT_EQ(card_.rings(2), rings + 1);
  EXPECT_EQ(driver_.set_status(kRunning), kRunning | wire::kStatusNeedsReset) << "only status 0 clears it";
  EXPECT_EQ(driver_.header().device_status, kRunning | wire::kStatusNeedsReset);
  EXPECT_EQ(driver_.set_status(0), 0u);
  EXPECT_TRUE(driver_.bring_up());
}

TEST_F(ControlServer, ADriverCannotSetNeedsResetItself) {
  EXPECT_EQ(driver_.set_status(kAck | wire::kStatusNeedsReset), kAck);
}

// ---- function reset -------------------------------------------------------------------------------------------------

TEST_F(ControlServer, NothingCompletesAfterAFunctionReset) {
  ASSERT_TRUE(driver_.bring_up());
  const auto region = driver_.acquire(64 * wire::kMiB).value();
  fwtest::StreamHandle stream;
  driver_.submit(driver_.fill(stream, region, 0, region.bytes, 0x77));
  for (int i = 0; i < 5; ++i) driver_.submit(driver_.nop(stream));
  fw::run_iteration(card_.card());
  ASSERT_TRUE(driver_.collect().empty());
  EXPECT_EQ(driver_.set_status(0), 0u);
  for (const auto& end : driver_.collect())
    ADD_FAILURE() << end.completion.sequence << wire::name(end.completion.outcome);
  EXPECT_EQ(driver_.at<std::uint64_t>(wire::kStartedSequences.offset)[0], 0u);
  ASSERT_TRUE(driver_.bring_up());
  EXPECT_FALSE(driver_.ring(wire::kControlBlockQueue).has_used());
  fwtest::StreamHandle fresh;
  const auto end = driver_.run(driver_.fill(fresh, region, 0, 128, 1));
  EXPECT_EQ(end.status, wire::Status::UnknownRegion) << "regions went with the reset";
}

TEST_F(ControlServer, AFunctionResetTouchesNoOtherFunction) {
  auto& other = card_.driver(1);
  ASSERT_TRUE(driver_.bring_up());
  ASSERT_TRUE(other.bring_up());
  const auto region = other.acquire(8 * wire::kMiB).value();
  fwtest::StreamHandle stream;
  other.run(other.fill(stream, region, 0, region.bytes, 0x1122334455667788));
  const auto generation = other.header().generation;
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(driver_.bring_up());
  EXPECT_EQ(other.header().generation, generation);
  EXPECT_EQ(other.run(other.nop(stream)).outcome, wire::Outcome::Ok);
  EXPECT_EQ(other
                .run(other.dma(stream, fwtest::RawDriver::device(region, 0),
                               fwtest::RawDriver::host(wire::kHostMemoryOffset), 4096))
                .outcome,
            wire::Outcome::Ok);
  for (int i = 0; i < 512; ++i) {
    EXPECT_EQ(other.at<std::uint64_t>(wire::kHostMemoryOffset)[i], 0x1122334455667788u);
  }
}

TEST_F(ControlServer, AResetGivesAllMemoryBackClean) {
  ASSERT_TRUE(driver_.bring_up());
  fwtest::StreamHandle stream;
  for (int i = 0; i < 4; ++i) {
    const auto region = driver_.acquire(16 * wire::kMiB).value();
    ASSERT_EQ(driver_.run(driver_.fill(stream, region, 0, region.bytes, ~0ull)).outcome, wire::Outcome::Ok);
  }
  EXPECT_FALSE(driver_.acquire(1));
  ASSERT_TRUE(driver_.bring_up());
  EXPECT_TRUE(driver_.acquire(64 * wire::kMiB));
  ASSERT_TRUE(svp::test::all_bytes_are(card_.board().region_memory(), std::byte{0}));
}

}  // namespace
