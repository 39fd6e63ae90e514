// SPDX-License-Identifier: Apache-2.0
#include "tests/device/recovery/recovery_support.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <fstream>
#include <string>

#include "host_driver/program/device_program.hpp"
#include "shared/array.hpp"
#include "shared/dl16.hpp"
#include "tests/support/program_builder.hpp"

namespace svp::test {

namespace {

constexpr std::size_t kPatternBytes = 256 * wire::kKiB;
// What one request to the compute array copies at most.
constexpr std::size_t kCopyBytes = wire::array::kMaxSticks * wire::kStickBytes;
// About as many as a program may execute (kMaxExecutedOperations, of which the ends of the loop are half): 128 GB.
constexpr std::uint32_t kManyCopies = 2'000'000;
constexpr unsigned kEndlessLaunches = 8;
constexpr std::uint64_t kEndlessSlices = 1'000'000;

std::vector<std::byte> pattern(std::uint64_t seed, std::size_t size = kPatternBytes) {
  std::vector<std::byte> bytes(size);
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
  for (unsigned i = 0; i < kEndlessLaunches; ++i) {
    (i % 2 == 0 ? stream() : other).Launch(spin, {}, {.budget_slices = kEndlessSlices});
  }
  return kEndlessLaunches;
}

Job Owner::copies(std::uint32_t times) {
  ProgramBuilder builder;
  const auto copy = dense_operation(builder, wire::program::Opcode::Copy, kCopyBytes / sizeof(wire::Dl16), 1);
  builder.begin_loop(times);
  builder.add(copy);
  builder.end_loop();
  ExecutionPlan plan({Job(std::make_shared<const DeviceProgram>("copies", builder.build()))});
  context().load(plan);
  return plan.jobs()[0];
}

AllocationIndex Owner::holding(const std::vector<std::byte>& bytes) {
  const AllocationIndex memory = runtime().allocator().allocate(bytes.size());
  stream().Launch(Job::to_device(bytes.data(), memory, bytes.size()), {});
  stream().Synchronize(in_time());
  return memory;
}

std::vector<std::byte> Owner::content_of(AllocationIndex memory, std::size_t bytes) {
  std::vector<std::byte> content(bytes);
  FlexStream& reader = runtime().next_stream(StreamPriority::High);
  reader.Launch(Job::from_device(content.data(), memory, bytes), {});
  reader.Synchronize(in_time());
  return content;
}

void Owner::expect_computes() {
  const auto bytes = pattern(seed_ + 2000, kCopyBytes);
  const AllocationIndex from = holding(bytes), to = holding(std::vector<std::byte>(kCopyBytes));
  const Argument arguments[] = {Argument::raw(from), Argument::raw(to)};
  stream().Launch(copies(1), arguments);
  stream().Synchronize(in_time());
  EXPECT_TRUE(content_of(to, kCopyBytes) == bytes) << "the copies of function " << seed_ - 1 << " are wrong";
  for (const AllocationIndex memory : {from, to}) runtime().allocator().deallocate(memory);
}

unsigned Owner::start_endless_array_work() {
  const auto bytes = pattern(seed_ + 3000, kCopyBytes);
  const AllocationIndex to = holding(std::vector<std::byte>(kCopyBytes));
  const Argument arguments[] = {Argument::raw(holding(bytes)), Argument::raw(to)};
  const Job endless = copies(kManyCopies);
  FlexStream& other = runtime().next_stream(StreamPriority::Low);
  for (unsigned i = 0; i < kEndlessLaunches; ++i) {
    (i % 2 == 0 ? stream() : other).Launch(endless, arguments, {.budget_slices = kEndlessSlices});
  }
  const auto deadline = in_time();
  while (content_of(to, kCopyBytes) != bytes && std::chrono::steady_clock::now() < deadline) {
  }
  EXPECT_TRUE(content_of(to, kCopyBytes) == bytes) << "the work has not begun";
  return kEndlessLaunches;
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
