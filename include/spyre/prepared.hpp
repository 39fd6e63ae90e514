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
//   both.Launch(stream);                            // one submission, in order, one end
#pragma once

#include <spyre/export.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <spyre/job.hpp>
#include <spyre/options.hpp>
#include <spyre/stream.hpp>
#include <spyre/tensor.hpp>

namespace spyre::inline v0 {

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
  // All of them, in order, behind what was launched on the stream before. Asynchronous; returns the launch's number
  // within the stream. The first of them that fails is the stream's error, and none behind it runs. Throws StreamError
  // and Error as SpyreStream::Launch, and InvalidArgument for a stream of another context.
  std::uint64_t Launch(const SpyreStream& stream) const;
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

// Collects launches instead of making them. Nothing is checked and nothing reaches the card before Instantiate(). One
// thread at a time.
class SPYRE_API StreamCapture {
 public:
  explicit StreamCapture(const SpyreStream& stream);
  StreamCapture(const StreamCapture& other);
  StreamCapture(StreamCapture&& other) noexcept;
  StreamCapture& operator=(StreamCapture other) noexcept;
  ~StreamCapture();

  // A job with a kernel, or a transfer; its host memory must be pinned, and belongs to each launch of the result.
  // Returns its number, for PreparedLaunches::Patch.
  std::size_t Launch(const Job& job, std::span<const SpyreTensor> tensors, const LaunchOptions& options = {});
  // What another capture has collected so far. Returns the number of the first of them.
  std::size_t Add(const StreamCapture& child);
  std::size_t size() const;
  // As often as wanted; each result is one of its own. Throws as Prepare(), and InvalidArgument when it is empty.
  PreparedLaunches Instantiate() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
