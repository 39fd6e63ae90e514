// SPDX-License-Identifier: Apache-2.0
// The few statistics that the table needs. All times are double nanoseconds.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace bench {

using Clock = std::chrono::steady_clock;

inline double ns_since(Clock::time_point start) {
  return std::chrono::duration<double, std::nano>(Clock::now() - start).count();
}

// Of an even number of samples: the upper of the middle two. 0 of none.
inline double median(std::vector<double> samples) {
  if (samples.empty()) return 0;
  const auto middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return *middle;
}

// What one call takes, of `count` of them.
double median_time(unsigned count, auto&& once) {
  std::vector<double> samples(count);
  for (double& sample : samples) {
    const auto start = Clock::now();
    once();
    sample = ns_since(start);
  }
  return median(std::move(samples));
}

// The smallest sample that at least `part` of all do not exceed: 0.99 of 300 is the fourth largest. 0 of none.
inline double percentile(std::vector<double> samples, double part) {
  if (samples.empty()) return 0;
  const double rank = std::ceil(part * static_cast<double>(samples.size()));
  const auto at = static_cast<std::ptrdiff_t>(std::clamp<double>(rank, 1, static_cast<double>(samples.size()))) - 1;
  std::nth_element(samples.begin(), samples.begin() + at, samples.end());
  return samples[static_cast<std::size_t>(at)];
}

}  // namespace bench
