// SPDX-License-Identifier: Apache-2.0
// The program's functions that run in the order of a stream (FlexStream::LaunchHost), and the threads that run them. As
// many threads as streams that were given functions: a function may wait for another stream, also for one whose own
// function comes next, and none keeps another from beginning.
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "host_driver/runtime/staging.hpp"

namespace svp {

struct Unit;
class StreamChannel;

struct HostCall {
  HostCall* next = nullptr;  // of the threads
  StreamChannel* channel = nullptr;
  Unit* unit = nullptr;
  std::function<void()> function;
};

class HostCalls {
 public:
  HostCalls() = default;
  ~HostCalls() { finish(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // For a stream that has not been given a function before. Throws Error: the system has no thread left.
  void add_thread();
  // StreamChannel::host_call_ended() is called on the thread that ran it. A stream runs one at a time.
  void run(HostCall& call) noexcept;
  // No stream gives one any more: returns when those under way have returned.
  void finish() noexcept;

  // This thread runs a function of that stream.
  static bool inside(const StreamChannel& channel);

 private:
  void work();

  std::mutex mutex_;
  std::condition_variable work_;
  StagingList<HostCall> ready_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace svp
