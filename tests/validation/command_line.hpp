// SPDX-License-Identifier: Apache-2.0
// The words of spyre-validation: what is parsed into which options, and which command that is.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <string>
#include <vector>

#include "tests/validation/commands.hpp"

namespace validation {

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Throws CLI::ParseError, also for a call for help: exit_code_of() prints it.
  void parse(int argc, const char* const* argv);
  // As cli::CommandLine::exit_code_of().
  int exit_code_of(const CLI::ParseError& error, bool json) const;
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
  int execute_manual() const;

  CLI::App app_{"spyre: validation of a card and of its driver", "spyre"};
  CLI::App* fault_campaign_ = nullptr;
  CLI::App* soak_ = nullptr;
  CLI::App* replay_ = nullptr;
  CLI::App* fault_tenant_ = nullptr;
  CLI::App* manual_ = nullptr;
  std::string manual_folder_{};
  std::vector<std::string> words_{};
};

}  // namespace validation
