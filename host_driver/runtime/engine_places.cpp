// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/engine_places.hpp"

#include <algorithm>
#include <span>
#include <utility>

#include "host_driver/program/stored_tables.hpp"

namespace svp {

EnginePlaces::Engine& EnginePlaces::place_of(const std::shared_ptr<const Kernel>& engine) {
  const std::lock_guard lock(mutex_);
  for (auto& [known, place] : engines_) {
    if (known == engine || std::ranges::equal(known->image(), engine->image())) return *place;
  }
  return *engines_.emplace_back(engine, std::make_unique<Engine>()).second;
}

std::shared_ptr<const LoadedProgram> EnginePlaces::load(const std::shared_ptr<FlexAllocator>& allocator,
                                                        const std::shared_ptr<const Kernel>& engine, FlexStream& stream,
                                                        bool again) {
  return place_of(engine).load(
      stream, again, [&] { return std::make_shared<const LoadedProgram>(allocator, engine); },
      [&](const LoadedProgram& place) {
        const auto image = engine->image();
        stream.Launch(Job::to_device(image.data(), place.allocation_index(), image.size()), {}, {.keep_alive = engine});
      });
}

std::shared_ptr<const PlacedTables> EnginePlaces::load_tables(const std::shared_ptr<FlexAllocator>& allocator,
                                                              FlexStream& stream, bool again) {
  return tables_.load(
      stream, again, [&] { return std::make_shared<const PlacedTables>(allocator); },
      [&](const PlacedTables& place) {
        const auto tables = std::as_bytes(program::stored_tables());
        stream.Launch(Job::to_device(tables.data(), place.allocation_index(), tables.size()), {});
      });
}

}  // namespace svp
