// SPDX-License-Identifier: Apache-2.0
// What has to be done on the host when a launch has ended: the conversion behind a copy from the card. One worker
// thread per runtime, started by the first task, does it in the order in which launches end; neither the caller of the
// copy nor the thread that reaps completions converts.
//
//   make() ─► Launch(…, observer and keep_alive = the task) ─► on_launch_ended ─► worker ─► done
//
// FlexStream::Synchronize() and Query() include the tasks of their stream.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "host_driver/base/process.hpp"
#include "host_driver/runtime/launch_observer.hpp"
#include "host_driver/runtime/staging.hpp"

namespace svp {

class FlexStream;
class HostWork;

class HostTask final : public LaunchObserver, public std::enable_shared_from_this<HostTask> {
 public:
  using Clock = std::chrono::steady_clock;

  // HostWork::make().
  HostTask(HostWork& engine, FlexStream& stream, std::uint64_t bytes, std::function<void()> work)
      : engine_(engine), stream_(stream), bytes_(bytes), work_(std::move(work)) {}
  ~HostTask();
  HostTask(const HostTask&) = delete;
  HostTask& operator=(const HostTask&) = delete;

  // The three are thread-safe. In a forked child they throw Error.
  bool done() const;
  // Until it is done. Throws StreamError when the launch failed, Error when it ended otherwise than OK and the stream
  // does not tell why any more, and what the work threw; again and again.
  void wait();
  // The same with a bound: TimeoutError, and everything goes on.
  void wait(Clock::time_point deadline);

  HostTask* next = nullptr;  // of the engine

 private:
  friend class HostWork;
  void on_block(const BlockRecord&) noexcept override {}
  void on_launch_ended(std::uint64_t launch, wire::Outcome outcome) noexcept override;

  void run() noexcept;
  void require_launch_ok() const;
  void require_own_process() const;
  bool wait_a_while(Clock::time_point deadline) const;

  HostWork& engine_;
  FlexStream& stream_;
  const std::uint64_t bytes_;
  const OwnerProcess process_;
  std::function<void()> work_;
  // The engine's: between the launch's end and the task's.
  std::shared_ptr<HostTask> self_;
  std::uint64_t launch_ = 0;
  wire::Outcome outcome_ = wire::Outcome::Ok;

  mutable std::mutex mutex_;
  mutable std::condition_variable ended_;
  bool done_ = false;
  std::exception_ptr failure_;
};

class HostWork {
 public:
  using Clock = std::chrono::steady_clock;

  // Bytes that copies under way hold at most; one that is larger is alone. More wait in make().
  static constexpr std::uint64_t kMostBytes = 256 * wire::kMiB;

  HostWork() = default;
  // All launches have ended: their tasks are finished before it returns.
  ~HostWork();
  HostWork(const HostWork&) = delete;
  HostWork& operator=(const HostWork&) = delete;

  // A task that does `work` when the launch that it is given to has ended OK; `bytes` is what it holds until then.
  // `work` is destroyed when it is done. Throws Error: there is no thread left, or the copies under way do not end
  // (Timeouts::quiesce).
  std::shared_ptr<HostTask> make(FlexStream& stream, std::uint64_t bytes, std::function<void()> work);

  // Tasks of launches of the stream that have ended so far.
  bool idle(const FlexStream& stream) const;
  // False: the deadline passed.
  bool wait(const FlexStream& stream, Clock::time_point deadline);
  // What a task of the stream threw, once; tasks whose launch failed are the stream's own error.
  std::exception_ptr take_failure(const FlexStream& stream);

 private:
  friend class HostTask;
  struct OfStream {
    std::uint64_t ended = 0;  // launches
    std::uint64_t done = 0;   // tasks
    std::exception_ptr failure;
  };

  void push(HostTask& task) noexcept;
  void give_back(std::uint64_t bytes) noexcept;
  void start();
  void run();

  // Streams without tasks are most of them: they look at nothing else.
  std::atomic<bool> used_{false};
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  StagingList<HostTask> ready_;
  std::map<const FlexStream*, OfStream> streams_;
  std::uint64_t bytes_ = 0;  // of tasks that are not done
  bool stop_ = false;
  std::thread worker_;
};

}  // namespace svp
