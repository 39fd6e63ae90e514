// SPDX-License-Identifier: Apache-2.0
// spyre: the command line. Exit code 0 = done and right; 1 = ran and something was wrong; 2 = could not run.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "host_driver/cli/commands.hpp"
#include "host_driver/device/card.hpp"
#include "host_driver/error.hpp"
#include "shared/version.hpp"

namespace cli {

int version() {
  const auto firmware = flex::find_firmware();
  fmt::print("spyre-vp {} (host/card ABI {})\nfirmware: {}\n", SPYRE_VERSION, wire::kAbiVersion,
             firmware ? firmware->string() : flex::describe(firmware.error()));
  return firmware ? 0 : 2;
}

}  // namespace cli

namespace {

struct Command {
  CLI::App app{"spyre: an open virtual platform for a Spyre-class AI accelerator"};
  cli::RunMatmulOptions matmul;
  cli::BootOptions boot;
  CLI::App* run_matmul = nullptr;
  CLI::App* boot_card = nullptr;
  CLI::App* version = nullptr;

  Command() {
    app.require_subcommand(1);
    add_run();
    boot_card = app.add_subcommand("boot", "boot a card and show its boot time line");
    boot_card->add_flag("--selftest", boot.self_test, "then check what works and what is refused");
    boot_card->add_option("--cores", boot.cores, "harts of the card (0: by this machine)")->check(CLI::Range(0, 64));
    version = app.add_subcommand("version", "versions, and where the firmware is");
  }

  void add_run() {
    auto* run = app.add_subcommand("run", "run a kernel on a card of its own");
    run->require_subcommand(1);
    run_matmul = run->add_subcommand("matmul", "C[m,n] = A[m,k] x B[k,n], random fp16 data, every element checked");
    const auto extent = CLI::Range(std::int64_t{1}, std::int64_t{1} << 20);
    run_matmul->add_option("--m", matmul.m, "rows of A and C")->check(extent)->capture_default_str();
    run_matmul->add_option("--n", matmul.n, "columns of B and C")->check(extent)->capture_default_str();
    run_matmul->add_option("--k", matmul.k, "columns of A, rows of B")->check(extent)->capture_default_str();
    run_matmul->add_option("--tile", matmul.tile, "rows that the kernel is compiled for (default min(m, 1024))")
        ->check(extent);
    run_matmul->add_option("--seed", matmul.seed, "of the data (default: random, printed)");
    run_matmul->add_option("--cores", matmul.cores, "harts of the card (0: by this machine)")->check(CLI::Range(0, 64));
    run_matmul->add_option("--vf", matmul.function, "run on this virtual function (0: the PF)")
        ->check(CLI::Range(0, 16));
    run_matmul->add_flag("--json", matmul.json, "one JSON object instead of the report");
  }

  int execute() {
    if (run_matmul->parsed()) {
      matmul.seed_given = run_matmul->count("--seed") != 0;
      return cli::run_matmul(matmul);
    }
    if (boot_card->parsed()) return cli::boot(boot);
    return cli::version();
  }
};

}  // namespace

int main(int argc, char** argv) {
  try {
    Command command;
    try {
      command.app.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      return command.app.exit(error) == 0 ? 0 : 2;
    }
    return command.execute();
  } catch (const std::exception& error) {
    fmt::print(stderr, "spyre: {}\n", error.what());
    return 2;
  }
}
