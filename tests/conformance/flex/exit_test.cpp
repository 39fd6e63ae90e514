// SPDX-License-Identifier: Apache-2.0
// How a process ends, in processes of their own: with work under way, with objects that outlive the runtime, with
// threads inside of it; and what a forked child has of it.
#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>

#include "tests/conformance/flex/flex_runtime.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace {
bool leaks_are_the_parents = false;
}
// A forked child is no place to look for leaks: what threads of the parent hold has no owner there.
extern "C" int __lsan_is_turned_off() { return leaks_are_the_parents ? 1 : 0; }

namespace flex_test {
namespace {

using testing::ExitedWithCode;

// Older than anything that libflex makes: destroyed after all of it.
std::shared_ptr<flex::RuntimeContext>& kept_runtime() {
  static std::shared_ptr<flex::RuntimeContext> runtime;
  return runtime;
}
std::vector<flex::CompositeAddress>& kept_memory() {
  static std::vector<flex::CompositeAddress> memory;
  return memory;
}

// A program's to keep until the transfers have ended.
std::vector<std::uint8_t>& host_memory() {
  static auto* const memory = new std::vector<std::uint8_t>(std::size_t{32} << 20);
  return *memory;
}

// A large transfer either way, whose callbacks are never waited for.
flex::RuntimeStream& busy_stream(const std::shared_ptr<flex::RuntimeContext>& runtime) {
  flex::RuntimeStream& stream = *runtime->createStream(flex::RuntimeStreamPriority::NORMAL);
  kept_memory().push_back(runtime->getAllocator()->allocate(host_memory().size(), tensor_memory()));
  const auto keep = std::make_shared<int>(0);
  send(stream, host_memory().data(), host_memory().size(), kept_memory().back(), nullptr, [keep](void*) {});
  receive(stream, host_memory().data(), host_memory().size(), kept_memory().back(), nullptr, [keep](void*) {});
#ifdef SPYRE_FLEX_PLANS
  // Runs until its watchdog ends it.
  static PreparedPlan* const plan =
      new PreparedPlan(std::string(SPYRE_FLEX_PLANS) + "/spin", *runtime->getAllocator(), stream);
  plan->launch(stream, {}, PreparedPlan::Addresses::Bound);
#endif
  return stream;
}

class FlexExitDeathTest : public testing::Test {
 protected:
  FlexExitDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

TEST_F(FlexExitDeathTest, WithWorkUnderWay) {
  EXPECT_EXIT(
      {
        (void)kept_memory();
        flex::initializeRuntime(&kept_runtime(), device_of_rank());
        (void)busy_stream(kept_runtime());
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(FlexExitDeathTest, WithARuntimeThatNobodyLetsGo) {
  EXPECT_EXIT(
      {
        auto* const runtime = new std::shared_ptr<flex::RuntimeContext>;
        flex::initializeRuntime(runtime, device_of_rank());
        (void)busy_stream(*runtime);
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(FlexExitDeathTest, WithAThreadThatWaitsForAStream) {
  EXPECT_EXIT(
      {
        flex::initializeRuntime(&kept_runtime(), device_of_rank());
        std::atomic<bool> inside{false};
        std::thread waiting([&] {
          flex::RuntimeStream& stream = busy_stream(kept_runtime());
          inside.store(true);
          inside.notify_all();
          try {
            stream.synchronize();
          } catch (const std::runtime_error&) {  // NOLINT(bugprone-empty-catch): what is said depends on who is first
          }
        });
        inside.wait(false);  // bounded: the thread stores it, or throws and ends the process
        waiting.detach();
        std::exit(0);
      },
      ExitedWithCode(0), "");
}

TEST_F(FlexExitDeathTest, OfAForkedChildTouchesNothingOfItsParents) {
  EXPECT_EXIT(
      {
        flex::initializeRuntime(&kept_runtime(), device_of_rank());
        flex::RuntimeStream& stream = *kept_runtime()->getDefaultStream();
        const auto bytes = counted_bytes(4096);
        kept_memory().push_back(kept_runtime()->getAllocator()->allocate(4096, tensor_memory()));
        send(stream, bytes.data(), bytes.size(), kept_memory().back());
        const pid_t child = ::fork();
        if (child == 0) {
          leaks_are_the_parents = true;
          const std::string what = what_of([&] { stream.synchronize(); });
          kept_memory().clear();
          std::exit(what.find("forked") != std::string::npos && stream.needsShutdown() ? 0 : 1);
        }
        int status = -1;
        // bounded: the child exits, or the time-out of the test ends both
        const bool child_exited = ::waitpid(child, &status, 0) == child && status == 0;
        std::vector<std::uint8_t> back(4096);
        receive(stream, back.data(), back.size(), kept_memory().back());
        stream.synchronize();
        std::exit(child_exited && back == bytes ? 0 : 1);
      },
      ExitedWithCode(0), "");
}

}  // namespace
}  // namespace flex_test
