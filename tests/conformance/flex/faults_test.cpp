// SPDX-License-Identifier: Apache-2.0
// Faults below, as a program sees them through the runtime interface.
#include <gmock/gmock.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/support/flex/prepared_plan.hpp"

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
  for (const pid_t emulator : emulators) ::kill(emulator, SIGKILL);
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
