// SPDX-License-Identifier: Apache-2.0
// A copy from the card to host memory that goes on while the program does something else (Context::copy).
#pragma once

#include <spyre/export.h>

#include <chrono>
#include <memory>

namespace spyre::inline v0 {

struct Inside;  // of the library

// Cheap to copy; copies are the same copy. Thread-safe. Whoever does not need it drops it: SpyreStream::Synchronize()
// tells the end and the errors as well. It may outlive its context, with which the copy ends. In a process that was
// forked from the one that began it every call throws Error.
class SPYRE_API HostCopy {
 public:
  HostCopy();  // of nothing: done

  // Whether the destination's memory is the program's again, whatever the outcome.
  bool done() const;
  // Until then. Throws, again and again: StreamError when the stream failed before the bytes were there, Error when the
  // launch was ended otherwise (by a reset, by the context's end). The destination then has what it had before; of a
  // copy that pinned memory had no room for it may have a part of the new elements.
  void wait() const;
  // The same with a bound; TimeoutError leaves everything running.
  void wait(std::chrono::steady_clock::time_point deadline) const;

 private:
  friend struct Inside;
  struct Impl;
  explicit HostCopy(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
