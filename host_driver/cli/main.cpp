// SPDX-License-Identifier: Apache-2.0
// spyre: the command line. Exit code 0 = done and right; 1 = ran and something was wrong; 2 = could not run; 4 = a fault did not fire
// (`spyre fault run`). `spyre exec`
// passes on its command's.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "host_driver/cli/command_line.hpp"

int main(int argc, char** argv) {
  try {
    cli::CommandLine command;
    try {
      command.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return command.app().exit(error) == 0 ? 0 : 2;
    }
    return command.execute();
  } catch (const std::exception& error) {
    fmt::print(stderr, "spyre: {}\n", error.what());
    return 2;
  }
}
