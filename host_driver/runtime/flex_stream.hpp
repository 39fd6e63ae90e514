// SPDX-License-Identifier: Apache-2.0
// FlexStream (RFC "Program Execution Pipeline"): accepts Jobs, walks their plans, and hands the control blocks to the
// Scheduler. Jobs of one stream run in order; nothing orders two streams. Every member may be called from any thread.
//
// What a launch uses stays alive until it ended: host memory of transfers is the caller's to keep (until Synchronize);
// allocations (operands, ends of transfers), loaded programs and correction tensors are kept by the launch. An
// allocation that is released meanwhile can be had again when the launch has ended, and no earlier.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <spyre/event.hpp>
#include <vector>

#include "host_driver/runtime/argument.hpp"
#include "host_driver/runtime/captured_steps.hpp"
#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/launch_request.hpp"
#include "host_driver/runtime/stream_error.hpp"
#include "host_driver/runtime/tiling.hpp"

namespace svp {

namespace trace {
class Span;
}

struct ActiveCapture;
class ChannelLink;
class CurrentFunction;
class Event;
class HostWork;
class PreparedLaunches;
class ReplayWriter;
class StreamChannel;
class StreamRecoverer;

class FlexStream {
 public:
  using Clock = std::chrono::steady_clock;

  // More tiles than this are refused for a plan with other steps than the standard ones, or with a HostOperation of its
  // own that runs at the launch: all of its blocks are written by Launch(). Those of other plans are written as the
  // card takes them, in memory for a few tiles.
  static constexpr std::uint32_t kMaxTilesAtOnce = 1u << 16;

  // All outlive the stream.
  FlexStream(unsigned id, CurrentFunction& function, StreamRecoverer& recoverer, StreamChannel& channel,
             HostWork& host_work);
  ~FlexStream();
  FlexStream(const FlexStream&) = delete;
  FlexStream& operator=(const FlexStream&) = delete;

  // In the scheduler's pools.
  unsigned id() const { return id_; }
  // The card's stream. RFC: stream_index.
  std::uint32_t stream_index() const;

  // One argument per operand of the job's kernel, in order; a job of transfers takes none. Checks everything first,
  // runs the HostOperations of HostTime::AtLaunch on this thread, enqueues, and returns the launch's number within the
  // stream. Nothing was enqueued when it throws:
  //   InvalidArgument   number of arguments, dtype, rank, extents, offset, allocation too small, released or foreign,
  //                     an output that overlaps another operand, a job that is not loaded; names operand and dimension
  //   CopyNeeded        (an InvalidArgument) an operand's allocation has several chunks
  //   TilingError, TiledLaunchNotAllowed (both InvalidArgument)   shapes against the compiled tile
  //   StreamError       the stream is poisoned: its first error, again
  //   Error             the stream is being reset, or the device recovered (again in a moment), or was while this ran
  //   OutOfMemory       pinned memory for correction tensors, memory for partial results
  std::uint64_t Launch(const Job& job, std::span<const Argument> arguments, bool allow_tiled_launch = true);
  std::uint64_t Launch(const Job& job, std::span<const Argument> arguments, const LaunchOptions& options);

  // All of them, in order, or none: every job is bound and validated before the first is enqueued. Throws as Launch()
  // of one; nothing was enqueued then. Returns the number of the last.
  std::uint64_t Launch(std::span<const LaunchRequest> requests);

  // The same launches kept on the card, to be launched again and again (prepared_launches.hpp). Binds and checks them
  // as Launch() does, and waits for the card; nothing is launched. Transfers of the host's memory must be pinned.
  // Throws as Launch(), InvalidArgument for memory that is not pinned, and Error when the card has no room.
  std::shared_ptr<PreparedLaunches> Prepare(std::span<const LaunchRequest> requests);
  // The same with events and functions of the host between launches. Throws also InvalidArgument for an empty function
  // and for an event of a context that has ended.
  std::shared_ptr<PreparedLaunches> Prepare(std::span<const CapturedStep> steps);
  // All of them, in order, as one launch: a block of one stick for at most 64 blocks. Throws StreamError and Error as
  // Launch(); InvalidArgument when they were prepared in another context; Error (Status::StaleCommandBuffer) when a
  // reset of the function has ended them, and when a patch of them failed.
  std::uint64_t Launch(const PreparedLaunches& prepared) { return Launch(prepared, {}, nullptr); }
  // With what its wait slots wait for, one event for each (null: nothing); an event is waited for as Wait() does, and
  // throws what that throws. `recorded`: gets the events of this replay, in order; null: nobody wants them. What stands
  // between two events or functions is a launch with a number of its own, and so is each of those; all of them are
  // enqueued at once, or none. Returns the last one's number. Throws also InvalidArgument for another number of slots.
  std::uint64_t Launch(const PreparedLaunches& prepared, std::span<const std::shared_ptr<Event>> slots,
                       std::vector<std::shared_ptr<Event>>* recorded);
  // Launch number `launch` of them gets other operands, for what is launched on this stream afterwards. The launch's
  // kernel, cores and number of tiles stay. Asynchronous. What other streams launch is ordered with it by events, and
  // none of it may be under way (REJECTED "busy", an error of this stream). Throws as Launch() of a job;
  // InvalidArgument when other blocks would be needed; Error (Status::Busy) while the last patch has not ended.
  std::uint64_t Patch(PreparedLaunches& prepared, std::size_t launch, std::span<const Argument> arguments,
                      std::shared_ptr<const void> keep_alive = {});

  // ---- capturing: between the two calls Launch() of jobs, Wait(), LaunchHost() and PipelineBarrier() of this thread
  // are checked as Prepare() checks them, and collected instead of run; Launch() returns the launch's number for
  // Patch(), from 0, and LaunchHost() returns 0. Nothing is collected of a call that throws, and the capture goes on.
  // Error for every other call that launches or waits, and for all calls of other threads, but for error() and what
  // asks nothing of the stream. Reset() of this thread abandons the capture. A recovery from the queue reset on ends
  // it: calls throw Error until EndCapture(). What was launched before goes on.
  // Throws as Launch(), and Error when a capture is under way. The result names the capture.
  std::shared_ptr<const void> BeginCapture();
  // The capture has ended when this returns or throws: Error when none is under way, and what Prepare() throws.
  std::shared_ptr<PreparedLaunches> EndCapture();
  // Any thread. False: it has ended before.
  bool AbandonCapture(const std::shared_ptr<const void>& capture) noexcept;
  // Record() and Wait() in a capture. Null, false: none is under way. Throw as the others.
  std::shared_ptr<CapturedEvent> RecordInCapture();
  bool WaitInCapture(const std::shared_ptr<CapturedEvent>& event);
  // Throws Error while a capture is under way: `what` is no part of one.
  void refuse_in_capture(const char* what) const;

  // An event that the card signals when everything launched before has ended well. A launch of its own. Throws as
  // Launch().
  std::shared_ptr<Event> Record();
  // What is launched afterwards begins on the card when the event has been signalled: no hart and no thread waits. An
  // event that fails is an error of this stream (Status::EventFailed). Nothing happens for null, an event of this
  // stream, and one that has been signalled. One of another context of the card is shared, and waited for as below.
  // Throws as Launch(), and InvalidArgument for an event of a context that has ended.
  void Wait(const std::shared_ptr<Event>& event);
  // For an event of another function, by a grant. Blocks while the grant is asked for, once per stream. Throws as
  // Launch(), InvalidArgument for bytes that are none, and Error when there is no grant.
  void Wait(const spyre::SharedEvent& event);
  // Event::share() of one that was recorded here.
  spyre::SharedEvent share(const Event& event);
  // A function of the program that runs on a thread of the driver when everything launched before has ended well; what
  // is launched afterwards begins when it has returned. It may launch, on this stream as well, and wait for other
  // streams; waiting for this one throws Error. What it throws is the stream's error (outcome FAULT, job "host
  // function"). A reset of the stream, and the end of the runtime, do not stop it; the end waits for it. Throws as
  // Launch(), and InvalidArgument for an empty function.
  std::uint64_t LaunchHost(std::function<void()> function);
  // The next launch on this stream, of any kind, gets LaunchOptions::pipeline_barrier. Throws as Launch().
  void PipelineBarrier();
  // Until everything up to the launch has ended, with what is done on the host afterwards. False: the deadline passed.
  bool wait_for_launch(std::uint64_t number, Clock::time_point deadline);
  bool launch_ended(std::uint64_t number) const;

  // The number of the last launch; 0: there was none. A reset does not change it.
  std::uint64_t launched() const;

  // Until everything launched before has ended, with what is done on the host afterwards (HostWork). Each wait ends by
  // itself: kernels by the watchdog, the card's death by LOST. Throws the stream's first error, as StreamError, again
  // and again until Reset().
  void Synchronize();
  // The same with a bound; TimeoutError leaves everything running.
  void Synchronize(Clock::time_point deadline);
  // RFC open question 6: true when everything launched has ended, with whatever outcome. Does not block, but for a
  // recovery that RecoveryPolicy::Recover makes due.
  bool Query();
  // The same for the driver's own threads: also while the stream is captured.
  bool look();

  // Ends what the stream still has and makes it usable again (admin STREAM_RESET). Throws Error when the card does not
  // answer.
  void Reset();

  // The first error since the last Reset().
  std::optional<StreamError> error() const;

  HostWork& host_work() { return host_work_; }
  // Whether both are streams of one runtime.
  bool is_beside(const FlexStream& other) const { return &function_ == &other.function_; }
  // Of the runtime that the stream belongs to.
  const std::shared_ptr<FlexAllocator>& allocator() const;
  const std::shared_ptr<ChannelLink>& link() const;

 private:
  friend class ReplayWriter;
  // Null: none is under way. Throws Error when it is another thread's.
  std::shared_ptr<ActiveCapture> capture_of_this_thread() const;
  void check_capture(const ActiveCapture& capture);
  void collect(ActiveCapture& capture, const CapturedStep& step);
  std::uint64_t collect(ActiveCapture& capture, std::span<const LaunchRequest> requests);
  std::shared_ptr<Event> make_event();
  wire::EventPayload granted_wait(const spyre::SharedEvent& event);
  // Else the event is none, has been signalled, or is of this stream.
  bool has_to_wait_for(const std::shared_ptr<Event>& event) const;
  AwaitedPlace awaited_place(const std::shared_ptr<Event>& event);
  void wait_for(const AwaitedPlace& place, std::uint64_t recoveries);
  void clear_scratchpads(unsigned slices, std::uint64_t recoveries);
  void finish_host_work();
  bool wait(std::uint64_t target, Clock::time_point deadline);
  // RecoveryPolicy::Recover: recovers when the stream needs it. True: it did.
  bool recover_if_needed();
  void note_launched(trace::Span& traced, const Job& first, std::uint64_t last, std::size_t count) const;

  const unsigned id_;
  CurrentFunction& function_;
  StreamRecoverer& recoverer_;
  StreamChannel& channel_;
  HostWork& host_work_;
  mutable std::mutex capture_mutex_;
  std::shared_ptr<ActiveCapture> capture_;
  std::atomic<bool> capturing_{false};  // there is one
};

}  // namespace svp
