// SPDX-License-Identifier: Apache-2.0
// The words of `spyre`: what is parsed into which options, and which command that is.
#pragma once

#include <CLI/App.hpp>

#include "host_driver/cli/commands.hpp"

namespace cli {

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Throws CLI::ParseError, also for a call for help: app().exit() prints both.
  void parse(int argc, const char* const* argv);
  // Runs what was parsed; the process's exit code.
  int execute();

  CLI::App& app() { return app_; }

  RunMatmulOptions matmul{};
  BootOptions boot{};
  ServeOptions serve{};  // boot --name
  DevicesOptions devices{};
  StopOptions stop{};
  ResetOptions reset{};
  DebugOptions debug{};
  ExecOptions exec{};
  FaultListOptions fault_list{};
  FaultRunOptions fault_run{};
  std::vector<std::string> validation{};  // fault campaign and soak: all words, for the validation program
  ReplayOptions replay{};

 private:
  void add_run();
  void add_boot();
  void add_cards();
  void add_debug();
  void add_exec();
  void add_fault();

  CLI::App app_{"spyre: an open virtual platform for a Spyre-class AI accelerator"};
  CLI::App* run_matmul_ = nullptr;
  CLI::App* boot_ = nullptr;
  CLI::App* devices_ = nullptr;
  CLI::App* stop_ = nullptr;
  CLI::App* reset_ = nullptr;
  CLI::App* debug_ = nullptr;
  CLI::App* exec_ = nullptr;
  CLI::App* fault_list_ = nullptr;
  CLI::App* fault_run_ = nullptr;
  CLI::App* fault_campaign_ = nullptr;
  CLI::App* soak_ = nullptr;
  CLI::App* replay_ = nullptr;
};

}  // namespace cli
