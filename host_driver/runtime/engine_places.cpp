// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/engine_places.hpp"

#include <algorithm>

#include "host_driver/runtime/flex_stream.hpp"

namespace svp {

EnginePlaces::Place& EnginePlaces::place_of(const std::shared_ptr<const Kernel>& engine) {
  for (auto& [known, place] : places_) {
    if (known == engine || std::ranges::equal(known->image(), engine->image())) return place;
  }
  return places_.emplace_back(engine, Place{}).second;
}

std::shared_ptr<const LoadedProgram> EnginePlaces::load(const std::shared_ptr<FlexAllocator>& allocator,
                                                        const std::shared_ptr<const Kernel>& engine, FlexStream& stream,
                                                        bool again) {
  const std::lock_guard lock(mutex_);
  Place& place = place_of(engine);
  const bool here = place.image != nullptr && place.image->on_card();
  const bool arrived = place.sent != nullptr && place.sent->stage() != EventStage::Failed;
  if (here && arrived && !again) {
    stream.Wait(place.sent);
    return place.image;
  }
  if (!here) place.image = std::make_shared<const LoadedProgram>(allocator, engine);
  place.sent = nullptr;
  const auto image = engine->image();
  stream.Launch(Job::to_device(image.data(), place.image->allocation_index(), image.size()), {},
                {.keep_alive = engine});
  place.sent = stream.Record();
  return place.image;
}

}  // namespace svp
