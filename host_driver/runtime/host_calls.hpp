// SPDX-License-Identifier: Apache-2.0
// What runs on the host in the order of a stream, and the threads that run it. Two kinds, each with threads of its own:
//  * functions of the program (FlexStream::LaunchHost): as many threads as streams that were given functions. One may
//    wait for another stream, also for one whose own function comes next, and none keeps another from beginning;
//  * HostOperations in the stream (HostTime::InStream): a few threads for all streams. They may not wait for a stream:
//    what would let it go on may need the thread that waits.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "host_driver/runtime/staging.hpp"

namespace svp {

struct Unit;
class StreamChannel;
class TileBlocks;

struct HostCall {
  void run();

  HostCall* next = nullptr;  // of the threads
  StreamChannel* channel = nullptr;
  Unit* unit = nullptr;
  std::function<void()> function;
  // Instead: writes the next tile of a launch into these records.
  std::shared_ptr<TileBlocks> tiles;
  Unit* correction = nullptr;
  Unit* compute = nullptr;
};

class HostCalls {
 public:
  enum class Kind : std::uint8_t { Functions, Operations };

  explicit HostCalls(Kind kind) : kind_(kind) {}
  ~HostCalls() { finish(); }
  HostCalls(const HostCalls&) = delete;
  HostCalls& operator=(const HostCalls&) = delete;

  // For a stream that has not been given one before; of Operations at most kOperationThreads. Throws Error: the system
  // has no thread left.
  void add_thread();
  // StreamChannel::host_call_ended() is called on the thread that ran it. A stream runs one at a time.
  void run(HostCall& call) noexcept;
  // No stream gives one any more: returns when those under way have returned.
  void finish() noexcept;

  // This thread runs a function of that stream.
  static bool inside(const StreamChannel& channel);
  // This thread runs a HostOperation.
  static bool inside_operation();

  static constexpr std::size_t kOperationThreads = 4;

 private:
  void work();

  const Kind kind_;
  std::mutex mutex_;
  std::condition_variable work_;
  StagingList<HostCall> ready_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace svp
