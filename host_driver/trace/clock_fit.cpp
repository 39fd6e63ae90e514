// SPDX-License-Identifier: Apache-2.0
#include "host_driver/trace/clock_fit.hpp"

#include <algorithm>

#include "shared/units.hpp"

namespace svp::trace {

namespace {

constexpr double kNanosecondsPerTick = 1e9 / static_cast<double>(wire::kTicksPerSecond);

double nanoseconds(std::uint64_t ticks) { return static_cast<double>(ticks) * kNanosecondsPerTick; }

}  // namespace

ClockFit::ClockFit(std::span<const ClockSample> samples) {
  for (const ClockSample& sample : samples) {
    const double lowest = static_cast<double>(sample.sent) - nanoseconds(sample.device_start);
    // The counter has stood at `device_end` for up to a tick.
    const double highest = static_cast<double>(sample.found) - nanoseconds(sample.device_end);
    if (lowest > highest + kNanosecondsPerTick) continue;  // no order of events explains it
    const bool fits = !segments_.empty() && lowest <= segments_.back().highest + kNanosecondsPerTick &&
                      highest + kNanosecondsPerTick >= segments_.back().lowest;
    if (!fits) {
      segments_.push_back({sample.found, lowest, highest});
      continue;
    }
    segments_.back().lowest = std::max(segments_.back().lowest, lowest);
    segments_.back().highest = std::min(segments_.back().highest, highest);
  }
}

std::optional<double> ClockFit::host_time(std::uint64_t device_ticks, std::uint64_t near) const {
  if (segments_.empty()) return std::nullopt;
  const auto behind = std::ranges::upper_bound(segments_, near, {}, &Segment::from);
  const Segment& segment = behind == segments_.begin() ? segments_.front() : *(behind - 1);
  return nanoseconds(device_ticks) + segment.offset();
}

double ClockFit::error() const {
  double most = 0;
  for (const Segment& segment : segments_) most = std::max(most, (segment.highest - segment.lowest) / 2);
  return std::max(most, segments_.empty() ? 0 : kNanosecondsPerTick);
}

}  // namespace svp::trace
