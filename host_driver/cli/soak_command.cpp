// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "host_driver/cli/commands.hpp"
#include "tests/validation/soak/bundle.hpp"
#include "tests/validation/soak/soak.hpp"

namespace cli {

int soak(const SoakOptions& options) {
  flex::soak::SoakOptions wanted;
  wanted.length =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double, std::ratio<60>>(options.minutes));
  wanted.seed = options.seed;
  if (!options.json) {
    wanted.on_progress = [](const flex::soak::SoakProgress& progress) {
      fmt::print("{:>6} s  {:>9} rounds  {:>6} disturbances\n", progress.ran.count(), progress.rounds, progress.events);
      std::fflush(stdout);
    };
  }
  const flex::soak::SoakReport report = flex::soak::run_soak(wanted);
  fmt::print("{}", options.json ? flex::soak::to_json(report) + "\n" : flex::soak::to_text(report));
  if (!report.clean() && !options.bundles.empty()) {
    const auto left = flex::bundle::write(options.bundles, "soak", flex::soak::bundle_of(wanted, report));
    fmt::print(stderr, "spyre: failure bundle {}\n", left.string());
  }
  return report.clean() ? 0 : 1;
}

}  // namespace cli
