// SPDX-License-Identifier: Apache-2.0
// The traffic of a flooding tenant: what it puts where. When, flood.cpp decides.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "tests/bench/card/flood.hpp"

namespace bench {

// Used by one thread at a time. All throw svp::Error when the card is gone.
class FloodSource {
 public:
  virtual ~FloodSource() = default;
  // Puts in all that there is room for. Never waits.
  virtual void fill() = 0;
  // Until something has ended and can be replaced, or `milliseconds` have passed.
  virtual void wait_for_room(unsigned milliseconds) = 0;
  // Takes everything back: when it returns the card does nothing for this tenant any more.
  virtual void drain() = 0;
  virtual std::uint64_t ended() const = 0;  // operations, since the start
};

// Attaches to the function. Throws svp::Error, MeasurementError. `kernel` is only read during the call.
std::unique_ptr<FloodSource> make_flood_source(svp::Card& card, unsigned vf, FloodKind kind,
                                               std::span<const std::byte> kernel);
// Not a flood but a burst: M resets the function again and again, and its owner attaches and dirties 16 MiB again.
// Attaches to M's slot as well.
std::unique_ptr<FloodSource> make_reset_burst(svp::Card& card, unsigned vf);

}  // namespace bench
