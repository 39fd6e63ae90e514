// SPDX-License-Identifier: Apache-2.0
// Who is being disturbed, and when: what a tenant of a soak may call an excuse. A storm over a function begins before the
// first thing that may disturb it and ends when nothing more can come of it; what happens to a function between two
// moments without a storm between them has no excuse.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace svp::soak {

inline constexpr std::size_t kMostComplaints = 8;  // that a player or the disturber keeps

inline constexpr unsigned kMostFunctions = 32;
using FunctionMask = std::uint32_t;  // bit per wire::Target
inline constexpr FunctionMask kEverybody = ~FunctionMask{0};

// Thread-safe.
class Weather {
 public:
  // A moment, as one function sees it.
  struct Mark {
    std::uint64_t storms = 0;
    bool calm = false;
  };

  Mark mark(unsigned function) const {
    const Sky& sky = skies_[function];
    const std::uint64_t storms =
        sky.storms.load();  // before: a storm that begins between the two is seen by one of them
    return {storms, sky.open.load() == 0};
  }
  bool calm_since(unsigned function, const Mark& mark) const {
    return mark.calm && skies_[function].storms.load() == mark.storms;
  }

  // For as long as it lives, over each function of the mask.
  class Storm {
   public:
    Storm(Weather& weather, FunctionMask functions) : weather_(weather), functions_(functions) {
      for (unsigned f = 0; f < kMostFunctions; ++f) {
        if ((functions_ >> f & 1) == 0) continue;
        weather_.skies_[f].open.fetch_add(1);
        weather_.skies_[f].storms.fetch_add(1);
      }
    }
    ~Storm() {
      for (unsigned f = 0; f < kMostFunctions; ++f) {
        if ((functions_ >> f & 1) != 0) weather_.skies_[f].open.fetch_sub(1);
      }
    }
    Storm(const Storm&) = delete;
    Storm& operator=(const Storm&) = delete;

   private:
    Weather& weather_;
    FunctionMask functions_;
  };

 private:
  struct Sky {
    std::atomic<unsigned> open{0};
    std::atomic<std::uint64_t> storms{0};
  };
  std::array<Sky, kMostFunctions> skies_{};
};

}  // namespace svp::soak
