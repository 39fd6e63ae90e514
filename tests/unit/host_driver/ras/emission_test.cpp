// SPDX-License-Identifier: Apache-2.0
// Every error of a device is recorded where it is born, once; what is no error is not.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <vector>

#include "host_driver/ras/log.hpp"
#include "shared/memory_order.hpp"
#include "tests/support/blocks.hpp"
#include "tests/support/completion_sinks.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

class RasEmission : public testing::Test {
 protected:
  RasEmission() {
    ras::Log::process().set_sink([this](const ras::Record& record) {
      const std::lock_guard lock(mutex_);
      records_.push_back(record);
    });
  }
  ~RasEmission() override { ras::Log::process().set_sink({}); }

  std::vector<ras::Record> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(records_, {});
  }

  static DeviceOptions named() {
    DeviceOptions options;
    options.card_name = "card7";
    return options;
  }

  test::NativeCard card_;

 private:
  std::mutex mutex_;
  std::vector<ras::Record> records_;
};

TEST_F(RasEmission, AGoodBootIsNoRecord) {
  const auto device = card_.attach(2, named());
  ASSERT_TRUE(device->open_stream(StreamPriority::Low));
  EXPECT_TRUE(take().empty());
}

TEST_F(RasEmission, ClosingADeviceIsNoError) {
  card_.attach(1, named()).reset();
  EXPECT_TRUE(take().empty());
}

TEST_F(RasEmission, WhatTheCardRefusesIsRecordedWithItsStatus) {
  const auto device = card_.attach(2, named());
  const auto refused = device->acquire_region(RegionType::Tensor, std::uint64_t{1} << 60);
  ASSERT_FALSE(refused);
  const auto records = take();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_NE(refused.error().status, wire::Status::None);
  EXPECT_EQ(records[0].error.status, refused.error().status);
  EXPECT_EQ(records[0].error.message, refused.error().message);
  EXPECT_EQ(ras::to_string(records[0].code), "SPYRE-R" + std::to_string(static_cast<unsigned>(refused.error().status)));
  EXPECT_EQ(records[0].where.device, "card7");
  EXPECT_EQ(records[0].where.function, "VF1");
}

TEST_F(RasEmission, ADeathIsRecordedOnceHoweverManyAreToldOfIt) {
  const auto device = card_.attach(1, named());
  card_.die();
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(device->open_stream(StreamPriority::Low));
  const auto records = take();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(ras::to_string(records[0].code), "SPYRE-L006");
  EXPECT_EQ(records[0].where.function, "PF");
  EXPECT_FALSE(records[0].error.next_step.empty());
}

// Whichever thread sees the death first: while its record is written, nobody has been told of the death.
TEST_F(RasEmission, WhoeverIsToldOfADeathFindsItInTheLog) {
  const auto device = card_.attach(1, named());
  std::atomic<int> records = 0;
  std::atomic<bool> told_before_record = false;
  ras::Log::process().set_sink([&](const ras::Record&) {
    if (device->health() != Health::Alive) told_before_record = true;
    ++records;
  });
  card_.die();
  EXPECT_FALSE(device->open_stream(StreamPriority::Low));
  EXPECT_EQ(records, 1);
  EXPECT_FALSE(told_before_record);
}

TEST_F(RasEmission, ADeathThatItsOwnerRecordsIsNotRecordedTwice) {
  DeviceOptions options = named();
  options.records_death = false;
  const auto device = card_.attach(0, std::move(options));
  card_.die();
  EXPECT_FALSE(device->open_stream(StreamPriority::Low));
  EXPECT_TRUE(take().empty());
}

TEST_F(RasEmission, ARestartOfTheCardIsRecorded) {
  const auto device = card_.attach(1, named());
  card_.pause();
  auto& header = *reinterpret_cast<wire::WindowHeader*>(card_.window(1));
  wire::store_release(header.boot_epoch, wire::load_relaxed(header.boot_epoch) + 1);
  EXPECT_EQ(device->wait_until([] { return false; }, test::work_limit()), WaitStatus::Failed);
  const auto records = take();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(ras::to_string(records[0].code), "SPYRE-I003");
}

TEST_F(RasEmission, AFailedBringUpIsRecorded) {
  card_.die();
  DeviceOptions options = card_.device_options(named());
  ASSERT_FALSE(Device::attach(card_.slot(1), std::move(options)));
  const auto records = take();
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].where.device, "card7");
  EXPECT_FALSE(records[0].error.message.empty());
}

}  // namespace
}  // namespace svp
