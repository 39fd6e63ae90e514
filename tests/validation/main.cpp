// SPDX-License-Identifier: Apache-2.0
// spyre-validation: the part of `spyre` that is test equipment. It takes the words that `spyre` takes: fault campaign,
// soak, replay. Exit codes as of `spyre`.
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "tests/validation/command_line.hpp"

namespace {

int run(int argc, char** argv) {
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
    if (cli::output_failure().empty()) cli::print_error(error, json);
    return cli::kRefused;
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::prepare_standard_streams();
  return cli::with_output_written(run(argc, argv), cli::kRefused);
}
