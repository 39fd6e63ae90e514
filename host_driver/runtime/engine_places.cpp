// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/engine_places.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/runtime/flex_stream.hpp"

namespace svp {

EnginePlaces::Place& EnginePlaces::place_of(const std::shared_ptr<const Kernel>& engine) {
  for (auto& [known, place] : places_) {
    if (known == engine || std::ranges::equal(known->image(), engine->image())) return place;
  }
  return places_.emplace_back(engine, Place{}).second;
}

// Allocations may call the program's memory-pressure callback, and a launch may wait for a function of the program:
// both without the lock. Of two threads that place the same engine the second one's memory is given back.
std::shared_ptr<const LoadedProgram> EnginePlaces::load(const std::shared_ptr<FlexAllocator>& allocator,
                                                        const std::shared_ptr<const Kernel>& engine, FlexStream& stream,
                                                        bool again) {
  const auto here = [](const Place& place) { return place.image != nullptr && place.image->on_card(); };
  // What waits for `sent` finds it there.
  const auto ready = [&](const Place& place) {
    return here(place) && place.sent != nullptr && place.sent->stage() != EventStage::Failed;
  };
  Place before;
  {
    const std::lock_guard lock(mutex_);
    before = place_of(engine);
  }
  if (ready(before) && !again) {
    stream.Wait(before.sent);
    return before.image;
  }
  Place mine{.image = here(before) ? before.image : std::make_shared<const LoadedProgram>(allocator, engine),
             .sent = nullptr};
  const auto image = engine->image();
  stream.Launch(Job::to_device(image.data(), mine.image->allocation_index(), image.size()), {}, {.keep_alive = engine});
  mine.sent = stream.Record();
  Place other;  // of another thread that was first, or what was there before
  {
    const std::lock_guard lock(mutex_);
    Place& place = place_of(engine);
    if (place.image == before.image || !ready(place)) {
      other = std::exchange(place, mine);
      return mine.image;
    }
    other = place;
  }
  stream.Wait(other.sent);
  return other.image;
}

}  // namespace svp
