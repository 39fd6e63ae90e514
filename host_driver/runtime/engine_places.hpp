// SPDX-License-Identifier: Apache-2.0
// What device programs share on the card (docs/memory.md): their engine, one image for all programs of a runtime,
// because the card keeps a few images per function ready to run, and keeps them by their place; and the tables of
// functions.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "host_driver/runtime/job.hpp"
#include "host_driver/runtime/sent_once.hpp"

namespace svp {

// Thread-safe. What it holds stays on the card until the runtime ends or a reset of the function takes it away.
class EnginePlaces {
 public:
  // The place of this engine; equal images have one. See SentOnce::load().
  std::shared_ptr<const LoadedProgram> load(const std::shared_ptr<FlexAllocator>& allocator,
                                            const std::shared_ptr<const Kernel>& engine, FlexStream& stream,
                                            bool again);
  // Likewise, of program::stored_tables().
  std::shared_ptr<const PlacedTables> load_tables(const std::shared_ptr<FlexAllocator>& allocator, FlexStream& stream,
                                                  bool again);

 private:
  using Engine = SentOnce<LoadedProgram>;
  Engine& place_of(const std::shared_ptr<const Kernel>& engine);

  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<const Kernel>, std::unique_ptr<Engine>>> engines_;
  SentOnce<PlacedTables> tables_;
};

}  // namespace svp
