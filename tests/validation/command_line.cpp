// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/command_line.hpp"

#include <CLI/Config.hpp>
#include <CLI/Error.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>

#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/manual.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/suggestions.hpp"

namespace validation {

CommandLine::CommandLine() {
  app_.require_subcommand(1);
  add_campaign();
  add_soak();
  add_others();
}

void CommandLine::add_campaign() {
  auto* fault = app_.add_subcommand("fault", "break a card on purpose");
  fault->require_subcommand(1);
  fault_campaign_ = fault->add_subcommand("campaign", "scenarios, each with five proofs, on cards of their own");
  fault_campaign_->footer(
      "Exit code 0: all passed; 1: not; 2: bad options; 4: a fault did not fire, and nothing else was wrong;\n"
      "130: interrupted, after printing what there was.\n"
      "spyre fault campaign --only F14,F31 --repeat 10\n"
      "spyre fault campaign --junit campaign.xml --bundles bundles");
  fault_campaign_->add_option("--seed", fault_campaign.seed, "of whatever is random")->capture_default_str();
  fault_campaign_->add_option("--only", fault_campaign.only, "scenarios, like F14,F31")->delimiter(',');
  fault_campaign_->add_option("--repeat", fault_campaign.repeat, "runs of each scenario, with seeds that follow")
      ->check(CLI::Range(1u, 10'000u))
      ->capture_default_str();
  fault_campaign_->add_flag("--mutate", fault_campaign.mutate,
                            "refused here: the program that can leave checks out is spyre-mutant");
  fault_campaign_->add_flag("--json", fault_campaign.json, "one JSON object instead of the table");
  fault_campaign_->add_option("--html", fault_campaign.html, "also write the result as one HTML page");
  fault_campaign_->add_option("--junit", fault_campaign.junit, "also write the result as a JUnit file, for CI");
  fault_campaign_->add_option("--bundles", fault_campaign.bundles, "folder for a failure bundle per run that fails");
}

void CommandLine::add_soak() {
  soak_ =
      app_.add_subcommand("soak", "mixed load on all functions of a card of its own, faults and resets all the while");
  soak_->footer(
      "Exit code 0: every result right, everything accounted for, nothing left behind; 1: not; 130: interrupted.\n"
      "spyre soak --minutes 10 --seed 7");
  soak_->add_option("--minutes", soak.minutes, "how long")->check(CLI::Range(0.01, 100'000.0))->capture_default_str();
  soak_->add_option("--seed", soak.seed, "of whatever is random")->capture_default_str();
  soak_->add_flag("--until-complaint", soak.until_complaint, "end with the first complaint; --minutes is the most");
  soak_->add_flag("--json", soak.json, "one JSON object instead of the report");
  soak_->add_option("--bundles", soak.bundles, "folder for a failure bundle when it is not clean");
}

void CommandLine::add_others() {
  replay_ =
      app_.add_subcommand("replay", "run what a failure bundle holds again, with its script and seed, and compare");
  replay_->footer("Exit code 0: everything comparable is the same; 1: something differs; 2: the file is no bundle.");
  replay_->add_option("bundle", bundle, "file that a failed run left in its --bundles folder")->required();

  manual_ = app_.add_subcommand("__manual")->group("");
  manual_->add_option("folder", manual_folder_)->required();

  fault_tenant_ = app_.add_subcommand("fault-tenant")->group("");  // hidden
  fault_tenant_->add_option("card", fault_tenant.card)->required();
  fault_tenant_->add_option("function", fault_tenant.function)->required();
  fault_tenant_->add_option("task", fault_tenant.task)->required()->check(CLI::IsMember({"work", "occupy"}));
  fault_tenant_->add_option("seed", fault_tenant.seed)->required();
}

int CommandLine::execute() {
  if (fault_campaign_->parsed()) return validation::fault_campaign(fault_campaign);
  if (soak_->parsed()) return validation::soak(soak);
  if (replay_->parsed()) return replay(bundle);
  if (manual_->parsed()) return execute_manual();
  return validation::fault_tenant(fault_tenant);
}

void CommandLine::parse(int argc, const char* const* argv) {
  words_.assign(argv + 1, argv + argc);
  app_.parse(argc, argv);
}

int CommandLine::exit_code_of(const CLI::ParseError& error, bool json) const {
  if (error.get_exit_code() == 0) return app_.exit(error);  // --help
  const std::string unknown = cli::unknown_word(app_, words_);
  cli::print_error(svp::Error(svp::refused_by_driver("command line", unknown.empty() ? error.what() : unknown,
                                                     "--help behind the command")),
                   json);
  return cli::kRefused;
}

// The pages of the commands that spyre passes on.
int CommandLine::execute_manual() const {
  const std::string others[] = {"spyre", "spyre-fault", "spyre-replay"};
  cli::write_manual(app_, manual_folder_, others);
  return cli::kOk;
}

}  // namespace validation
