// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <sstream>
#include <string_view>

namespace cli {

namespace {

constexpr const char* kReset = "\033[0m";
constexpr const char* kDim = "\033[2m";
constexpr const char* kMove = "\033[36m";     // transfers
constexpr const char* kCompute = "\033[32m";  // kernels
constexpr const char* kBad = "\033[31m";

std::string painted(std::string text, const char* paint, bool color) {
  return color ? paint + std::move(text) + kReset : text;
}

std::string repeat(std::string_view text, std::size_t times) {
  std::string out;
  for (std::size_t i = 0; i < times; ++i) out += text;
  return out;
}

// Three significant digits and the largest unit that leaves at least one before the point.
std::string scaled(double value, const std::vector<std::string_view>& units, double step) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const int digits = value >= 100 || value == 0 ? 0 : value >= 10 ? 1 : 2;
  return fmt::format("{:.{}f} {}", value, digits, units[unit]);
}

std::string rate(const Bar& bar) {
  const double seconds = (bar.end_us - bar.start_us) / 1e6;
  if (seconds <= 0) return "";
  if (bar.operations > 0) return scaled(bar.operations / seconds, {"MAC/s", "kMAC/s", "MMAC/s", "GMAC/s"}, 1000);
  if (bar.bytes > 0) return scaled(static_cast<double>(bar.bytes) / seconds, {"B/s", "kB/s", "MB/s", "GB/s"}, 1000);
  return "";
}

}  // namespace

std::string format_bytes(double bytes) { return scaled(bytes, {"B", "KiB", "MiB", "GiB"}, 1024); }
std::string format_time_us(double us, Style style) {
  return scaled(us, {style.unicode ? "µs" : "us", "ms", "s"}, 1000);
}

std::string draw_timeline(const std::vector<Bar>& bars, unsigned width, Style style) {
  const bool color = style.color;
  const char* const dot = style.unicode ? "·" : ".";
  double total = 0;
  std::size_t name_width = 0;
  for (const Bar& bar : bars) {
    total = std::max(total, bar.end_us);
    name_width = std::max(name_width, bar.name.size());
  }
  std::string out;
  for (const Bar& bar : bars) {
    const double scale = total > 0 ? width / total : 0;
    const auto left = std::min<std::size_t>(static_cast<std::size_t>(bar.start_us * scale), width - 1);
    const auto right = std::clamp<std::size_t>(static_cast<std::size_t>(bar.end_us * scale + 0.5), left + 1, width);
    const bool bad = bar.outcome != wire::Outcome::Ok;
    // A block shorter than a column is still seen: a thin mark instead of a full one.
    const bool thin = (bar.end_us - bar.start_us) * scale < 0.5;
    const std::string mark = repeat(!style.unicode ? "#" : thin ? "▏" : "█", right - left);
    out += fmt::format("  {:<{}}  {:>8}  {:>8}  {:>8}  {:>12}  {}{}{}{}\n", bar.name, name_width,
                       format_time_us(bar.start_us, style), format_time_us(bar.end_us - bar.start_us, style),
                       bar.bytes > 0 ? format_bytes(static_cast<double>(bar.bytes)) : "", rate(bar),
                       painted(repeat(dot, left), kDim, color),
                       painted(mark,
                               bad        ? kBad
                               : bar.wide ? kCompute
                                          : kMove,
                               color),
                       painted(repeat(dot, width - right), kDim, color),
                       bad ? fmt::format("  {}", wire::name(bar.outcome)) : "");
  }
  return out;
}

std::vector<PostStep> parse_post_lines(const std::string& console) {
  std::vector<PostStep> steps;
  std::istringstream lines(console);
  for (std::string line; std::getline(lines, line);) {
    unsigned code = 0;
    double at = 0;
    int used = 0;
    if (std::sscanf(line.c_str(), "post 0x%x at %lf us: %n", &code, &at, &used) != 2 || used == 0) continue;
    while (!line.empty() && (line.back() == '\r' || line.back() == '\n')) line.pop_back();
    steps.push_back({line.substr(static_cast<std::size_t>(used)), at});
  }
  return steps;
}

std::string draw_boot(const std::vector<PostStep>& steps, double host_ms, Style style) {
  const bool color = style.color;
  std::string out;
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const double next = i + 1 < steps.size() ? steps[i + 1].at_us : steps[i].at_us;
    const bool last = i + 1 == steps.size();
    out += fmt::format(
        "  {} {:<14} {:>9}{}\n",
        painted(!style.unicode ? "*"
                : last         ? "●"
                               : "○",
                kCompute, color),
        steps[i].name, format_time_us(steps[i].at_us, style),
        last ? "" : painted(fmt::format("  +{}", format_time_us(next - steps[i].at_us, style)), kDim, color));
  }
  out += fmt::format("  ready for work {:.0f} ms after the emulator was started\n", host_ms);
  return out;
}

}  // namespace cli
