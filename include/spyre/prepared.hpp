// SPDX-License-Identifier: Apache-2.0
// Launches that the card keeps. Preparing them checks and binds everything once; launching them again is one short
// control block, without host operation and without transfer of a correction tensor.
//
//   auto add = Prepare(stream, job, tensors);       // on the card now
//   add.Launch(stream);                             // asynchronous, as often as wanted, on any stream of the context
//   add.Patch(stream, 0, other_tensors);            // for what is launched on `stream` from here on
//
//   StreamCapture capture(stream);                  // several launches, copies and fills
//   capture.Launch(first, tensors);
//   capture.Launch(second, more_tensors);
//   auto both = capture.Instantiate();
//   both.Launch(stream);                            // one submission, in order
//
//   StreamCapture produce(a), consume(b);           // replays of two streams, ordered with each other
//   produce.Launch(first, tensors);
//   Event ready = produce.Record();                 // stands for the event of the latest replay
//   consume.Wait(ready);                            // each replay waits for what it stands for then
//   consume.Launch(second, more_tensors);
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <spyre/event.hpp>
#include <spyre/job.hpp>
#include <spyre/options.hpp>
#include <spyre/stream.hpp>
#include <spyre/tensor.hpp>
#include <vector>

namespace spyre::inline v0 {

// One launch of what was captured.
struct Replay {
  std::uint64_t launch = 0;     // number within the stream, of the last of its launches
  std::vector<Event> events{};  // that this replay has recorded, in the order of StreamCapture::Record()
};

// Cheap to copy; copies are the same launches. Thread-safe. They hold their tensors and programs until the last copy is
// gone and everything launched of them has ended; the card's memory is freed then. They are not used after the
// context's end.
//
// A reset of a stream does not touch them. A reset of the function, and everything above, ends them: Launch and Patch
// throw Error with Status::StaleCommandBuffer, and they are prepared again.
class SPYRE_API PreparedLaunches {
 public:
  PreparedLaunches();  // none: Launch and Patch throw InvalidArgument

  // How many launches were prepared together.
  std::size_t size() const;
  // How many events each replay records, and how many wait slots it has.
  std::size_t events() const;
  std::size_t slots() const;
  // All of them, in order, behind what was launched on the stream before. Asynchronous; returns the launch's number
  // within the stream. The first of them that fails is the stream's error, and none behind it runs. Throws StreamError
  // and Error as SpyreStream::Launch, and InvalidArgument for a stream of another context and when there are slots.
  //
  // Each event, wait and function of the host of a capture is a launch with a number of its own, and so is what stands
  // between two of them. All are enqueued at once or none, and sent together up to the first function of the host, or
  // the first wait whose event has not been sent to the card.
  std::uint64_t Launch(const SpyreStream& stream) const;
  // The same with what the wait slots wait for: one event for each, in order; one that was not recorded is not waited
  // for. Throws also InvalidArgument ("slots") for another number of events, and what SpyreStream::Wait throws for one.
  Replay Launch(const SpyreStream& stream, std::span<const Event> slots) const;
  // Gives launch number `launch` (from 0) other tensors: other addresses, and other shapes as far as they need the same
  // number of tiles. Asynchronous, in the order of `stream`: what was launched there before works with the old ones. Of
  // other streams nothing of these launches may be under way; order them by events. Returns the launch's number within
  // the stream. Throws as SpyreStream::Launch; InvalidArgument when the tensors need other control blocks; Error with
  // Status::Busy while the patch before has not ended.
  std::uint64_t Patch(const SpyreStream& stream, std::size_t launch, std::span<const SpyreTensor> tensors) const;

 private:
  friend struct Inside;
  struct Impl;
  explicit PreparedLaunches(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

// One launch. Waits for the card, launches nothing. Throws as SpyreStream::Launch, and Error when the card has no room
// (Status::OutOfCommandBuffers).
SPYRE_API PreparedLaunches Prepare(const SpyreStream& stream, const Job& job, std::span<const SpyreTensor> tensors,
                                   const LaunchOptions& options = {});

// Collects launches, events and functions of the host instead of making them. Nothing is checked and nothing reaches
// the card before Instantiate(). One thread at a time.
class SPYRE_API StreamCapture {
 public:
  explicit StreamCapture(const SpyreStream& stream);
  StreamCapture(const StreamCapture& other);
  StreamCapture(StreamCapture&& other) noexcept;
  StreamCapture& operator=(StreamCapture other) noexcept;
  ~StreamCapture();

  // A job with a kernel, or a transfer; its host memory must be pinned, and belongs to each launch of the result.
  // Returns its number, for PreparedLaunches::Patch. With a pipeline barrier it begins, in each replay, when everything
  // before it on the stream has ended.
  std::size_t Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options = {});
  // An event behind everything captured so far, recorded anew by each replay. The result stands for that of the replay
  // that was launched last, of whatever was instantiated from this capture and its copies; before the first replay it
  // is not recorded. Other threads that replay the same change it: those of one replay are in its Replay.
  Event Record();
  // What is captured afterwards begins, in each replay, when the event has been signalled; as SpyreStream::Wait. An
  // event of a capture: the one that it stands for when the replay is launched. Of an event that this capture records
  // itself: a wait behind the record does nothing, and one before it is for the event of the replay before.
  void Wait(const Event& event);
  void Wait(const SharedEvent& event);
  // The same for an event that is named at each replay. Returns the slot's number.
  std::size_t WaitSlot();
  // A function that each replay runs once, as SpyreStream::LaunchHost. Replays of several streams may run it at the
  // same time. It belongs to the result until that is gone and everything launched of it has ended.
  void LaunchHost(std::function<void()> function);
  // What another capture has collected so far, with its events; its slots follow those of this one. Returns the number
  // of its first launch.
  std::size_t Add(const StreamCapture& child);
  // Launches, events recorded, and wait slots so far.
  std::size_t size() const;
  std::size_t events() const;
  std::size_t slots() const;
  // As often as wanted; each result is one of its own. Throws as Prepare(), and InvalidArgument when it is empty, for
  // an empty function, and for an event of a context that has ended.
  PreparedLaunches Instantiate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

// A capture on a stream itself (SpyreStream::BeginCapture): for code that launches on a stream it is given.
//
//   CaptureScope capture(stream);
//   step(stream);                                   // Launch, Record, Wait, LaunchHost … are collected
//   auto graph = capture.End();
//
// One that is destroyed without End(), by an exception too, abandons what was collected, and the stream launches again.
// It may outlive its context.
class SPYRE_API CaptureScope {
 public:
  // Throws as SpyreStream::BeginCapture.
  explicit CaptureScope(const SpyreStream& stream);
  ~CaptureScope();
  CaptureScope(const CaptureScope&) = delete;
  CaptureScope& operator=(const CaptureScope&) = delete;

  // Throws as SpyreStream::EndCapture.
  PreparedLaunches End();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
