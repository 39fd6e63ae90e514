// SPDX-License-Identifier: Apache-2.0
// spyre-validation: the part of `spyre` that is test equipment. It takes the words that `spyre` takes: fault campaign, soak,
// replay. Exit codes as of `spyre`.
#include <fmt/format.h>

#include "host_driver/cli/exit_codes.hpp"
#include "tests/validation/command_line.hpp"

int main(int argc, char** argv) {
  try {
    validation::CommandLine command;
    try {
      command.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return command.app().exit(error) == 0 ? cli::kOk : cli::kRefused;
    }
    return command.execute();
  } catch (const std::exception& error) {
    fmt::print(stderr, "spyre: {}\n", error.what());
    return cli::kRefused;
  }
}
