// SPDX-License-Identifier: Apache-2.0
// A program that uses a card and forks workers, as data loaders do: children that do not exec, refuse what they copied,
// destroy it and exit normally. The parent, whose threads work all the while, does not notice.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "host_driver/frontend/raw_storage.hpp"
#include "host_driver/frontend/spyre_stream.hpp"
#include "host_driver/frontend/spyre_tensor.hpp"
#include "host_driver/frontend/tensor_copy.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace {
// Set in children: what only another thread of the parent could reach is no leak of theirs.
bool leaks_are_the_parents = false;
}  // namespace
extern "C" int __lsan_is_turned_off() { return leaks_are_the_parents ? 1 : 0; }

namespace svp {
namespace {

using svp::DataType;
using svp::HostShape;
using svp::Job;

constexpr std::uint64_t kBytes = 256 * wire::kKiB;

struct Program {
  svp::test::NativeCard card{{.window_bytes = 32 * wire::kMiB}};
  std::unique_ptr<svp::Runtime> runtime = std::make_unique<svp::Runtime>(card.attach(), options());
  SpyreAllocator allocator{*runtime};
  SpyreStream stream{runtime->default_stream()};
  svp::PinnedBuffer pinned = runtime->host_memory().allocate(kBytes);
  SpyreTensor tensor = SpyreTensor::empty(allocator, DataType::Float16, {64, 64});
  svp::ExecutionPlan plan{
      {svp::Job(svp::CompiledKernel(svp::test::matmul_kernel(), {{"M", 64}, {"N", 64}, {"K", 64}}))}};

  std::vector<std::byte> memory = std::vector<std::byte>(64 * 64 * 2);
  std::shared_ptr<HostTask> to_host;
  void* context = nullptr;

  Program() {
    plan.load(*runtime, runtime->default_stream());
    to_host = copy(*runtime, stream, HostTensor{shape(), memory}, tensor);
    stream.Synchronize();
    tensor.record_stream(runtime->next_stream(StreamPriority::High));
    context = RawStorages::of_this_process().hand_out(tensor.storage());
  }
  ~Program() { delete_raw_storage(context); }
  static HostShape shape() { return HostShape::contiguous(DataType::Float16, {64, 64}); }
  static svp::RuntimeOptions options() {
    svp::RuntimeOptions options;
    options.allocator.region_bytes = {64 * wire::kMiB};
    options.staging.chunk_bytes = 64 * wire::kKiB;
    return options;
  }
};

// What a child found wrong; its exit code.
enum Wrong : int { kNothing = 0, kAccepted = 40, kUntyped = 41 };

int refused(const std::function<void()>& call) {
  try {
    call();
    return kAccepted;
  } catch (const svp::Error& error) {
    return error.info().message.find("forked") != std::string::npos && !error.info().recoverable ? kNothing : kUntyped;
  }
}
template <typename T>
int refused(const svp::Expected<T>& result) {
  if (result) return kAccepted;
  return result.error().message.find("forked") != std::string::npos ? kNothing : kUntyped;
}

int use_everything(Program& program) {
  svp::Runtime& runtime = *program.runtime;
  svp::Device& device = runtime.device();
  static std::vector<std::byte> data(kBytes);
  const Job job = Job::to_device(data.data(), program.tensor.allocation_index(), 128);
  const int found[] = {
      refused([&] { program.stream.flex_stream().Launch(job, {}); }),
      refused([&] { program.stream.Synchronize(); }),
      refused([&] { (void)program.stream.Query(); }),
      refused([&] { program.stream.Reset(); }),
      refused([&] { runtime.recover(); }),
      refused([&] { copy(runtime, program.stream, program.tensor, ConstHostTensor{program.shape(), data}); }),
      refused([&] { (void)copy(runtime, program.stream, HostTensor{program.shape(), data}, program.tensor); }),
      refused([&] { (void)program.to_host->done(); }),
      refused([&] { program.to_host->wait(FlexStream::Clock::now()); }),
      refused([&] { runtime.next_stream(svp::StreamPriority::Low); }),
      refused([&] { (void)runtime.host_memory().allocate(4096); }),
      refused([&] { (void)program.allocator.allocate(4096); }),
      refused([&] { (void)program.allocator.statistics(); }),
      refused([&] { program.allocator.set_memory_limit(wire::kGiB); }),
      refused([&] { program.tensor.record_stream(program.stream.flex_stream()); }),
      refused([&] { RawStorages::of_this_process().take_back(program.context); }),
      refused(device.submit(0, {})),
      refused(device.open_stream(svp::StreamPriority::Low)),
      refused(device.reset_stream(0)),
      refused(device.reset_queues()),
      refused(device.card_statistics()),
      refused(device.acquire_region(svp::RegionType::Tensor, wire::kGranuleBytes)),
  };
  for (const int wrong : found) {
    if (wrong != kNothing) return wrong;
  }
  delete_raw_storage(program.context);  // returns
  device.poll();
  device.wake_waiters();
  device.check();
  if (device.health() != svp::Health::Dead || !device.failure()) return kAccepted;
  if (device.wait_until([] { return false; }, svp::Device::Clock::now() + test_bounds::kAnswer) !=
      svp::WaitStatus::Failed) {
    return kAccepted;
  }
  return kNothing;
}

// In the child: everything is used, then destroyed, then the process exits as programs do.
[[noreturn]] void work_and_exit(std::unique_ptr<Program>& program, bool destroys) {
  leaks_are_the_parents = true;
  ::alarm(static_cast<unsigned>(test_bounds::kAnswer.count()));  // a child that hangs ends by a signal
  const int wrong = use_everything(*program);
  if (destroys) {
    program->plan = {};
    program->tensor = {};
    program->pinned = {};
    program->runtime.reset();
  }
  std::exit(wrong);
}

class Busy {
 public:
  explicit Busy(Program& program, svp::FlexStream& stream)
      : program_(program), stream_(stream), thread_([this] { work(); }) {}
  ~Busy() {
    stop_ = true;
    thread_.join();  // bounded: the flag is set; it waits until its deadline at most
  }
  unsigned rounds() const { return rounds_.load(); }

 private:
  void work() {
    std::vector<std::byte> data(kBytes), back(kBytes);
    for (unsigned round = 0; !stop_; ++round) {
      std::fill(data.begin(), data.end(), static_cast<std::byte>(round));
      const auto memory = program_.allocator.allocate(kBytes);
      stream_.Launch(Job::to_device(data.data(), memory->allocation_index(), kBytes), {});
      stream_.Launch(Job::from_device(back.data(), memory->allocation_index(), kBytes), {});
      stream_.Synchronize(svp::FlexStream::Clock::now() + test_bounds::kWork);
      ASSERT_TRUE(back == data);
      const auto pinned = program_.runtime->host_memory().allocate(4096);
      ++rounds_;
    }
  }
  Program& program_;
  svp::FlexStream& stream_;
  std::atomic<bool> stop_{false};
  std::atomic<unsigned> rounds_{0};
  std::thread thread_;
};

TEST(Fork, WorkersOfABusyProgramExitAndTheProgramGoesOn) {
  auto program = std::make_unique<Program>();
  Busy first(*program, program->runtime->next_stream(svp::StreamPriority::Low));
  Busy second(*program, program->runtime->next_stream(svp::StreamPriority::High));
  constexpr int kPools = 8, kWorkers = 6;
  for (int pool = 0; pool < kPools; ++pool) {
    std::vector<pid_t> workers;
    for (int i = 0; i < kWorkers; ++i) {
      const pid_t child = ::fork();
      ASSERT_GE(child, 0);
      if (child == 0) work_and_exit(program, i % 2 == 0);
      workers.push_back(child);
    }
    for (const pid_t worker : workers) {
      int status = 0;
      ASSERT_EQ(::waitpid(worker, &status, 0), worker);  // bounded: the child's alarm
      EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
      if (WIFEXITED(status)) EXPECT_EQ(WEXITSTATUS(status), kNothing);
    }
    const unsigned before = first.rounds();
    const auto end = svp::FlexStream::Clock::now() + test_bounds::kWork;
    while (first.rounds() == before && svp::FlexStream::Clock::now() < end) std::this_thread::yield();
    ASSERT_GT(first.rounds(), before) << "the parent's work stands still";
  }
}

}  // namespace
}  // namespace svp
