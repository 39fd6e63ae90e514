// SPDX-License-Identifier: Apache-2.0
#include "host_driver/trace/recorder.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/trace/trace_file.hpp"

namespace svp::trace {
namespace {

using testing::HasSubstr;

class TraceRecorder : public testing::Test {
 protected:
  TraceRecorder() {
    std::string name = (std::filesystem::temp_directory_path() / "trace-XXXXXX").string();
    folder_ = ::mkdtemp(name.data());
  }
  ~TraceRecorder() override { std::filesystem::remove_all(folder_); }

  std::unique_ptr<Recorder> open(std::uint64_t records) const {
    return value_or_throw(Recorder::open(folder_.string(), records));
  }
  static bool write(Recorder& recorder, std::uint64_t launch) {
    Record* record = recorder.take(Kind::Launch);
    if (record == nullptr) return false;
    record->begin = record->end = Recorder::now();
    record->launch = launch;
    Recorder::commit(*record);
    return true;
  }

  std::filesystem::path folder_;
};

TEST_F(TraceRecorder, WhatWasWrittenIsRead) {
  const auto recorder = open(10);
  EXPECT_EQ(recorder->open_card("card0 VF1"), 1u);
  Record* record = recorder->take(Kind::Block);
  ASSERT_NE(record, nullptr);
  record->opcode = 3;
  record->begin = 5;
  record->end = 9;
  record->device_begin = 50;
  record->device_end = 90;
  record->stream = 7;
  record->launch = 1234567890123;
  record->tile = 4;
  record->step = 2;
  record->sequence = 77;
  record->bytes = 1 << 20;
  record->card = 1;
  record->status = 12;
  Recorder::set_text(*record, "a kernel with a name of more than forty characters");
  Recorder::commit(*record);
  const auto trace = value_or_throw(read_file(recorder->path()));
  EXPECT_EQ(trace.process, static_cast<std::uint32_t>(::getpid()));
  EXPECT_THAT(trace.program, HasSubstr("trace_recorder"));
  ASSERT_EQ(trace.entries.size(), 2u);
  EXPECT_EQ(trace.entries[0].kind, Kind::Card);
  EXPECT_EQ(trace.entries[0].text, "card0 VF1");
  const Entry& block = trace.entries[1];
  EXPECT_EQ(block.kind, Kind::Block);
  EXPECT_EQ(block.opcode, 3);
  EXPECT_EQ(block.begin, 5u);
  EXPECT_EQ(block.end, 9u);
  EXPECT_EQ(block.device_begin, 50u);
  EXPECT_EQ(block.device_end, 90u);
  EXPECT_EQ(block.stream, 7u);
  EXPECT_EQ(block.launch, 1234567890123u);
  EXPECT_EQ(block.tile, 4u);
  EXPECT_EQ(block.step, 2u);
  EXPECT_EQ(block.sequence, 77u);
  EXPECT_EQ(block.bytes, 1u << 20);
  EXPECT_EQ(block.card, 1u);
  EXPECT_EQ(block.status, 12u);
  EXPECT_EQ(block.text, "a kernel with a name of more than forty ");
}

TEST_F(TraceRecorder, WhatFindsNoRoomIsCounted) {
  const auto recorder = open(3);
  for (unsigned i = 0; i < 3; ++i) EXPECT_TRUE(write(*recorder, i));
  for (unsigned i = 0; i < 4; ++i) EXPECT_FALSE(write(*recorder, i));
  EXPECT_EQ(recorder->lost(), 4u);
  const auto trace = value_or_throw(read_file(recorder->path()));
  EXPECT_EQ(trace.entries.size(), 3u);
  EXPECT_EQ(trace.lost, 4u);
}

TEST_F(TraceRecorder, ThreadsLoseNothingBetweenThem) {
  constexpr unsigned kThreads = 4;
  constexpr unsigned kEach = 5000;
  const auto recorder = open(kThreads * kEach);
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < kThreads; ++t) {
    threads.emplace_back([&recorder, t] {
      for (unsigned i = 0; i < kEach; ++i) write(*recorder, t * kEach + i);
    });
  }
  for (std::thread& thread : threads) thread.join();  // bounded: each writes a fixed number of entries
  const auto trace = value_or_throw(read_file(recorder->path()));
  std::set<std::uint64_t> launches;
  std::set<std::uint32_t> ids;
  for (const Entry& entry : trace.entries) {
    launches.insert(entry.launch);
    ids.insert(entry.thread);
  }
  EXPECT_EQ(launches.size(), kThreads * kEach);
  EXPECT_EQ(ids.size(), kThreads);
}

TEST_F(TraceRecorder, AProcessThatIsKilledLeavesWhatItWrote) {
  const pid_t child = ::fork();
  if (child == 0) {
    auto recorder = Recorder::open(folder_.string(), 100);
    if (!recorder) ::_exit(1);
    for (unsigned i = 0; i < 10; ++i) write(**recorder, i);
    (void)(*recorder)->take(Kind::Launch);  // and it dies while it writes the last one
    ::raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);  // bounded: the child ends by itself
  ASSERT_TRUE(WIFSIGNALED(status));
  const auto traces = value_or_throw(read_folder(folder_));
  ASSERT_EQ(traces.size(), 1u);
  EXPECT_EQ(traces[0].process, static_cast<std::uint32_t>(child));
  EXPECT_EQ(traces[0].entries.size(), 10u);
  EXPECT_EQ(traces[0].unwritten, 1u);
}

TEST_F(TraceRecorder, AForkedChildWritesNothingIntoItsParentsFile) {
  const auto recorder = open(10);
  const pid_t child = ::fork();
  if (child == 0) ::_exit(write(*recorder, 1) ? 1 : 0);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);  // bounded: the child ends by itself
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_TRUE(value_or_throw(read_file(recorder->path())).entries.empty());
}

TEST_F(TraceRecorder, FunctionsHaveNumbersOfTheirOwn) {
  const auto recorder = open(10);
  EXPECT_EQ(recorder->open_card("embedded PF"), 1u);
  EXPECT_EQ(recorder->open_card("embedded PF"), 2u) << "two cards of one name";
  recorder->close_card(1);
  EXPECT_EQ(recorder->open_card("embedded PF"), 1u) << "the same function again, after a recovery";
  EXPECT_EQ(recorder->open_card("card0 VF1"), 3u);
  const auto trace = value_or_throw(read_file(recorder->path()));
  ASSERT_EQ(trace.entries.size(), 3u);
  EXPECT_EQ(trace.entries[1].text, "embedded PF #2");
}

TEST_F(TraceRecorder, EveryBadSettingIsAnErrorOfItsOwn) {
  const auto message = [](const auto& result) { return result.error().message; };
  EXPECT_THAT(message(Recorder::open((folder_ / "none").string(), 10)), HasSubstr("no trace can be written"));
  EXPECT_THAT(message(Recorder::open(folder_.string(), 0)), HasSubstr("0 entries were asked for"));
  EXPECT_THAT(message(Recorder::open(folder_.string(), kMostRecords + 1)), HasSubstr("entries were asked for"));
  ::setenv(kFolderVariable, folder_.c_str(), 1);
  for (const char* wrong : {"many", "12x", "-1", "99999999999999999999999"}) {
    ::setenv(kRecordsVariable, wrong, 1);
    EXPECT_THAT(message(start_from_environment()), HasSubstr("is no number of entries")) << wrong;
  }
  ::unsetenv(kRecordsVariable);
  ::unsetenv(kFolderVariable);
  EXPECT_TRUE(start_from_environment()) << "nothing is asked for";
  EXPECT_EQ(recorder(), nullptr);
  EXPECT_TRUE(std::filesystem::is_empty(folder_));
}

TEST_F(TraceRecorder, WhatIsNoTraceIsRefused) {
  const auto path = folder_ / (std::string("1.0") + kFileSuffix);
  const auto message = [&] { return read_file(path).error().message; };
  EXPECT_THAT(message(), HasSubstr("No such file"));
  std::ofstream(path) << "short";
  EXPECT_THAT(message(), HasSubstr("too short"));
  std::ofstream(path) << std::string(8192, 'x');
  EXPECT_THAT(message(), HasSubstr("first bytes"));
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_THAT(message(), HasSubstr("it is no file"));
  std::filesystem::remove(path);
  std::filesystem::create_symlink("/dev/zero", path);
  EXPECT_FALSE(read_file(path).has_value()) << "a link is not followed";
  EXPECT_TRUE(value_or_throw(read_folder(folder_)).empty());
  EXPECT_FALSE(read_folder(folder_ / "none").has_value());
}

}  // namespace
}  // namespace svp::trace
