// SPDX-License-Identifier: Apache-2.0
// Device time as time of the host. Both clocks run at the same rate (the emulator derives its counter from the host's
// clock), so one offset is enough, and every block bounds it: a block does not start before it was sent, and it is not
// found ended before it ended. Where the bounds contradict each other the card's clock was stopped or set (a card that
// was paused, a new boot): a new segment begins there.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace svp::trace {

// One block of a function: nanoseconds of the host, device ticks.
struct ClockSample {
  std::uint64_t sent;
  std::uint64_t device_start;
  std::uint64_t device_end;
  std::uint64_t found;
};

class ClockFit {
 public:
  // In the order in which the blocks were found ended.
  explicit ClockFit(std::span<const ClockSample> samples);

  // Nanoseconds of the host's clock; empty: no block has bounded the clock. `near`: a time of the host at which the
  // device time was known, which chooses the segment.
  std::optional<double> host_time(std::uint64_t device_ticks, std::uint64_t near) const;
  // The largest error of host_time(), in nanoseconds.
  double error() const;
  std::size_t segments() const { return segments_.size(); }

 private:
  struct Segment {
    std::uint64_t from;  // host time of the first block that was found ended in it
    double lowest;       // of the offset: host time = ticks in nanoseconds + offset
    double highest;
    double offset() const { return (lowest + highest) / 2; }
  };
  std::vector<Segment> segments_;
};

}  // namespace svp::trace
