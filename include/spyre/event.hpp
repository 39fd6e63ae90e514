// SPDX-License-Identifier: Apache-2.0
// Event: a place in a stream that other streams and the host can wait for (RFC "Program Execution Pipeline", open
// question 1). It is signalled by the card when everything that was launched before it has ended well.
//
//   auto loaded = copies.Record();     behind the copies
//   compute.Wait(loaded);              what is launched now on `compute` begins when they have ended; nobody waits here
//
// A stream that fails, or is reset, before the event makes the event fail, and with it every stream that waits for it:
// their error has the status EventFailed and names the stream. An event that failed stays so.
#pragma once

#include <spyre/export.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <memory>
#include <spyre/error.hpp>

namespace spyre::inline v0 {

struct Inside;  // of the library

// An event for streams of another function of the same card, also of another process: its bytes may be sent to it over
// any channel, and are waited for there (SpyreStream::Wait). Whoever has the bytes and owns a function of the card may
// let its streams wait for this event and for what is recorded on the same stream; nothing else of the stream or of its
// function can be had by them. They are void from the reset of the recording stream's function on, and from the end of
// its context on: who waits then fails (status "the grant was revoked"). Host byte order.
struct SharedEvent {
  static constexpr std::size_t kBytes = 40;
  std::array<std::byte, kBytes> bytes{};
  friend bool operator==(const SharedEvent&, const SharedEvent&) = default;
};

// One recording. Cheap to copy; copies are the same recording. Thread-safe. It may outlive its context, whose end ends
// it. In a process that was forked from the one that recorded it every call throws Error.
class SPYRE_API Event {
 public:
  Event();  // not recorded: has ended, nothing waits for it

  bool recorded() const;
  // Whether it has ended, with whatever outcome. Does not block, but for a recovery that RecoveryPolicy::Recover makes
  // due.
  bool Query() const;
  // Until it has ended. Throws, again and again: StreamError when its stream failed before it, Error when it was ended
  // otherwise (a reset of the stream, the context's end).
  void Synchronize() const;
  // The same with a bound; TimeoutError leaves everything running.
  void Synchronize(std::chrono::steady_clock::time_point deadline) const;
  // From `start` to this event by the card's clock, in steps of 100 ns; negative when `start` was signalled later. Both
  // of one card, without a restart of its firmware in between. Throws InvalidArgument ("event", "start") when one was
  // not recorded, has not ended, or failed.
  std::chrono::nanoseconds since(const Event& start) const;
  // For another function. Asks the holder of the card's management function (the card's broker, or this process when
  // the card is embedded) once per stream; blocks until it has answered. Throws InvalidArgument when nothing was
  // recorded, Error: the context has ended or recovers, the broker refuses or does not answer.
  SharedEvent share() const;

 private:
  friend struct Inside;
  struct Impl;
  explicit Event(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace spyre::inline v0
