// SPDX-License-Identifier: Apache-2.0
// Faults below, as a program sees them through the runtime interface.
#include <gmock/gmock.h>

#include <array>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/support/flex/prepared_plan.hpp"
#include "tests/support/process_end.hpp"

namespace flex_test {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// A runtime for each case: a failed one is replaced.
class FlexFault : public testing::Test {
 protected:
  FlexFault() { open(); }
  void open() { flex::initializeRuntime(&runtime, device_of_rank()); }
  flex::RuntimeStream& stream() { return *runtime->getDefaultStream(); }
  flex::CompositeAddress tensor(std::size_t bytes) { return runtime->getAllocator()->allocate(bytes, tensor_memory()); }
  PreparedPlan prepared(const char* name) {
    return {std::string(SPYRE_FLEX_PLANS) + "/" + name, *runtime->getAllocator(), stream()};
  }
  void expect_works() {
    const auto bytes = counted_bytes(std::size_t{1} << 20);
    const auto memory = tensor(bytes.size());
    std::vector<std::uint8_t> back(bytes.size());
    send(stream(), bytes.data(), bytes.size(), memory);
    receive(stream(), back.data(), back.size(), memory);
    stream().synchronize();
    EXPECT_EQ(back, bytes);
    EXPECT_FALSE(runtime->hasStreamError());
    EXPECT_FALSE(stream().needsShutdown());
  }
  void replace() {
    runtime.reset();
    open();
  }

  std::shared_ptr<flex::RuntimeContext> runtime;
};

TEST_F(FlexFault, OfAKernelFailsItsStreamUntilTheRuntimeIsReplaced) {
  const PreparedPlan plan = prepared("illegal");
  const auto target = tensor(64 * 128);
  flex::RuntimeStream& other = *runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  plan.launch(stream(), {&target}, PreparedPlan::Addresses::Bound);
  const auto failure = AllOf(HasSubstr("stray"), HasSubstr("outcome FAULT"));
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), failure);
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), failure);
  EXPECT_THAT(what_of([&] { plan.launch(stream(), {&target}, PreparedPlan::Addresses::Bound); }), failure);
  EXPECT_THAT(what_of([&] { stream().fillAsync(&target, 0, DataFormats::IEEE_FP32, true); }), failure);
  EXPECT_TRUE(stream().needsShutdown());
  EXPECT_TRUE(runtime->hasStreamError());
  EXPECT_TRUE(stream().query());
  // Bystanders go on.
  other.fillAsync(&target, 1, DataFormats::SEN169_FP16, true);
  other.synchronize();
  EXPECT_FALSE(other.needsShutdown());
  replace();
  expect_works();
}

// Three rows of a table of 16, by number.
class FlexIndex : public FlexFault {
 protected:
  FlexIndex() {
    for (std::size_t i = 0; i < rows_.size(); ++i)
      rows_[i] = static_cast<std::uint16_t>(deeptools::FloatToFp16Bin(static_cast<float>(i / 64)));
    send(stream(), rows_.data(), rows_.size() * 2, table);
    stream().synchronize();
  }
  void launch(flex::RuntimeStream& on, std::array<std::int32_t, 3> numbers) {
    numbers_ = numbers;
    send(on, numbers_.data(), sizeof numbers_, index);
    plan.launch(on, {&table, &index, &taken}, PreparedPlan::Addresses::Fast);
  }
  void expect_taken(flex::RuntimeStream& on, std::array<std::int32_t, 3> numbers) {
    launch(on, numbers);
    std::vector<std::uint16_t> back(std::size_t{3} * 64);
    receive(on, back.data(), back.size() * 2, taken);
    on.synchronize();
    for (std::size_t i = 0; i < back.size(); ++i) {
      EXPECT_EQ(back[i], rows_[static_cast<std::size_t>(numbers[i / 64]) * 64]) << i;
    }
  }
  void expect_no_error(flex::RuntimeStream& on) {
    EXPECT_FALSE(on.needsShutdown());
    EXPECT_FALSE(runtime->hasStreamError());
  }

  static constexpr const char* kOutside =
      "index 40 is outside of argument 0, which has 16 rows: operation 0 (Gather), operand 1";
  PreparedPlan plan = prepared("gather");
  flex::CompositeAddress table = tensor(16 * 128), index = tensor(128), taken = tensor(3 * 128);

 private:
  std::vector<std::uint16_t> rows_ = std::vector<std::uint16_t>(std::size_t{16} * 64);
  std::array<std::int32_t, 3> numbers_{};
};

TEST_F(FlexIndex, OutsideIsToldOnceAndTheStreamGoesOn) {
  expect_taken(stream(), {0, 15, 3});
  for (int i = 0; i < 3; ++i) {
    launch(stream(), {1, 40, 2});
    EXPECT_THAT(what_of([&] { stream().synchronize(); }),
                AllOf(HasSubstr(kOutside), HasSubstr("outcome FAULT"),
                      HasSubstr("next: give indices from 0 to 15 and launch again: the stream goes on")));
    expect_no_error(stream());
    EXPECT_EQ(what_of([&] { stream().synchronize(); }), "nothing was thrown");
    expect_taken(stream(), {7, 15, i});
  }
  launch(stream(), {-1, 0, 0});
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), HasSubstr("index -1 is outside of argument 0"));
  expect_works();
}

TEST_F(FlexIndex, OutsideIsToldByWhateverCallFindsIt) {
  flex::RuntimeStream& on = *runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  std::vector<std::uint8_t> bytes(128);
  const std::vector<std::function<void()>> calls{
      [&] { on.synchronize(); },
      [&] { on.fillAsync(&taken, 0, DataFormats::SEN169_FP16, true); },
      [&] { send(on, bytes.data(), bytes.size(), index); },
      [&] { receive(on, bytes.data(), bytes.size(), index); },
      [&] { plan.launch(on, {&table, &index, &taken}, PreparedPlan::Addresses::Bound); },
  };
  for (std::size_t i = 0; i < calls.size(); ++i) {
    launch(on, {0, 40, 0});
    while (!on.query()) {  // bounded: the kernel ends by itself, by the watchdog at the latest
    }
    expect_no_error(on);
    EXPECT_THAT(what_of(calls[i]), HasSubstr(kOutside)) << i;
    expect_taken(on, {5, 6, 7});
  }
}

// What was launched behind it, before anybody knew, is not executed. What is launched afterwards is.
TEST_F(FlexIndex, LaunchesBehindItAreNotExecutedAndCounted) {
  const auto behind = tensor(128);
  stream().fillAsync(&behind, 1, DataFormats::SENINT8, true);
  std::vector<std::uint8_t> back(128, 77), ones(128, 1);
  launch(stream(), {0, 0, 40});
  std::size_t told = 0;  // a launch that finds the error has done nothing
  const auto may_tell = [&](const std::function<void()>& call) {
    const std::string what = what_of(call);
    told += what.find(kOutside) != std::string::npos ? 1U : 0U;
    return told != 0;
  };
  const bool early = may_tell([&] { stream().fillAsync(&behind, 2, DataFormats::SENINT8, true); }) ||
                     may_tell([&] { receive(stream(), back.data(), back.size(), behind); });
  if (!early) {
    EXPECT_THAT(what_of([&] { stream().synchronize(); }),
                AllOf(HasSubstr(kOutside), HasSubstr("2 launches behind it on this stream were not executed")));
    EXPECT_EQ(back, std::vector<std::uint8_t>(128, 77));
  }
  receive(stream(), back.data(), back.size(), behind);
  stream().synchronize();
  EXPECT_EQ(back, ones);
  expect_no_error(stream());
  expect_works();
}

TEST_F(FlexIndex, OutsideConcernsNoOtherStream) {
  flex::RuntimeStream& other = *runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  const auto memory = tensor(128);
  launch(stream(), {40, 0, 0});
  for (int i = 0; i < 5; ++i) {
    other.fillAsync(&memory, i, DataFormats::SENINT8, true);
    other.synchronize();
  }
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), HasSubstr(kOutside));
  expect_taken(other, {2, 1, 0});
  expect_taken(stream(), {0, 1, 2});
}

// Each of the threads is told, or finds a stream that goes on; none is told of a reset.
TEST_F(FlexIndex, OutsideIsToldToThreadsOfOneStream) {
  constexpr int kThreads = 4;
  const auto memory = tensor(128);
  for (int round = 0; round < 20; ++round) {
    launch(stream(), {0, 40, 0});
    std::array<std::string, kThreads> said;
    std::vector<std::thread> threads;
    for (std::string& what : said) {
      threads.emplace_back([&] {
        what = what_of([&] {
          stream().fillAsync(&memory, 1, DataFormats::SENINT8, true);
          stream().synchronize();
        });
      });
    }
    for (std::thread& thread : threads) thread.join();  // bounded: each waits for launches that end by themselves
    int told = 0;
    for (const std::string& what : said) {
      const bool outside = what.find(kOutside) != std::string::npos;
      told += outside ? 1 : 0;
      EXPECT_TRUE(outside || what == "nothing was thrown") << what;
    }
    EXPECT_GE(told, 1);
    expect_taken(stream(), {3, 2, 1});
  }
}

// Ordered by whoever owns the card: SPYRE_FLEX_RESET is the command for this process's function.
TEST_F(FlexFault, AResetOfTheFunctionFailsEveryStreamUntilTheRuntimeIsReplaced) {
  const char* const reset = std::getenv("SPYRE_FLEX_RESET");
  if (reset == nullptr) GTEST_SKIP() << "the card is this process's own";
  const PreparedPlan plan = prepared("spin");
  flex::RuntimeStream& other = *runtime->createStream(flex::RuntimeStreamPriority::HIGH);
  const auto memory = tensor(4096);
  plan.launch(stream(), {}, PreparedPlan::Addresses::Bound);
  ASSERT_EQ(std::system(reset), 0) << reset;
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), testing::ContainsRegex("outcome (ABORTED|LOST|INDETERMINATE)"));
  EXPECT_THAT(what_of([&] {
                other.fillAsync(&memory, 0, DataFormats::SENINT8, true);
                other.synchronize();
              }),
              HasSubstr("reset"));
  EXPECT_TRUE(stream().needsShutdown());
  EXPECT_TRUE(other.needsShutdown());
  EXPECT_TRUE(runtime->hasStreamError());
  replace();
  expect_works();
}

struct Process {
  std::string name;
  pid_t parent = 0;  // 0: there is no such process
};
Process process(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/stat");
  std::string text;
  std::getline(file, text);
  const std::size_t first = text.find('(');
  const std::size_t last = text.rfind(')');
  if (first == std::string::npos || last == std::string::npos) return {};
  char state = 0;
  Process found{text.substr(first + 1, last - first - 1), 0};
  return std::sscanf(text.c_str() + last + 1, " %c %d", &state, &found.parent) == 2 ? found : Process{};
}

// Emulators that this process, or a helper of it, has started; none when its card belongs to somebody else.
std::vector<pid_t> own_emulators() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto pid = static_cast<pid_t>(std::stoi(name));
    const Process one = process(pid);
    if (!one.name.starts_with("qemu-system-ris")) continue;
    if (one.parent == ::getpid() || process(one.parent).parent == ::getpid()) found.push_back(pid);
  }
  return found;
}

TEST_F(FlexFault, OfTheEmulatorFailsEveryStreamUntilTheRuntimeIsReplaced) {
  const auto emulators = own_emulators();
  if (emulators.empty()) GTEST_SKIP() << "the card is not this process's own";
  const PreparedPlan plan = prepared("spin");
  flex::RuntimeStream& other = *runtime->createStream(flex::RuntimeStreamPriority::HIGH);
  const auto memory = tensor(4096);
  plan.launch(stream(), {}, PreparedPlan::Addresses::Bound);
  for (const pid_t emulator : emulators) svp::test::send_signal(emulator, SIGKILL);
  EXPECT_THAT(what_of([&] { stream().synchronize(); }), testing::ContainsRegex("outcome (LOST|INDETERMINATE)"));
  EXPECT_THAT(what_of([&] {
                other.fillAsync(&memory, 0, DataFormats::SENINT8, true);
                other.synchronize();
              }),
              HasSubstr("emulator"));
  EXPECT_TRUE(stream().needsShutdown());
  EXPECT_TRUE(other.needsShutdown());
  EXPECT_TRUE(runtime->hasStreamError());
  replace();
  expect_works();
}

}  // namespace
}  // namespace flex_test
