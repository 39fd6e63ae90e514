// SPDX-License-Identifier: Apache-2.0
// What a person sees of a run: blocks on a time line with device times, bytes and rates. Text only; colours and
// line characters as the reader can show them (output.hpp).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host_driver/cli/output.hpp"
#include "shared/outcome.hpp"

namespace cli {

struct Bar {
  std::string name;     // "Compute 2"
  double start_us = 0;  // from the first bar's start
  double end_us = 0;
  std::uint64_t bytes = 0;  // 0: no rate column
  double operations = 0;    // multiply-adds; 0: none
  bool wide = false;        // drawn in the second colour (compute)
  wire::Outcome outcome = wire::Outcome::Ok;
};

// One line per bar: name, start, duration, rate, the bar itself. `width` characters for the bars.
std::string draw_timeline(const std::vector<Bar>& bars, unsigned width, Style style);

// A boot as the console told it ("post 0x7 at 812 us: functions").
struct PostStep {
  std::string name;
  double at_us = 0;
};
std::vector<PostStep> parse_post_lines(const std::string& console);
std::string draw_boot(const std::vector<PostStep>& steps, double host_ms, Style style);

// "1.25 GB/s", "812 µs" (where there is only ASCII: "us"), "1.9 s": three significant digits, unit chosen.
std::string format_bytes(double bytes);
std::string format_time_us(double us, Style style = stdout_style());

}  // namespace cli
