// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/log.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace svp::ras {
namespace {

using Json = nlohmann::ordered_json;

ErrorInfo stray_load() {
  return {.layer = Layer::Core,
          .source = "stream 3",
          .outcome = wire::Outcome::Fault,
          .recoverable = true,
          .next_step = "repair the kernel or its operands, then reset the stream",
          .message = "COMPUTE of job 'add' ended FAULT: stray load",
          .status = wire::Status::LoadFault};
}

ErrorInfo out_of_memory() {
  ErrorInfo error = stray_load();
  error.outcome = wire::Outcome::Rejected;
  error.status = wire::Status::OutOfDeviceMemory;
  return error;
}

class RasLog : public testing::Test {
 protected:
  RasLog() {
    std::string name = (std::filesystem::temp_directory_path() / "ras-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
    options_.file = (folder_ / "ras.jsonl").string();
    options_.now = [this] { return now_; };
  }
  ~RasLog() override { std::filesystem::remove_all(folder_); }

  std::vector<Json> records() const {
    std::ifstream in(options_.file);
    std::vector<Json> all;
    for (std::string line; std::getline(in, line);) all.push_back(Json::parse(line));
    return all;
  }
  // What the records stand for.
  static std::uint64_t errors_in(const std::vector<Json>& records) {
    std::uint64_t sum = 0;
    for (const Json& record : records) sum += 1 + record.at("counts").at("suppressed").get<std::uint64_t>();
    return sum;
  }

  std::filesystem::path folder_;
  LogOptions options_;
  std::chrono::steady_clock::time_point now_{std::chrono::hours{1}};
};

TEST_F(RasLog, ARecordIsOneLineWithStableMembers) {
  Log log(options_);
  log.report(stray_load(), {.device = "card0", .function = "VF1", .stream = 3, .launch = 17});
  const auto all = records();
  ASSERT_EQ(all.size(), 1u);
  std::vector<std::string> members;
  for (const auto& [key, value] : all[0].items()) members.push_back(key);
  EXPECT_THAT(members,
              testing::ElementsAre("time", "code", "name", "layer", "source", "outcome", "status", "recoverable",
                                   "next_step", "message", "device", "function", "stream", "launch", "counts", "pid"));
  EXPECT_EQ(all[0].at("code"), "SPYRE-F403");
  EXPECT_EQ(all[0].at("name"), "stray load");
  EXPECT_EQ(all[0].at("layer"), "core");
  EXPECT_EQ(all[0].at("source"), "stream 3");
  EXPECT_EQ(all[0].at("outcome"), "FAULT");
  EXPECT_EQ(all[0].at("status"), 403);
  EXPECT_EQ(all[0].at("recoverable"), true);
  EXPECT_EQ(all[0].at("next_step"), stray_load().next_step);
  EXPECT_EQ(all[0].at("message"), stray_load().message);
  EXPECT_EQ(all[0].at("device"), "card0");
  EXPECT_EQ(all[0].at("function"), "VF1");
  EXPECT_EQ(all[0].at("stream"), 3);
  EXPECT_EQ(all[0].at("launch"), 17);
  EXPECT_EQ(all[0].at("counts"), Json({{"occurred", 1}, {"suppressed", 0}}));
  EXPECT_THAT(all[0].at("time").get<std::string>(),
              testing::MatchesRegex("20[0-9]{2}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\\.[0-9]{6}Z"));
}

TEST_F(RasLog, WhatIsNotKnownIsNull) {
  Log log(options_);
  log.report(stray_load(), {});
  EXPECT_TRUE(records().at(0).at("stream").is_null());
  EXPECT_TRUE(records().at(0).at("launch").is_null());
}

TEST_F(RasLog, ABurstIsCountedAndNotWritten) {
  Log log(options_);
  for (int i = 0; i < 1000; ++i) log.report(stray_load(), {});
  EXPECT_EQ(records().size(), options_.burst);
  EXPECT_EQ(log.occurred(code_of(stray_load())), 1000u);
  now_ += options_.period;
  log.report(stray_load(), {});
  const auto all = records();
  ASSERT_EQ(all.size(), options_.burst + 1);
  EXPECT_EQ(all.back().at("counts"), Json({{"occurred", 1001}, {"suppressed", 1000 - options_.burst}}));
  EXPECT_EQ(errors_in(all), 1001u);
}

TEST_F(RasLog, NothingIsLostSilentlyAtTheEnd) {
  {
    Log(options_).report(stray_load(), {});
  }
  EXPECT_EQ(errors_in(records()), 1u);
  {
    Log log(options_);
    for (int i = 0; i < 77; ++i) log.report(stray_load(), {});
  }
  EXPECT_EQ(errors_in(records()), 78u) << "the destructor writes what was suppressed; the file is appended to";
}

TEST_F(RasLog, ABurstOfOneErrorHidesNoOther) {
  Log log(options_);
  for (int i = 0; i < 100; ++i) log.report(stray_load(), {});
  log.report(out_of_memory(), {});
  EXPECT_EQ(records().back().at("code"), "SPYRE-R500");
}

TEST_F(RasLog, TheSinkGetsWhatIsWritten) {
  Log log(options_);
  std::vector<Counts> received;
  log.set_sink([&](const Record& record) { received.push_back(record.counts); });
  for (int i = 0; i < 20; ++i) log.report(stray_load(), {});
  EXPECT_EQ(received.size(), options_.burst);
  log.flush();
  EXPECT_EQ(received.size(), options_.burst + 1);
  EXPECT_EQ(received.back(), (Counts{20, 20 - options_.burst - 1}));
  log.set_sink({});
  log.report(out_of_memory(), {});
  EXPECT_EQ(received.size(), options_.burst + 1);
}

TEST_F(RasLog, AFailingLogNeverFailsItsCaller) {
  options_.file = (folder_ / "no such folder" / "ras.jsonl").string();
  Log log(options_);
  log.report(stray_load(), {});
  EXPECT_EQ(log.lost(), 1u);
  log.set_sink([](const Record&) { throw std::runtime_error("a sink that throws"); });
  log.report(stray_load(), {});
  EXPECT_GE(log.lost(), 2u);
  EXPECT_EQ(log.occurred(code_of(stray_load())), 2u);
  options_.file = "/dev/full";
  Log full(options_);
  full.report(stray_load(), {});
  EXPECT_EQ(full.lost(), 1u);
}

TEST_F(RasLog, WithoutAFileItCounts) {
  options_.file.clear();
  Log log(options_);
  log.report(stray_load(), {});
  EXPECT_EQ(log.occurred(code_of(stray_load())), 1u);
  EXPECT_EQ(log.lost(), 0u);
}

TEST_F(RasLog, TextThatIsNoUtf8IsWrittenAllTheSame) {
  Log log(options_);
  ErrorInfo error = stray_load();
  error.source = "name \xff\xfe\n\"quoted\"";
  log.report(error, {});
  ASSERT_EQ(records().size(), 1u);
  EXPECT_THAT(records()[0].at("source").get<std::string>(), testing::HasSubstr("\"quoted\""));
}

TEST_F(RasLog, ThreadsLoseNothing) {
  {
    Log log(options_);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&log] {
        for (int i = 0; i < 500; ++i) log.report(i % 2 == 0 ? stray_load() : out_of_memory(), {});
      });
    }
    for (auto& thread : threads) thread.join();  // bounded: each reports a number of errors
  }
  EXPECT_EQ(errors_in(records()), 2000u);
}

}  // namespace
}  // namespace svp::ras
