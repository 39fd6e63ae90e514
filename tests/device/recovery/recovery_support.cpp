// SPDX-License-Identifier: Apache-2.0
#include "tests/device/recovery/recovery_support.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

namespace svp::test {

namespace {

constexpr std::size_t kPatternBytes = 256 * wire::kKiB;

std::vector<std::byte> pattern(std::uint64_t seed) {
  std::vector<std::byte> bytes(kPatternBytes);
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  for (std::byte& byte : bytes) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    byte = static_cast<std::byte>(state >> 56);
  }
  return bytes;
}

// Until the thread of this process with that number, when it has one, sleeps (proc(5): state S).
bool sleeps(const std::atomic<long>& thread) {
  const auto deadline = in_time();
  while (std::chrono::steady_clock::now() < deadline) {
    std::ifstream file("/proc/self/task/" + std::to_string(thread.load()) + "/stat");
    std::string text;
    std::getline(file, text);
    const std::size_t name_end = text.rfind(") ");
    if (name_end != std::string::npos && text[name_end + 2] == 'S') return true;
    std::this_thread::sleep_for(test_bounds::kLook);  // bounded: the deadline is above
  }
  return false;
}

RuntimeOptions runtime_options(RecoveryOptions recovery) {
  RuntimeOptions options;
  options.allocator.region_bytes = {256 * wire::kMiB};
  options.recovery = recovery;
  return options;
}

}  // namespace

Owner::Owner(std::shared_ptr<Card> card, unsigned function, RecoveryOptions recovery)
    : context_(svp::Context::open(std::move(card), {.function = function, .runtime = runtime_options(recovery)})),
      seed_(function + 1) {}

Job Owner::kernel(const char* name) {
  ExecutionPlan plan({Job(CompiledKernel(context().kernel(name), {}))});
  context().load(plan);
  return plan.jobs()[0];
}

void Owner::leave_patterns() {
  const auto bytes = pattern(seed_);
  memory_ = runtime().allocator().allocate(bytes.size());
  pinned_ = runtime().host_memory().allocate(bytes.size());
  std::memcpy(pinned_.data(), bytes.data(), bytes.size());
  stream().Launch(Job::to_device(bytes.data(), memory_, bytes.size()), {});
  stream().Synchronize(in_time());
}

void Owner::expect_patterns() {
  std::vector<std::byte> back(kPatternBytes);
  stream().Launch(Job::from_device(back.data(), memory_, back.size()), {});
  stream().Synchronize(in_time());
  EXPECT_TRUE(back == pattern(seed_)) << "the card's memory of function " << seed_ - 1 << " was touched";
  expect_pinned_pattern();
}

void Owner::expect_pinned_pattern() {
  const auto bytes = pattern(seed_);
  EXPECT_EQ(std::memcmp(pinned_.data(), bytes.data(), bytes.size()), 0) << "pinned memory was touched";
}

void Owner::expect_handles_refused() {
  std::vector<std::byte> back(kPatternBytes);
  try {
    stream().Launch(Job::from_device(back.data(), memory_, back.size()), {});
    ADD_FAILURE() << "a handle from before the recovery was accepted";
  } catch (const InvalidAllocation& error) {
    EXPECT_EQ(error.reason(), InvalidAllocation::Reason::LostInReset);
    EXPECT_FALSE(error.info().next_step.empty());
  }
}

void Owner::expect_works() {
  const auto bytes = pattern(seed_ + 1000);
  std::vector<std::byte> back(bytes.size());
  const auto memory = runtime().allocator().allocate(bytes.size());
  FlexStream& other = runtime().next_stream(StreamPriority::Low);
  stream().Launch(Job::to_device(bytes.data(), memory, bytes.size()), {});
  stream().Synchronize(in_time());
  other.Launch(Job::from_device(back.data(), memory, back.size()), {});
  other.Synchronize(in_time());
  EXPECT_TRUE(back == bytes);
  const Job empty = kernel("empty");
  stream().Launch(empty, {});
  other.Launch(empty, {});
  stream().Synchronize(in_time());
  other.Synchronize(in_time());
  runtime().allocator().deallocate(memory);
}

unsigned Owner::start_endless_work() {
  const Job spin = kernel("spin");
  FlexStream& other = runtime().next_stream(StreamPriority::Low);
  constexpr unsigned kLaunches = 8;
  for (unsigned i = 0; i < kLaunches; ++i) {
    (i % 2 == 0 ? stream() : other).Launch(spin, {}, {.budget_slices = 1'000'000});
  }
  return kLaunches;
}

Waiter::Waiter(FlexStream& stream)
    : thread_([this, &stream] {
        number_ = ::syscall(SYS_gettid);
        try {
          stream.Synchronize(in_time());
        } catch (const StreamError& error) {
          told_ = error.info();
        } catch (const std::exception& error) {
          ADD_FAILURE() << error.what();
        }
      }) {
  EXPECT_TRUE(sleeps(number_)) << "nobody waits for the work";
}

std::optional<ErrorInfo> Waiter::told() {
  if (thread_.joinable()) thread_.join();  // bounded: it waits until in_time() at most
  return told_;
}

void LaunchEndings::on_launch_ended(std::uint64_t launch, wire::Outcome outcome) noexcept {
  const std::lock_guard lock(mutex_);
  ended_.emplace_back(launch, outcome);
}

std::vector<wire::Outcome> LaunchEndings::outcomes() const {
  const std::lock_guard lock(mutex_);
  std::vector<wire::Outcome> result;
  result.reserve(ended_.size());
  for (const auto& [launch, outcome] : ended_) result.push_back(outcome);
  return result;
}

}  // namespace svp::test
