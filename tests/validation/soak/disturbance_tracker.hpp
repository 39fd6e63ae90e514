// SPDX-License-Identifier: Apache-2.0
// Who is being disturbed, and when: what a tenant of a soak may call an excuse. A disturbance over a function begins
// before the first thing that may disturb it and ends when nothing more can come of it; what happens to a function
// between two moments without a disturbance between them has no excuse.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace svp::soak {

inline constexpr std::size_t kMostComplaints = 8;  // that a stress client or the fault scheduler keeps

inline constexpr unsigned kMostFunctions = 32;
using FunctionMask = std::uint32_t;  // bit per wire::Target
inline constexpr FunctionMask kEverybody = ~FunctionMask{0};

// Thread-safe.
class DisturbanceTracker {
 public:
  // A moment, as one function sees it.
  struct Mark {
    std::uint64_t disturbances = 0;
    bool undisturbed = false;
  };

  Mark mark(unsigned function) const {
    const State& state = states_[function];
    const std::uint64_t disturbances =
        state.disturbances.load();  // before: a disturbance that begins between the two is seen by one of them
    return {disturbances, state.open.load() == 0};
  }
  bool undisturbed_since(unsigned function, const Mark& mark) const {
    return mark.undisturbed && states_[function].disturbances.load() == mark.disturbances;
  }

  // For as long as it exists, over each function of the mask.
  class Scope {
   public:
    Scope(DisturbanceTracker& tracker, FunctionMask functions) : tracker_(tracker), functions_(functions) {
      for (unsigned f = 0; f < kMostFunctions; ++f) {
        if ((functions_ >> f & 1) == 0) continue;
        tracker_.states_[f].open.fetch_add(1);
        tracker_.states_[f].disturbances.fetch_add(1);
      }
    }
    ~Scope() {
      for (unsigned f = 0; f < kMostFunctions; ++f) {
        if ((functions_ >> f & 1) != 0) tracker_.states_[f].open.fetch_sub(1);
      }
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    DisturbanceTracker& tracker_;
    FunctionMask functions_;
  };

 private:
  struct State {
    std::atomic<unsigned> open{0};
    std::atomic<std::uint64_t> disturbances{0};
  };
  std::array<State, kMostFunctions> states_{};
};

}  // namespace svp::soak
