// SPDX-License-Identifier: Apache-2.0
// spyre-validation: the part of `spyre` that is test equipment. It takes the words that `spyre` takes: fault campaign,
// soak, replay. Exit codes as of `spyre`.
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "tests/validation/command_line.hpp"

int main(int argc, char** argv) {
  const bool json = cli::asks_for_json(argc, argv);
  try {
    validation::CommandLine command;
    try {
      command.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return command.exit_code_of(error, json);
    }
    return command.execute();
  } catch (const std::exception& error) {
    cli::print_error(error, json);
    return cli::kRefused;
  }
}
