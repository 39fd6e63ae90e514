// SPDX-License-Identifier: Apache-2.0
// SpyreStream (RFC): jobs of one stream run in order; nothing orders two streams but events (spyre/event.hpp).
//
// What a launch uses stays alive until it ended: host memory of transfers is the caller's to keep (until Synchronize);
// tensors, loaded programs and the driver's own buffers are kept by the launch.
#pragma once

#include <spyre/export.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <spyre/error.hpp>
#include <spyre/event.hpp>
#include <spyre/job.hpp>
#include <spyre/options.hpp>
#include <spyre/tensor.hpp>

namespace spyre::inline v0 {

class PreparedLaunches;

// Cheap to copy; copies are the same stream, which the context owns: it is not used after the context's end.
// Thread-safe.
class SPYRE_API SpyreStream {
 public:
  // Asynchronous. One tensor per operand of the job's kernel, in order; a job of transfers takes none. Checks
  // everything first; returns the launch's number within the stream, from 1. Nothing was enqueued when it throws:
  //   InvalidArgument   number of tensors, dtype, rank, extents, allocation too small, an output that overlaps another
  //                     operand, a job that is not loaded; names operand and dimension
  //   InvalidAllocation   memory that is null, released, foreign or lost in a reset, of a tensor or of a transfer;
  //                     names the operand, or the step of the job's plan
  //   TilingError, TiledLaunchNotAllowed (both InvalidArgument)   shapes against the compiled tile. Whatever the options
  //                     say, no launch is tiled when SPYRE_ALLOW_TILED_LAUNCH is 0 or false; the variable is read once
  //                     per process, by the first launch, and InvalidArgument when it is none of 0, 1, false, true
  //   StreamError       the stream failed before: its first error, again
  //   Error             the stream is being reset, or the context recovers (again in a moment), or was while this ran
  //   OutOfMemory       pinned memory for correction tensors, memory for partial results
  std::uint64_t Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options = {});

  // A function that a thread of the library runs when everything launched before has ended well; what is launched
  // afterwards begins when it has returned. Asynchronous. No lock of the library is held: the function may launch, on
  // this stream as well, and wait for other streams; waiting for this one throws Error. What it throws is the stream's
  // error (outcome FAULT, job "host function"). Reset() does not stop it, and the context's end waits for it. Returns
  // the launch's number. Throws as Launch, and InvalidArgument ("function") for an empty one.
  std::uint64_t LaunchHost(std::function<void()> function);

  // An event behind everything launched before. Throws as Launch: StreamError, Error.
  Event Record();
  // What is launched on this stream afterwards begins when the event has been signalled. Asynchronous: it is the card
  // that waits. Nothing happens for an event that was not recorded, that was recorded on this stream, or that has been
  // signalled. An event of another context of the same card needs a grant: it is shared and waited for as below. Throws
  // as Launch, and InvalidArgument ("event") for an event of a context that has ended.
  void Wait(const Event& event);
  // The same for an event of another function, whoever has recorded it. The first wait for a stream asks the holder of
  // the card's management function and blocks until it has answered; later ones do not. When the recording stream
  // fails or is reset, or its function is, this stream fails (EventFailed, GrantRevoked). Throws as Launch;
  // InvalidArgument ("event") for bytes that are no shared event; Error when the grant is refused: the event was not
  // shared by a function of this card, or its function was reset since; a function waits for streams of 64 at most.
  void Wait(const SharedEvent& event);

  // The next launch on this stream, of any kind, has LaunchOptions::pipeline_barrier. Throws as Launch: StreamError,
  // Error.
  void PipelineBarrier();

  // ---- capturing: what this thread launches on the stream is checked, and collected instead of run, until
  // EndCapture() (spyre/prepared.hpp, which also has a scope that ends a capture when an exception leaves it). Nobody
  // else uses the stream meanwhile.
  //   collected         Launch, LaunchKernel and copies inside of the card; jobs of transfers between the card and pinned
  //                     memory; Record, Wait, LaunchHost, PipelineBarrier. Launch returns the number that
  //                     PreparedLaunches::Patch takes, LaunchHost 0; the Event of Record is one of StreamCapture::Record
  //   InvalidArgument   what Prepare() refuses: memory of the host that is not pinned, a job that is not loaded, …
  //   Error             Synchronize, Query, copies between tensors and memory of the host, a launch or patch of what was
  //                     prepared, loading on this stream; every call of another thread; every call behind a recovery of
  //                     the context that reset the queues or more: end the capture, and capture again
  //   StreamError       what was launched before failed
  // Nothing of a call that throws is collected, and the capture goes on. Reset() by this thread abandons it.
  //
  // Throws as Launch, and Error when a capture is under way. Tensors that are captured are held until the result of
  // EndCapture() is gone.
  void BeginCapture();
  // The capture has ended when this returns or throws, and the stream launches again. Waits for the card. Throws Error
  // when none is under way, and what Prepare() throws.
  PreparedLaunches EndCapture();

  // Until everything launched before has ended. Each wait ends by itself: kernels by the watchdog, the card's death by
  // LOST. Throws the stream's first error, as StreamError, again and again until Reset().
  void Synchronize();
  // The same with a bound; TimeoutError leaves everything running.
  void Synchronize(std::chrono::steady_clock::time_point deadline);
  // True when everything launched has ended, with whatever outcome. Does not block, but for a recovery that
  // RecoveryPolicy::Recover makes due.
  bool Query();

  // Ends what the stream still has and makes it usable again. Throws Error when the card does not answer.
  void Reset();

  // The first error since the last Reset().
  std::optional<StreamError> error() const;
  std::uint32_t stream_index() const;  // the card's number of the stream
  unsigned id() const;                 // of the context's pools: 0 default, 1 … 32 low, 33 … 64 high priority
  StreamPriority priority() const;
  friend bool operator==(const SpyreStream&, const SpyreStream&) = default;  // the same stream

 private:
  friend struct Inside;
  struct Impl;
  explicit SpyreStream(Impl* impl) : impl_(impl) {}
  Impl* impl_;
};

// Launches every job of the plan in order, or none: all are bound and validated before the first is submitted, and
// nothing was when it throws. Each job with a kernel gets `tensors`. Asynchronous. Throws what SpyreStream::Launch
// throws.
SPYRE_API void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan, std::span<const SpyreTensor> tensors);
// Each job with tensors of its own, and with options.
SPYRE_API void LaunchKernel(SpyreStream& stream, const ExecutionPlan& plan,
                            std::span<const std::span<const SpyreTensor>> tensors_of_job, const LaunchOptions& options);

}  // namespace spyre::inline v0
