// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/command_line.hpp"

#include <fmt/format.h>

#include <CLI/Config.hpp>
#include <CLI/Error.hpp>
#include <CLI/Formatter.hpp>
#include <CLI/Option.hpp>
#include <CLI/Validators.hpp>
#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/fault_run.hpp"
#include "host_driver/cli/manual.hpp"
#include "host_driver/cli/suggestions.hpp"
#include "host_driver/discovery/device_list.hpp"
#include "host_driver/discovery/runtime_folder.hpp"
#include "host_driver/ops/operation_table.hpp"
#include "host_driver/trace/recorder.hpp"

namespace cli {

namespace {

// " run matmul".
std::string path_behind_program(const CLI::App& command) {
  if (command.get_parent() == nullptr) return {};
  return path_behind_program(*command.get_parent()) + " " + command.get_name();
}

// Of an operation's arguments "eps (1e-5), dim" the numbers, or the integers.
std::string arguments_of(const svp::ops::OpInfo& info, bool numbers) {
  constexpr std::array<std::string_view, 6> kNumbers{"low", "high", "beta", "threshold", "scale", "eps"};
  std::string text;
  for (std::string_view rest = info.arguments; !rest.empty();) {
    const std::string_view argument = rest.substr(0, rest.find(", "));
    rest.remove_prefix(std::min(argument.size() + 2, rest.size()));
    const std::string_view name = argument.substr(0, argument.find(' '));
    if ((std::ranges::find(kNumbers, name) != kNumbers.end()) != numbers) continue;
    text += (text.empty() ? "in order: " : ", ") + std::string(argument);
  }
  return text;
}

std::string text_of_numbers(const svp::ops::OpInfo& info) {
  std::string text = arguments_of(info, true);
  if (!text.empty()) return text;
  return info.tensors > 1 ? "in place of a tensor, where the operation takes one" : "it takes none";
}

std::string text_of_integers(const svp::ops::OpInfo& info) {
  std::string text = arguments_of(info, false);
  return text.empty() ? "it takes none" : text;
}

}  // namespace

CommandLine::CommandLine() {
  app_.require_subcommand(1);
  app_.fallthrough();
  app_.set_version_flag("--version", std::string("spyre-vp ") + SPYRE_VERSION);
  const std::map<std::string, ColorMode> modes = {
      {"auto", ColorMode::Auto}, {"always", ColorMode::Always}, {"never", ColorMode::Never}};
  app_.add_option("--color", color, "auto, always or never; auto: on a terminal, unless NO_COLOR is set")
      ->transform(CLI::CheckedTransformer(modes, CLI::ignore_case).description("WHEN"));
  app_.footer(
      "spyre help COMMAND      what a command does, with examples\n"
      "spyre run matmul        boots a card of its own and multiplies matrices on it\n"
      "spyre exec -- COMMAND   a card for one command");
  add_run();
  add_boot();
  add_cards();
  add_views();
  add_debug();
  add_exec();
  add_trace();
  add_fault();
  add_tensors();
  add_spyrecode();
  add_sdsc();
  version_ = app_.add_subcommand("version", "versions, and where the firmware is");
  version_->add_flag("--json", version_json, R"({"version", "contract_version", "firmware"})");
  add_hidden();
}

void CommandLine::add_hidden() {
  complete_ = app_.add_subcommand("__complete")->group("");
  complete_->prefix_command();
  manual_ = app_.add_subcommand("__manual")->group("");
  manual_->add_option("folder", manual_folder_)->required();
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
  run_matmul_->footer(
      "spyre run matmul --m 1024 --n 512 --k 512      a card of its own, or FLEX_DEVICE's device\n"
      "spyre run matmul --cores 4 --json              on four cores, as JSON");
  add_run_operations(*run);
}

void CommandLine::add_run_operations(CLI::App& run) {
  run_transformer_ = run.add_subcommand("transformer", "a small decoder, token by token, checked in double precision");
  run_transformer_->add_option("--layers", transformer.layers)->check(CLI::Range(1, 16))->capture_default_str();
  run_transformer_->add_option("--heads", transformer.heads, "of 64 elements")
      ->check(CLI::Range(1, 16))
      ->capture_default_str();
  run_transformer_->add_option("--tokens", transformer.tokens)->check(CLI::Range(2, 512))->capture_default_str();
  run_transformer_->add_option("--seed", transformer.seed, "of the weights")->capture_default_str();
  run_transformer_->add_option("--cores", transformer.cores, "a card of its own with this many harts")
      ->check(CLI::Range(0, 64));
  run_transformer_->add_flag("--json", transformer.json, "one JSON object instead of the report");
  for (const svp::ops::OpInfo& info : svp::ops::operation_table()) {
    if (info.op == svp::ops::Op::MatMul || info.op == svp::ops::Op::IndexCopy) continue;
    CLI::App* command = run.add_subcommand(info.name, "an operation of the engine on random data")->group("operations");
    command->add_option("--shape", run_op.shapes, "of each input, like 64x128; one serves them all (of a norm: x)");
    command->add_option("--dtype", run_op.dtype, "float16, bfloat16 or float32")->capture_default_str();
    command->add_option("--number", run_op.numbers, text_of_numbers(info));
    command->add_option("--integer", run_op.integers, text_of_integers(info));
    command->add_option("--seed", run_op.seed, "of the data (default: random, printed)");
    command->add_option("--repeat", run_op.repeat, "launches that are timed")
        ->check(CLI::Range(1, 100000))
        ->capture_default_str();
    command->add_option("--cores", run_op.cores, "a card of its own with this many harts")->check(CLI::Range(0, 64));
    command->add_option("--vf", run_op.function, "a card of its own, on this virtual function")
        ->check(CLI::Range(0, 16));
    command->add_flag("--verify", run_op.verify,
                      "compare with the golden model, and with double precision within the bound of spyre ops");
    command->add_flag("--json", run_op.json, "one JSON object instead of the report");
    run_ops_.push_back(command);
  }
  ops_ = app_.add_subcommand("ops", "operations of the engine, with formats and error bounds");
  ops_->add_flag("--json", ops.json,
                 R"({"operations": [{"name", "tensors", "arguments", "fp32", "error_bound", "bounds": {"DL16": {"ulps",
  "relative"}, "FP32"}}, ...]})");
}

void CommandLine::add_tensors() {
  layout_ = app_.add_subcommand("layout", "how a tensor lies on the card, and what a transfer of it moves");
  layout_->add_option("--size", layout.size, "extents of the host's dimensions, like 512,256; '' for a scalar")
      ->required();
  layout_->add_option("--stride", layout.stride, "host strides in elements (default: row-major)");
  layout_->add_option("--dtype", layout.dtype, "of the host")->capture_default_str();
  auto* order =
      layout_->add_option("--dim-order", layout.dim_order,
                          "order of the dimensions, the last one lies in sticks; ends with -1: one element per stick");
  auto* extents = layout_->add_option("--device-size", layout.device_size, "extents on the card, instead of an order");
  auto* steps =
      layout_->add_option("--stride-map", layout.stride_map, "with --device-size: host elements per step, -1: none");
  extents->needs(steps)->excludes(order);
  steps->needs(extents);
  layout_->add_flag("--dma", layout.dma, "also the loops of a transfer from host to card");
  layout_->add_flag(
      "--json", layout.json,
      R"({"device_size", "stride_map", "bytes", ..., "infos": [[size, src_stride, dst_stride, src_offset, dst_offset], ...]})");
  layout_->footer(
      "spyre layout --size 512,240 --dma                     a last stick that is not full\n"
      "spyre layout --size 512,256 --dim-order 1,0           the first dimension in sticks\n"
      "spyre layout --size 128,128 --device-size 2,2,64,64 --stride-map 8192,64,128,1");

  convert_ = app_.add_subcommand("convert", "numbers to the codes of a format, and back");
  auto* which = convert_->add_option_group("which");
  which->add_option("--to", convert.to, "dl16, fp16, bf16, fp32, fp8_e4m3 or fp8_e5m2: numbers to codes");
  which->add_option("--from", convert.from, "codes to numbers");
  which->require_option(1);
  convert_->add_option("values", convert.values, "numbers (1.0, -0x1p-14, nan), or codes in hexadecimal")->required();
  convert_->footer("spyre convert --to dl16 -- 1.0 -0x1p-14 nan\nspyre convert --from dl16 -- 3E00");
}

void CommandLine::add_spyrecode() {
  auto* spyrecode = app_.add_subcommand("spyrecode", "plans on disk: SpyreCode directories (docs/spyrecode.md)");
  spyrecode->require_subcommand(1);
  auto& make = spyrecode_make;
  spyrecode_make_ = spyrecode->add_subcommand("make", "write a directory that runs one of our kernels");
  spyrecode_make_->add_option("kernel", make.kernel, "matmul, add, ..., or the path of a kernel image (NAME.img)")
      ->required();
  spyrecode_make_->add_option("--shapes", make.shapes, "extents of the kernel's dimensions, like M=64,N=128")
      ->capture_default_str();
  spyrecode_make_->add_flag("--no-symbolic", make.no_symbolic,
                            "without symbolic arguments: the runtime gives the addresses with the computation");
  spyrecode_make_->add_option("-o,--output", make.output, "the directory; a plan that it holds is replaced")
      ->required();
  spyrecode_make_->add_flag("--json", make.json, R"({"directory", "files": [{"name", "bytes"}]})");
  spyrecode_make_->footer(
      "spyre spyrecode make matmul --shapes M=64,N=128,K=192 -o plan\n"
      "spyre spyrecode make add --shapes M=64,N=64 --no-symbolic -o plan\n"
      "spyre spyrecode make negate.img --shapes M=64,N=64 -o plan");

  spyrecode_show_ = spyrecode->add_subcommand("show", "explain a directory, and say whether it can be run here");
  spyrecode_show_->add_option("directory", spyrecode_show.directory, "what holds spyrecode.json")->required();
  spyrecode_show_->add_flag("--json", spyrecode_show.json, "one JSON object");
  spyrecode_show_->footer(
      "Exit code 0: it can be run; 1: this runtime refuses it; 2: it is no such directory.\n"
      "spyre spyrecode show plan");
}

void CommandLine::add_sdsc() {
  auto* sdsc = app_.add_subcommand("sdsc", "bundles of torch-spyre: what its compiler is given (docs/torch-spyre.md)");
  sdsc->require_subcommand(1);
  sdsc_explain_ = sdsc->add_subcommand("explain", "a bundle as a person reads it");
  sdsc_explain_->add_option("directory", sdsc_explain.directory, "what holds bundle.mlir")->required();
  sdsc_explain_->add_flag("--program", sdsc_explain.program, "also the operations that it becomes");
  sdsc_explain_->footer("Exit code 0; 1: the compiler refuses it, and says why; 2: it cannot be read.");

  sdsc_check_ = sdsc->add_subcommand("check", "everything that dxp_standalone checks; nothing is written");
  sdsc_check_->add_option("directory", sdsc_check.directory, "what holds bundle.mlir")->required();
  sdsc_check_->add_flag("--json", sdsc_check.json,
                        R"({"accepted", "arguments", "operations"} or {"accepted", "error"})");
  sdsc_check_->footer("Exit code 0: it is compiled; 1: it is refused, with file, line or member, and the next step.");

  auto& run = sdsc_run;
  sdsc_run_ = sdsc->add_subcommand("run", "compile a bundle, and execute it on arrays in files");
  sdsc_run_->add_option("directory", run.directory, "what holds bundle.mlir")->required();
  const auto add_list = [&](const char* name, std::vector<std::string>& values, const char* what) {
    sdsc_run_->add_option(name, values, what)->allow_extra_args(false);
  };
  add_list("--arg", run.arguments,
           "NUMBER=FILE.npy, what argument NUMBER (from 0) holds; uint8: its bytes on the card");
  add_list("--out", run.outputs, "NUMBER=FILE.npy, where its contents are written afterwards");
  add_list("--as", run.shapes,
           "NUMBER=TYPE:EXTENTS of a result, like 2=float16:64x128 (default: that of --arg, else its bytes as uint8)");
  sdsc_run_->add_flag("--card", run.card,
                      "on FLEX_DEVICE's device, or on a card of its own (default: the golden model)");
  sdsc_run_->add_flag("--json", run.json, R"({"device", "outputs": [{"argument", "file", "dtype", "shape"}]})");
  sdsc_run_->footer(
      "spyre sdsc run DIR --arg 0=x.npy --arg 1=y.npy --out 2=sum.npy --as 2=float16:64x128\n"
      "spyre sdsc run DIR --arg 0=x.npy --out 1=bytes.npy --card");
}

void CommandLine::add_boot() {
  boot_ = app_.add_subcommand("boot", "boot a card and show its boot time line; with --name: keep it for others");
  auto* self_test = boot_->add_flag("--selftest", boot.self_test, "then check what works and what is refused");
  boot_->add_option("--name", serve.name, "stay, under this name, until SIGTERM, SIGINT or spyre stop")
      ->excludes(self_test);
  boot_->add_option("--group", serve.group, "with --name: members of this group may take functions, too");
  boot_->add_flag("--detach", detach, "with --name: return when the card is ready; it goes on in the background")
      ->needs("--name");
  add_card_options(*boot_, serve.shape);
  boot_->footer(
      "spyre boot --selftest                    boots, checks, ends\n"
      "spyre boot --name card0 --vfs 4          stays in the foreground\n"
      "spyre boot --name card0 --detach         stays in the background: spyre logs card0, spyre stop card0");
}

void CommandLine::add_cards() {
  devices_ = app_.add_subcommand("devices", "the devices that a program sees with this environment");
  devices_->add_flag("--json", devices.json, R"({"schema_version": 1, "count": N, "devices": [...]})");

  devices_->footer("FLEX_DEVICE=VF spyre devices    the virtual functions");

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

// What looks at a card and changes nothing.
void CommandLine::add_views() {
  inspect_ = app_.add_subcommand("inspect", "everything that a card tells about itself");
  inspect_->add_option("card", inspect.card, "its name, or the path of its folder")->required();
  inspect_->add_flag("--json", inspect.json, "one JSON object");

  logs_ = app_.add_subcommand("logs", "what happened to a card: owners, resets, restarts");
  logs_->add_option("card", logs.card, "its name, or the path of its folder")->required();
  logs_->add_flag("-f,--follow", logs.follow, "and what happens, until the card ends");
  logs_->add_flag("--console", logs.console, "what the firmware wrote instead");
  logs_->add_option("-n,--lines", logs.lines, "the last lines only (0: all)");
  logs_->footer("spyre logs card0 -f\nspyre logs card0 --console -n 20");

  smi_ = app_.add_subcommand("smi", "the running cards: functions, owners, memory, utilisation");
  smi_->add_option("--loop", smi.loop_seconds, "again every so many seconds, until interrupted")
      ->check(CLI::Range(0.1, 3600.0));
  auto* json = smi_->add_flag("--json", smi.json, "one JSON object each time");
  smi_->add_flag("--csv", smi.csv, "a line per function, with a head line")->excludes(json);
  smi_->footer(
      "\"cores\" is the part of all cores' time that kernels of the function had since the look before (100 ms at the "
      "first).\n"
      "spyre smi --loop 1\n"
      "spyre smi --csv --loop 0.5 > load.csv");

  stats_ = app_.add_subcommand("stats", "everything that a card has counted, per function");
  stats_->add_option("card", stats.card, "its name, or the path of its folder")->required();
  stats_->add_option("--function", stats.function, "PF, VF1, VF2, ...: this one only");
  stats_->add_flag("--json", stats.json, "one JSON object");
}

void CommandLine::add_debug() {
  debug_ = app_.add_subcommand("debug", "a debugger on a card's firmware, or on what a broken one left");
  debug_->footer(
      "spyre debug card0                        attach gdb-multiarch; the card stands still meanwhile\n"
      "spyre debug --collect card0 -o FILE      a core file of the boot that broke, else of what it does now\n"
      "spyre debug --core FILE                  the record, and gdb-multiarch on the core\n"
      "In the debugger, thread N is hart N - 1.");
  auto* which = debug_->add_option_group("which");
  which->add_option("card", debug.card, "its name, or the path of its folder");
  auto* core = which->add_option("--core", debug.core, "a core file (or a record alone, with --json)");
  auto* collect = which->add_option("--collect", debug.collect, "the card to collect a core file from");
  which->require_option(1);
  auto* output = debug_->add_option("-o,--output", debug.output, "the core file to write")->needs(collect);
  collect->needs(output);
  debug_->add_flag("--now", debug.now, "what the harts do now, even when an earlier boot left a record")
      ->needs(collect);
  debug_->add_option("--firmware", debug.firmware, "its ELF file (default: as the card's, SPYRE_FIRMWARE)");
  auto* batch = debug_->add_flag("--batch", debug.batch, "print threads and back traces and end");
  debug_->add_flag("--json", debug.json, "the record as one JSON object, no debugger")->needs(core)->excludes(batch);
}

void CommandLine::add_exec() {
  env_ = app_.add_subcommand("env", "the variables with which torch-spyre finds this installation, for a shell");
  env_->add_flag("--build", env.build, "also what a build of torch-spyre reads");
  env_->add_flag("--json", env.json, R"({"variables": {"PATH", "LD_LIBRARY_PATH", ...}})");
  env_->footer(
      "Which device it takes: FLEX_DEVICE and LOCAL_RANK (spyre devices); not set and no card runs: one of its own.\n"
      "eval \"$(spyre env)\"            for a process that uses torch-spyre\n"
      "eval \"$(spyre env --build)\"    for pip install or setup.py in a checkout of it");
  exec_ = app_.add_subcommand("exec",
                              "boot cards, run a command against them, stop them: spyre exec [OPTIONS] -- COMMAND ...");
  exec_->footer(
      "The command gets SPYRE_RUNTIME_DIR, AIU_WORLD_SIZE and FLEX_DEVICE (yours, else VF with --vfs, else PF).\n"
      "Its exit code is passed on (128 + n: ended by signal n). 125: spyre itself failed; 126: the command could not "
      "be\n"
      "executed; 127: there is no such command.\n"
      "spyre exec -- ./my_program\n"
      "spyre exec --vfs 4 -- torchrun --nproc-per-node 4 train.py");
  exec_->add_option("--cards", exec.cards, "how many")->check(CLI::Range(1u, svp::kMaxCards))->capture_default_str();
  exec_->add_flag("--verbose", exec.verbose, "a line on stderr for each change of an owner");
  add_card_options(*exec_, exec.shape);
}

void CommandLine::add_trace() {
  trace_ = app_.add_subcommand("trace",
                               "run a command and draw what host and card did: spyre trace [OPTIONS] -- COMMAND ...");
  trace_->footer(
      "The page is for ui.perfetto.dev: a track per thread, stream, core and DMA engine (docs/trace.md). The "
      "command's\n"
      "exit code is passed on; 125, 126 and 127 as with exec.\n"
      "spyre trace -- spyre run matmul --m 2048\n"
      "spyre exec --vfs 2 -- spyre trace -o two.json -- ./my_program");
  trace_->add_option("-o,--output", trace.output, "the page")->capture_default_str();
  trace.records = svp::trace::kDefaultRecords;
  trace_->add_option("--records", trace.records, "entries that each process has room for (128 bytes each)")
      ->check(CLI::Range(std::uint64_t{1}, svp::trace::kMostRecords))
      ->capture_default_str();
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
  fault_campaign_ = fault->add_subcommand("campaign", "fifty scenarios, each with five proofs, on cards of their own");
  soak_ =
      app_.add_subcommand("soak", "mixed load on all functions of a card of its own, faults and resets all the while");

  replay_ =
      app_.add_subcommand("replay", "run what a failure bundle holds again, with its script and seed, and compare");
  replay_->footer("Exit code 0: everything comparable is the same; 1: something differs; 2: the file is no bundle.");
  replay_->add_option("bundle", replay.bundle, "file that a failed run left in its --bundles folder")->required();
}

std::vector<std::string> CommandLine::without_help_word(std::vector<std::string> words) {
  if (words.empty() || words.front() != "help") return words;
  words.erase(words.begin());
  words.emplace_back("--help");
  return words;
}

void CommandLine::parse(int argc, const char* const* argv) {
  words = without_help_word(std::vector<std::string>(argv + 1, argv + argc));
  std::vector<std::string> ours = words;
  const auto word = [&](std::size_t index) { return index < ours.size() ? std::string_view(ours[index]) : ""; };
  if (word(0) == "exec" || word(0) == "trace" || word(0) == "__complete") {
    // What stands behind -- is somebody else's command line, down to its own -- and options.
    const auto end = std::ranges::find(ours, "--");
    if (end != ours.end()) (word(0) == "trace" ? trace.command : exec.command).assign(end + 1, ours.end());
    ours.erase(end, ours.end());
  } else if (word(0) == "soak" || (word(0) == "fault" && word(1) == "campaign")) {
    validation = ours;
    ours.resize(word(0) == "soak" ? 1 : 2);
  }
  std::ranges::reverse(ours);  // as CLI11 wants them
  app_.parse(std::move(ours));
  if (exec_->parsed() && exec.command.empty()) {
    throw CLI::ValidationError("exec", "the command stands behind --, like: spyre exec -- spyre devices");
  }
  if (trace_->parsed() && trace.command.empty()) {
    throw CLI::ValidationError("trace", "the command stands behind --, like: spyre trace -- spyre run matmul");
  }
  matmul.seed_given = run_matmul_->count("--seed") != 0;
  matmul.own_card = run_matmul_->count("--cores") + run_matmul_->count("--vf") != 0;
  for (const CLI::App* command : run_ops_) {
    if (!command->parsed()) continue;
    run_op.op = command->get_name();
    run_op.seed_given = command->count("--seed") != 0;
    run_op.own_card = command->count("--cores") + command->count("--vf") != 0;
  }
  fault_run.seed_given = fault_run_->count("--seed") != 0;
  exec.vfs_given = exec_->count("--vfs") != 0;
  boot.shape = serve.shape;
}

int CommandLine::exit_code_of(const CLI::ParseError& error, bool json) const {
  const std::string unknown = unknown_word(app_, words);
  // --help and --version. Help for what there is not is no help.
  if (error.get_exit_code() == 0 && (unknown.empty() || words.back() != "--help")) return app_.exit(error);
  const CLI::App& command = command_named(app_, words);
  const std::string next = command.get_name().empty() ? "spyre --help" : "spyre help" + path_behind_program(command);
  print_error(svp::Error(svp::refused_by_driver("command line", unknown.empty() ? error.what() : unknown, next)), json);
  return kRefused;
}

int CommandLine::execute() {
  set_color_mode(color);
  if (run_matmul_->parsed()) return cli::run_matmul(matmul);
  if (run_transformer_->parsed()) return cli::run_transformer(transformer);
  if (!run_op.op.empty()) return cli::run_op(run_op);
  if (ops_->parsed()) return cli::ops(ops);
  if (boot_->parsed()) return execute_boot();
  if (devices_->parsed()) return cli::devices(devices);
  if (inspect_->parsed()) return cli::inspect(inspect);
  if (logs_->parsed()) return cli::logs(logs);
  if (smi_->parsed()) return cli::smi(smi);
  if (stats_->parsed()) return cli::stats(stats);
  if (stop_->parsed()) return cli::stop(stop);
  if (reset_->parsed()) return cli::reset(reset);
  if (debug_->parsed()) return cli::debug(debug);
  if (env_->parsed()) return cli::env(env);
  if (exec_->parsed()) return cli::exec(exec);
  if (trace_->parsed()) return cli::trace(trace);
  if (fault_list_->parsed()) return cli::fault_list(fault_list);
  if (fault_run_->parsed()) return cli::fault_run(fault_run);
  if (fault_campaign_->parsed() || soak_->parsed()) become_validation(validation);
  if (replay_->parsed()) return cli::replay(replay);
  if (layout_->parsed()) return cli::layout(layout);
  if (convert_->parsed()) return cli::convert(convert);
  if (spyrecode_make_->parsed()) return cli::spyrecode_make(spyrecode_make);
  if (spyrecode_show_->parsed()) return cli::spyrecode_show(spyrecode_show);
  if (sdsc_explain_->parsed()) return cli::sdsc_explain(sdsc_explain);
  if (sdsc_check_->parsed()) return cli::sdsc_check(sdsc_check);
  if (sdsc_run_->parsed()) return cli::sdsc_run(sdsc_run);
  if (complete_->parsed()) return execute_complete();
  if (manual_->parsed()) return execute_manual();
  return cli::version(version_json);
}

int CommandLine::execute_boot() {
  if (boot_->count("--name") == 0) return cli::boot(boot);
  if (!detach) return cli::serve(serve);
  std::vector<std::string> command = words;
  std::erase(command, "--detach");
  command.insert(command.begin(), "/proc/self/exe");
  return serve_detached(serve, command);
}

int CommandLine::execute_complete() const {
  std::vector<std::string> cards;
  if (const auto running = svp::running_cards()) {
    for (const auto& card : *running) cards.push_back(card.name);
  }
  for (const std::string& candidate : complete(app_, exec.command, cards)) fmt::print("{}\n", candidate);
  return kOk;
}

// The validation program writes the pages of its own commands.
int CommandLine::execute_manual() const {
  const std::string others[] = {"spyre-soak", "spyre-fault-campaign"};
  write_manual(app_, manual_folder_, others);
  return kOk;
}

}  // namespace cli
