// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <ostream>

#include "host_driver/base/output_file.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/signals.hpp"
#include "tests/validation/campaign/campaign.hpp"
#include "tests/validation/campaign/junit.hpp"
#include "tests/validation/campaign/report.hpp"
#include "tests/validation/campaign/tenant_process.hpp"
#include "tests/validation/commands.hpp"

namespace validation {

namespace {

using cli::kInvalid;
using cli::kNotAsWanted;
using cli::kOk;
using svp::campaign::CampaignReport;
using svp::campaign::Result;
using svp::campaign::Scenario;
using svp::campaign::Verdict;

void write_file(const char* option, const std::string& path, const std::string& text) {
  if (const auto written = svp::write_output_file(path, [&](std::ostream& out) { out << text; }); !written) {
    throw svp::InvalidArgument(option, written.error().message, written.error().next_step);
  }
}

// Failed before invalid: who asks for one exit code wants the worst.
int exit_code(const CampaignReport& report) {
  if (report.interrupted) return cli::kInterrupted;
  if (report.all_passed()) return kOk;
  int code = kOk;
  for (const auto& row : report.scenarios) {
    const Verdict verdict = row.verdict();
    if (verdict == Verdict::Invalid) code = code == kOk ? kInvalid : code;
    if (verdict == Verdict::Failed) code = kNotAsWanted;
  }
  return code;
}

}  // namespace

int fault_campaign(const FaultCampaignOptions& options) {
  if (options.mutate) {
    throw svp::InvalidArgument("mutate", "no check of this program, or of the firmware that it boots, can be left out",
                               "run tests/mutants/spyre-mutant of the build folder (docs/campaign.md, \"Mutants\")");
  }
  svp::campaign::CampaignOptions campaign;
  campaign.seed = options.seed;
  campaign.only = options.only;
  campaign.repeat = options.repeat;
  campaign.bundles = options.bundles;
  if (!options.json) {
    fmt::print("{}", svp::campaign::table_head());
    campaign.on_result = [](const Scenario& scenario, const Result& result) {
      fmt::print("{}", svp::campaign::to_table_line(scenario, result));
      std::fflush(stdout);
    };
  }
  const cli::InterruptNote note;
  campaign.interrupted = cli::InterruptNote::came;
  const CampaignReport report = svp::campaign::run_campaign(campaign);
  if (!options.html.empty()) write_file("html", options.html, svp::campaign::to_html(report));
  if (!options.junit.empty()) write_file("junit", options.junit, svp::campaign::to_junit(report));
  if (options.json) {
    fmt::print("{}\n", svp::campaign::to_json(report));
  } else if (options.repeat > 1) {
    fmt::print("\n{}", svp::campaign::to_table(report));
  } else {
    fmt::print("{}", svp::campaign::to_sum(report));
  }
  return exit_code(report);
}

int fault_tenant(const FaultTenantOptions& options) {
  // An interrupt at the terminal is the campaign's, which ends its tenants itself.
  std::signal(SIGINT, SIG_IGN);
  return svp::campaign::tenant_main(
      options.card, options.function,
      options.task == "work" ? svp::campaign::TenantTask::Work : svp::campaign::TenantTask::Occupy, options.seed);
}

}  // namespace validation
