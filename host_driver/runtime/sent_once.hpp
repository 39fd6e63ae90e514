// SPDX-License-Identifier: Apache-2.0
// Something that stands once on the card for all programs of a runtime, and is sent by the first stream that needs it.
#pragma once

#include <memory>
#include <mutex>
#include <utility>

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/flex_stream.hpp"

namespace svp {

// Place: its memory; on_card() is false when a reset of the function took that away. Thread-safe.
template <typename Place>
class SentOnce {
 public:
  // The place. When it is not on the card yet, or may be damaged there (`again`), its bytes are sent on `stream`:
  // make() allocates a place, send(place) launches the transfer. What is launched on `stream` afterwards finds the
  // bytes there, also when another stream sends them. Throws OutOfMemory, and what Launch() throws.
  //
  // make() may call the program's memory-pressure callback, and a launch may wait for a function of the program: both
  // without the lock. Of two threads that send the same thing the second one's memory is given back.
  template <typename Make, typename Send>
  std::shared_ptr<const Place> load(FlexStream& stream, bool again, Make make, Send send) {
    const Sent before = sent();
    if (before.ready() && !again) {
      stream.Wait(before.event);
      return before.place;
    }
    Sent mine{.place = before.here() ? before.place : make(), .event = nullptr};
    send(*mine.place);
    mine.event = stream.Record();
    Sent other;  // of another thread that was first, or what was there before
    {
      const std::lock_guard lock(mutex_);
      if (sent_.place == before.place || !sent_.ready()) {
        other = std::exchange(sent_, mine);
        return mine.place;
      }
      other = sent_;
    }
    stream.Wait(other.event);
    return other.place;
  }

 private:
  struct Sent {
    std::shared_ptr<const Place> place;
    std::shared_ptr<Event> event;

    bool here() const { return place != nullptr && place->on_card(); }
    // What waits for the event finds it there.
    bool ready() const { return here() && event != nullptr && event->stage() != EventStage::Failed; }
  };
  Sent sent() const {
    const std::lock_guard lock(mutex_);
    return sent_;
  }

  mutable std::mutex mutex_;
  Sent sent_;
};

}  // namespace svp
