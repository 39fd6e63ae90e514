// SPDX-License-Identifier: Apache-2.0
// The words of spyre-validation: what is parsed into which options, and which command that is.
#pragma once

#include <CLI/App.hpp>

#include "tests/validation/commands.hpp"

namespace validation {

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Throws CLI::ParseError, also for a call for help: app().exit() prints both.
  void parse(int argc, const char* const* argv) { app_.parse(argc, argv); }
  // Runs what was parsed; the process's exit code.
  int execute();

  CLI::App& app() { return app_; }

  FaultCampaignOptions fault_campaign{};
  SoakOptions soak{};
  std::string bundle{};  // to replay
  FaultTenantOptions fault_tenant{};

 private:
  void add_campaign();
  void add_soak();
  void add_others();

  CLI::App app_{"spyre: validation of a card and of its driver", "spyre"};
  CLI::App* fault_campaign_ = nullptr;
  CLI::App* soak_ = nullptr;
  CLI::App* replay_ = nullptr;
  CLI::App* fault_tenant_ = nullptr;
};

}  // namespace validation
