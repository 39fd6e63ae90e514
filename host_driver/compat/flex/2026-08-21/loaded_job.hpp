// SPDX-License-Identifier: Apache-2.0
// A device program on the card.
#pragma once

#include <memory>

#include "host_driver/runtime/job.hpp"

namespace svp {
class Event;
class FlexStream;
class Runtime;
}  // namespace svp

namespace flex::detail {

struct LoadedJob {
  std::shared_ptr<const svp::Job> job{};
  std::shared_ptr<svp::Event> sent{};  // everything that loads it

  // What waits for `sent` finds it on the card.
  bool ready() const;
};

// Sends the program, and the engine when it is not there yet. `engine` may be null. Allocates, which may call the
// program's memory-pressure callback: no lock is held. Throws as svp::ExecutionPlan::load().
LoadedJob load_job(svp::Runtime& runtime, svp::FlexStream& stream, const std::shared_ptr<const svp::Kernel>& engine,
                   const svp::Job& job);

}  // namespace flex::detail
