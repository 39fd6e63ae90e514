// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <cstdio>

#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/signals.hpp"
#include "tests/validation/commands.hpp"
#include "tests/validation/soak/bundle.hpp"
#include "tests/validation/soak/soak.hpp"

namespace validation {

int soak(const SoakOptions& options) {
  svp::soak::SoakOptions wanted;
  wanted.length =
      std::chrono::ceil<std::chrono::milliseconds>(std::chrono::duration<double, std::ratio<60>>(options.minutes));
  wanted.seed = options.seed;
  wanted.until_complaint = options.until_complaint;
  if (!options.json) {
    wanted.on_progress = [](const svp::soak::SoakProgress& progress) {
      fmt::print("{:>6} s  {:>9} rounds  {:>6} disturbances\n", progress.ran.count(), progress.rounds, progress.events);
      std::fflush(stdout);
    };
  }
  const cli::InterruptNote note;
  wanted.interrupted = cli::InterruptNote::came;
  const svp::soak::SoakReport report = svp::soak::run_soak(wanted);
  fmt::print("{}", options.json ? svp::soak::to_json(report) + "\n" : svp::soak::to_text(report));
  if (!report.clean() && !options.bundles.empty()) {
    const auto left = svp::bundle::write(options.bundles, "soak", svp::soak::bundle_of(wanted, report));
    fmt::print(stderr, "spyre: failure bundle {}\n", left.string());
  }
  if (!report.clean()) return cli::kNotAsWanted;
  return report.interrupted ? cli::kInterrupted : cli::kOk;
}

}  // namespace validation
