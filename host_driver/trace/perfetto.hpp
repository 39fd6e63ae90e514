// SPDX-License-Identifier: Apache-2.0
// Traces as a page that Perfetto (ui.perfetto.dev) or chrome://tracing draws: the JSON trace event format. A process of
// the host is a process with a track per thread; a function of a card is a process with a track per stream, core and
// DMA engine. An arrow leads from each launch through its blocks. Times are microseconds from the first entry.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <span>
#include <string>
#include <vector>

#include "host_driver/trace/trace_file.hpp"

namespace svp::trace {

struct Drawn {
  std::uint64_t events = 0;  // intervals and instants
  std::uint64_t launches = 0;
  std::uint64_t blocks = 0;
  std::uint64_t slices = 0;  // of cores
  std::uint64_t marks = 0;
  std::uint64_t array_requests = 0;
  std::uint64_t lost = 0;       // entries for which the process had no room, or that the card overwrote
  std::uint64_t unwritten = 0;  // as in ProcessTrace; likewise the next
  std::uint64_t damaged = 0;
  std::uint64_t unplaced = 0;        // of the card, and no block tells how its clock runs: left out
  double clock_error_us = 0;         // the largest error of a card's time on the host's clock
  std::uint64_t clock_segments = 0;  // 1 for each function whose clock ran on evenly
};

// Writes the page to `out`.
Drawn write_perfetto(std::ostream& out, std::span<const ProcessTrace> traces);

}  // namespace svp::trace
