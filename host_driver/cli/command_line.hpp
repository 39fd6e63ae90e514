// SPDX-License-Identifier: Apache-2.0
// The words of `spyre`: what is parsed into which options, and which command that is.
#pragma once

#include <CLI/App.hpp>
#include <CLI/Error.hpp>
#include <string>
#include <vector>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/output.hpp"

namespace cli {

class CommandLine {
 public:
  CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  // Throws CLI::ParseError, also for a call for help or the version: exit_code_of() prints it.
  void parse(int argc, const char* const* argv);
  // Prints what parse() threw: help or version on stdout, a refusal on stderr (JSON: on stdout) with what was meant.
  // Returns the exit code.
  int exit_code_of(const CLI::ParseError& error, bool json) const;
  // Runs what was parsed; the process's exit code.
  int execute();

  CLI::App& app() { return app_; }

  RunMatmulOptions matmul{};
  RunOpOptions run_op{};
  RunTransformerOptions transformer{};
  OpsOptions ops{};
  BootOptions boot{};
  ServeOptions serve{};  // boot --name
  DevicesOptions devices{};
  StopOptions stop{};
  ResetOptions reset{};
  DebugOptions debug{};
  EnvOptions env{};
  ExecOptions exec{};
  TraceOptions trace{};
  FaultListOptions fault_list{};
  FaultRunOptions fault_run{};
  std::vector<std::string> validation{};  // fault campaign and soak: all words, for the validation program
  ReplayOptions replay{};
  InspectOptions inspect{};
  LogsOptions logs{};
  SmiOptions smi{};
  LayoutOptions layout{};
  ConvertOptions convert{};
  StatsOptions stats{};
  SpyrecodeMakeOptions spyrecode_make{};
  SpyrecodeShowOptions spyrecode_show{};
  SdscExplainOptions sdsc_explain{};
  SdscCheckOptions sdsc_check{};
  SdscRunOptions sdsc_run{};
  bool version_json = false;
  bool detach = false;               // boot --name --detach
  std::vector<std::string> words{};  // as they were given, without the program's name
  ColorMode color = ColorMode::Auto;

 private:
  void add_run();
  void add_run_operations(CLI::App& run);
  void add_boot();
  void add_cards();
  void add_views();
  void add_tensors();
  void add_spyrecode();
  void add_sdsc();
  void add_debug();
  void add_exec();
  void add_trace();
  void add_fault();
  void add_hidden();
  int execute_boot();
  int execute_complete() const;
  int execute_manual() const;
  // The words of `help run matmul` as `run matmul --help`.
  static std::vector<std::string> without_help_word(std::vector<std::string> words);

  CLI::App app_{"spyre: an open virtual platform for a Spyre-class AI accelerator"};
  CLI::App* run_matmul_ = nullptr;
  std::vector<CLI::App*> run_ops_{};
  CLI::App* run_transformer_ = nullptr;
  CLI::App* ops_ = nullptr;
  CLI::App* boot_ = nullptr;
  CLI::App* devices_ = nullptr;
  CLI::App* stop_ = nullptr;
  CLI::App* reset_ = nullptr;
  CLI::App* debug_ = nullptr;
  CLI::App* env_ = nullptr;
  CLI::App* exec_ = nullptr;
  CLI::App* trace_ = nullptr;
  CLI::App* fault_list_ = nullptr;
  CLI::App* fault_run_ = nullptr;
  CLI::App* fault_campaign_ = nullptr;
  CLI::App* soak_ = nullptr;
  CLI::App* replay_ = nullptr;
  CLI::App* inspect_ = nullptr;
  CLI::App* logs_ = nullptr;
  CLI::App* smi_ = nullptr;
  CLI::App* layout_ = nullptr;
  CLI::App* convert_ = nullptr;
  CLI::App* stats_ = nullptr;
  CLI::App* spyrecode_make_ = nullptr;
  CLI::App* spyrecode_show_ = nullptr;
  CLI::App* sdsc_explain_ = nullptr;
  CLI::App* sdsc_check_ = nullptr;
  CLI::App* sdsc_run_ = nullptr;
  CLI::App* version_ = nullptr;
  CLI::App* complete_ = nullptr;
  CLI::App* manual_ = nullptr;
  std::string manual_folder_{};
};

}  // namespace cli
