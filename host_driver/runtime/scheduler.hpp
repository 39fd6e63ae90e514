// SPDX-License-Identifier: Apache-2.0
// Scheduler: the streams of a runtime, and what they share. One entry per stream: its channel (queues, submission,
// credits, completions), and the FlexStream that hands control blocks to it. Policy today: first in, first out within a
// stream, as the RFC asks; between streams the card decides.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/host_calls.hpp"
#include "host_driver/runtime/host_work.hpp"
#include "host_driver/runtime/recovery_policy.hpp"
#include "host_driver/runtime/staging.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/stream_recoverer.hpp"

namespace svp {

// RuntimeOptions.
struct SchedulerOptions {
  bool checksums = false;
  bool elide_corrections = false;
};

class Scheduler {
 public:
  // Stream ids as users see them (those of torch-spyre): 0 the default, then one pool per priority, then those for the
  // program's functions, each pool handed out one after the other.
  static constexpr unsigned kStreamsPerPool = 32;
  static constexpr unsigned kFirstHostStream = 2 * kStreamsPerPool + 1;
  static constexpr unsigned kHostStreams = 8;
  // What sends programs to the card (Runtime::loading_stream()): no user's.
  static constexpr unsigned kLoadingStream = kFirstHostStream + kHostStreams;
  static constexpr unsigned kStreams = kLoadingStream + 1;

  struct OpenStream {
    OpenStream(unsigned given_id, CurrentFunction& function, StreamRecoverer& recoverer, StagingEngine& staging,
               HostWork& host_work, std::uint32_t on_card, ChannelRules rules)
        : id(given_id),
          channel(function.device(), function.host_memory(), staging, on_card, rules),
          stream(given_id, function, recoverer, channel, host_work) {}

    const unsigned id;
    StreamChannel channel;
    FlexStream stream;
  };

  // `function` outlives the scheduler. Throws OutOfMemory (staging chunks).
  Scheduler(CurrentFunction& function, const StagingOptions& staging, RecoveryPolicy policy,
            const SchedulerOptions& options);
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // A stream by id (below kStreams), opened on the card when first asked for. Thread-safe. Throws Error from the card.
  FlexStream& stream(unsigned id, StreamRecoverer& recoverer);
  // Those that were asked for, by id.
  std::vector<FlexStream*> opened() const;
  static StreamPriority priority_of(unsigned id) {
    return id > kStreamsPerPool && id < kFirstHostStream ? StreamPriority::High : StreamPriority::Low;
  }
  // The next id of the pool: 1 … 32 for Low, 33 … 64 for High; the 33rd request gets the first again.
  unsigned next_id(StreamPriority priority);
  // The next of the first `of` ids from 65 on, `of` from 1 to kHostStreams.
  unsigned next_host_id(unsigned of);

  // Refuses new work and ends the staging worker. After it the device may be closed, which ends what the card holds.
  void close();
  // After that: ends what the device never had, and what was on its way to the caller's memory.
  void end_everything();

  // ---- recovery
  // While it is held no stream is opened.
  std::unique_lock<std::mutex> hold() { return std::unique_lock(mutex_); }
  // The rest: with hold().
  std::span<const std::unique_ptr<OpenStream>> open_streams() const { return streams_; }
  // The stream on another device. Returns its number there.
  static Expected<std::uint32_t> open_on_card(Device& device, unsigned id);
  // Host memory is another block now. All channels are being recovered and have no chunk. Throws OutOfMemory; nothing
  // changed then.
  void move_memory();
  // A recovery has left no device: all streams refuse work with this error, those that are opened later, too.
  void fail_recovery(const ErrorInfo& why);
  // A recovery has succeeded: RecoveryPolicy::FailFast stops streams no more, and streams that are opened are usable.
  void end_recovery();

  // The function's memory is new.
  void forget_lost_writes() { lost_writes_.clear(); }

  TransferCounters& counters() { return counters_; }

 private:
  CurrentFunction& function_;
  const StagingOptions staging_options_;
  FirstFailure first_failure_;
  TransferCounters counters_;
  LostWrites lost_writes_;
  const ChannelRules rules_;
  std::unique_ptr<StagingEngine> staging_;
  std::mutex mutex_;
  std::optional<ErrorInfo> failed_recovery_;                // the last recovery, when it left no device
  std::vector<std::unique_ptr<OpenStream>> streams_;        // in the order in which they were opened
  std::array<std::atomic<OpenStream*>, kStreams> by_id_{};  // of streams_: found without the lock
  std::array<std::atomic<unsigned>, 2> next_{};             // of a pool
  std::atomic<unsigned> next_host_{0};                      // likewise
  HostCalls host_calls_{HostCalls::Kind::Functions};        // likewise
  HostCalls host_operations_{HostCalls::Kind::Operations};  // likewise
  HostWork host_work_;                                      // ends before the streams
};

}  // namespace svp
