// SPDX-License-Identifier: Apache-2.0
// Where the engine of device programs lies on the card: one image for all programs of a runtime, because the card keeps
// a few images per function ready to run (docs/memory.md), and keeps them by their place.
#pragma once

#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/job.hpp"

namespace svp {

class FlexStream;

// Thread-safe. What it holds stays on the card until the runtime ends or a reset of the function takes it away.
class EnginePlaces {
 public:
  // The place of this engine; equal images have one. When it is not on the card yet, or may be damaged there
  // (`again`), the image is sent on `stream`. What is launched on `stream` afterwards finds it there, also when another
  // stream sends it. Throws OutOfMemory, and what Launch() throws.
  std::shared_ptr<const LoadedProgram> load(const std::shared_ptr<FlexAllocator>& allocator,
                                            const std::shared_ptr<const Kernel>& engine, FlexStream& stream,
                                            bool again);

 private:
  struct Place {
    std::shared_ptr<const LoadedProgram> image;
    std::shared_ptr<Event> sent;
  };
  Place& place_of(const std::shared_ptr<const Kernel>& engine);

  std::mutex mutex_;
  std::vector<std::pair<std::shared_ptr<const Kernel>, Place>> places_;
};

}  // namespace svp
