// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/command_line.hpp"

#include <CLI/Config.hpp>
#include <CLI/Error.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <string_view>

#include "host_driver/cli/fault_run.hpp"
#include "host_driver/discovery/runtime_folder.hpp"

namespace cli {

CommandLine::CommandLine() {
  app_.require_subcommand(1);
  app_.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "spyre: " + std::string(error.what()) + " (next: spyre --help, or --help behind a command)\n";
  });
  add_run();
  add_boot();
  add_cards();
  add_debug();
  add_exec();
  add_fault();
  app_.add_subcommand("version", "versions, and where the firmware is");
}

void CommandLine::add_run() {
  auto* run = app_.add_subcommand("run", "run a kernel on FLEX_DEVICE's device, or on a card of its own");
  run->require_subcommand(1);
  run_matmul_ = run->add_subcommand("matmul", "C[m,n] = A[m,k] x B[k,n], random fp16 data, every element checked");
  const auto extent = CLI::Range(std::int64_t{1}, std::int64_t{1} << 20);
  run_matmul_->add_option("--m", matmul.m, "rows of A and C")->check(extent)->capture_default_str();
  run_matmul_->add_option("--n", matmul.n, "columns of B and C")->check(extent)->capture_default_str();
  run_matmul_->add_option("--k", matmul.k, "columns of A, rows of B")->check(extent)->capture_default_str();
  run_matmul_->add_option("--tile", matmul.tile, "rows that the kernel is compiled for (default min(m, 1024))")
      ->check(extent);
  run_matmul_->add_option("--seed", matmul.seed, "of the data (default: random, printed)");
  run_matmul_->add_option("--cores", matmul.cores, "a card of its own with this many harts (0: by this machine)")
      ->check(CLI::Range(0, 64));
  run_matmul_->add_option("--vf", matmul.function, "a card of its own, on this virtual function (0: the PF)")
      ->check(CLI::Range(0, 16));
  run_matmul_->add_flag("--json", matmul.json, "one JSON object instead of the report");
}

void CommandLine::add_boot() {
  boot_ = app_.add_subcommand("boot", "boot a card and show its boot time line; with --name: keep it for others");
  auto* self_test = boot_->add_flag("--selftest", boot.self_test, "then check what works and what is refused");
  boot_->add_option("--name", serve.name, "stay, under this name, until SIGTERM, SIGINT or spyre stop")
      ->excludes(self_test);
  boot_->add_option("--group", serve.group, "with --name: members of this group may take functions, too");
  add_card_options(*boot_, serve.shape);
}

void CommandLine::add_cards() {
  devices_ = app_.add_subcommand("devices", "the devices that a program sees with this environment");
  devices_->add_flag("--json", devices.json, R"({"count": N, "devices": [...]})");

  stop_ = app_.add_subcommand("stop", "end a card; its owners are told");
  auto* which = stop_->add_option_group("which");
  which->add_option("card", stop.card, "its name, or the path of its folder");
  which->add_flag("--all", stop.all, "all cards");
  which->require_option(1);

  reset_ = app_.add_subcommand("reset", "reset a function of a card, or the whole card");
  // Not "card": newer CLI11 refuses a positional with the name of an option, here --card.
  reset_->add_option("card-name", reset.card, "its name, or the path of its folder")->required();
  auto* what = reset_->add_option_group("what");
  what->add_option("--function", reset.function, "PF, VF1, VF2, ...: what runs on it ends, its memory is given back");
  what->add_flag("--firmware", reset.firmware, "restart the firmware: all functions are reset, owners attach again");
  what->add_flag("--card", reset.card_reset, "reset the machine (system_reset): likewise");
  what->add_flag("--power-cycle", reset.power_cycle,
                 "end the emulator and boot a new one: all owners lose their functions");
  what->require_option(1);
}

void CommandLine::add_debug() {
  debug_ = app_.add_subcommand("debug", "a debugger on a card's firmware, or on what a broken one left");
  debug_->footer(
      "spyre debug card0                        attach gdb-multiarch; the card stands still meanwhile\n"
      "spyre debug --collect card0 -o FILE      a core file of the life that broke, else of what it does now\n"
      "spyre debug --core FILE                  the record, and gdb-multiarch on the core\n"
      "In the debugger, thread N is hart N - 1.");
  auto* which = debug_->add_option_group("which");
  which->add_option("card", debug.card, "its name, or the path of its folder");
  auto* core = which->add_option("--core", debug.core, "a core file (or a record alone, with --json)");
  auto* collect = which->add_option("--collect", debug.collect, "the card to collect a core file from");
  which->require_option(1);
  auto* output = debug_->add_option("-o,--output", debug.output, "the core file to write")->needs(collect);
  collect->needs(output);
  debug_->add_flag("--now", debug.now, "what the harts do now, even when an earlier life left a record")
      ->needs(collect);
  debug_->add_option("--firmware", debug.firmware, "its ELF file (default: as the card's, SPYRE_FIRMWARE)");
  auto* batch = debug_->add_flag("--batch", debug.batch, "print threads and back traces and end");
  debug_->add_flag("--json", debug.json, "the record as one JSON object, no debugger")->needs(core)->excludes(batch);
}

void CommandLine::add_exec() {
  exec_ = app_.add_subcommand("exec",
                              "boot cards, run a command against them, stop them: spyre exec [OPTIONS] -- COMMAND ...");
  exec_->footer(
      "The command gets SPYRE_RUNTIME_DIR, AIU_WORLD_SIZE and FLEX_DEVICE (yours, else VF with --vfs, else PF).\n"
      "Its exit code is passed on (128 + n: ended by signal n; 127: not started).");
  exec_->add_option("--cards", exec.cards, "how many")->check(CLI::Range(1u, svp::kMaxCards))->capture_default_str();
  exec_->add_flag("--verbose", exec.verbose, "a line on stderr for each change of an owner");
  add_card_options(*exec_, exec.shape);
}

void CommandLine::add_fault() {
  auto* fault = app_.add_subcommand("fault", "break a card on purpose: what can be broken, and scripts that do");
  fault->require_subcommand(1);
  fault_list_ = fault->add_subcommand("list", "the fault points, their actions and conditions");
  fault_list_->add_flag("--json", fault_list.json, "one JSON object");

  fault_run_ = fault->add_subcommand("run", "run a script of faults against a card of its own under load");
  fault_run_->footer(
      "Exit code 0: every fault fired, all ended typed and right; 1: something did not; 2: the script was "
      "refused;\n4: INVALID, a fault did not fire.");
  fault_run_->add_option("script", fault_run.script, "JSON file (docs/faults.md)")->required();
  fault_run_->add_option("--seed", fault_run.seed, "instead of the script's own");
  fault_run_->add_option("--seconds", fault_run.seconds, "how long it may wait for a fault to fire")
      ->check(CLI::Range(1u, kMostFaultRunSeconds))
      ->capture_default_str();
  fault_run_->add_flag("--json", fault_run.json, "one JSON object instead of the report");
  fault_run_->add_option("--bundles", fault_run.bundles, "folder for a failure bundle when the exit code is not 0");
  add_card_options(*fault_run_, fault_run.shape);

  // Their words are the validation program's.
  fault_campaign_ = fault->add_subcommand("campaign", "forty scenarios, each with five proofs, on cards of their own");
  soak_ =
      app_.add_subcommand("soak", "mixed load on all functions of a card of its own, faults and resets all the while");

  replay_ =
      app_.add_subcommand("replay", "run what a failure bundle holds again, with its script and seed, and compare");
  replay_->footer("Exit code 0: everything comparable is the same; 1: something differs; 2: the file is no bundle.");
  replay_->add_option("bundle", replay.bundle, "file that a failed run left in its --bundles folder")->required();
}

void CommandLine::parse(int argc, const char* const* argv) {
  const char* const* const end = argv + argc;
  const char* const* words_end = end;
  const auto word = [&](int index) { return index < argc ? std::string_view(argv[index]) : std::string_view(); };
  if (word(1) == "exec") {
    // What stands behind -- is somebody else's command line, down to its own -- and options.
    words_end = std::find_if(argv + 2, end, [](const char* at) { return std::string_view(at) == "--"; });
    if (words_end != end) exec.command.assign(words_end + 1, end);
  } else if (word(1) == "soak" || (word(1) == "fault" && word(2) == "campaign")) {
    words_end = argv + (word(1) == "soak" ? 2 : 3);
    validation.assign(argv + 1, end);
  }
  app_.parse(static_cast<int>(words_end - argv), argv);
  if (exec_->parsed() && exec.command.empty()) {
    throw CLI::ValidationError("exec", "the command stands behind --, like: spyre exec -- spyre devices");
  }
  matmul.seed_given = run_matmul_->count("--seed") != 0;
  matmul.own_card = run_matmul_->count("--cores") + run_matmul_->count("--vf") != 0;
  fault_run.seed_given = fault_run_->count("--seed") != 0;
  exec.vfs_given = exec_->count("--vfs") != 0;
  boot.shape = serve.shape;
}

int CommandLine::execute() {
  if (run_matmul_->parsed()) return cli::run_matmul(matmul);
  if (boot_->parsed()) return boot_->count("--name") != 0 ? cli::serve(serve) : cli::boot(boot);
  if (devices_->parsed()) return cli::devices(devices);
  if (stop_->parsed()) return cli::stop(stop);
  if (reset_->parsed()) return cli::reset(reset);
  if (debug_->parsed()) return cli::debug(debug);
  if (exec_->parsed()) return cli::exec(exec);
  if (fault_list_->parsed()) return cli::fault_list(fault_list);
  if (fault_run_->parsed()) return cli::fault_run(fault_run);
  if (fault_campaign_->parsed() || soak_->parsed()) become_validation(validation);
  if (replay_->parsed()) return cli::replay(replay);
  return cli::version();
}

}  // namespace cli
