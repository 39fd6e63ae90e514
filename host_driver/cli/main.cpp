// SPDX-License-Identifier: Apache-2.0
// spyre: the command line. Exit codes: exit_codes.hpp. `spyre exec` passes on its command's.
#include <CLI/CLI.hpp>
#include <string_view>

#include "host_driver/cli/command_line.hpp"
#include "host_driver/cli/exit_codes.hpp"

namespace {

int run(int argc, char** argv, bool exec, bool json) {
  try {
    cli::CommandLine command;
    try {
      command.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      const int code = command.exit_code_of(error, json);
      return exec && code != cli::kOk ? cli::kExecFailed : code;
    }
    return command.execute();
  } catch (const std::exception& error) {
    // What stdout did not take is said at the end.
    if (cli::output_failure().empty()) cli::print_error(error, json);
    return exec ? cli::kExecFailed : cli::kRefused;
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::prepare_standard_streams();
  const std::string_view first = argc > 1 ? argv[1] : "";
  const bool exec = first == "exec" || first == "trace";
  const int code = run(argc, argv, exec, cli::asks_for_json(argc, argv));
  return cli::with_output_written(code, exec ? cli::kExecFailed : cli::kRefused);
}
