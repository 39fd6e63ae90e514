// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <csignal>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <utility>

#include "host_driver/cli/child_process.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/debug/core_file.hpp"
#include "host_driver/debug/fatal_report.hpp"
#include "host_driver/discovery/attach.hpp"
#include "qemu/card.hpp"

namespace cli {

namespace {

constexpr const char* kDebugger = "gdb-multiarch";

svp::ElfImage firmware_of(const DebugOptions& options) {
  std::filesystem::path path = options.firmware;
  if (path.empty()) path = svp::value_or_throw(svp::find_firmware());
  return svp::value_or_throw(svp::ElfImage::open(path));
}

// Runs to its end, on our terminal; an interrupt is the debugger's business.
int run_debugger(const svp::ElfImage& image, const std::string& target, const DebugOptions& options, bool live) {
  std::vector<std::string> words{kDebugger, "-q", image.path().string(), "-ex", target};
  if (options.batch) {
    words.insert(words.begin() + 1, {"-nx", "-batch"});
    for (const char* command : {"info threads", "thread apply all bt"}) words.insert(words.end(), {"-ex", command});
    if (live) words.insert(words.end(), {"-ex", "detach"});
  }
  const SignalDescriptor signals{SIGINT, SIGTERM, SIGHUP};
  return svp::value_or_throw(ChildProcess::start(words, {}, signals.mask_before())).await_end(signals);
}

int attach(const DebugOptions& options) {
  const svp::ElfImage image = firmware_of(options);
  const std::filesystem::path socket = svp::value_or_throw(svp::offer_debugger(options.card));
  fmt::print("{}: stands still while the debugger holds it; thread N is hart N - 1\n", options.card);
  flush_output();
  int code = kNotFound;
  try {
    code = run_debugger(image, "target remote " + socket.string(), options, true);
  } catch (...) {
    (void)svp::withdraw_debugger(options.card);
    throw;
  }
  svp::value_or_throw(svp::withdraw_debugger(options.card));
  return code;
}

int open_core(const DebugOptions& options) {
  const svp::ElfImage image = firmware_of(options);
  const auto record = svp::read_record(options.core);
  if (options.json) {
    print_json(svp::to_json(svp::value_or_throw(record), &image));
    return 0;
  }
  // A core of a card that hangs has none: it is worth opening all the same.
  fmt::print("{}", record ? svp::to_text(*record, &image) : svp::describe(record.error()) + "\n");
  flush_output();
  return run_debugger(image, "core-file " + options.core, options, false);
}

int collect(const DebugOptions& options) {
  svp::value_or_throw(svp::collect_core(options.collect, options.output, options.now));
  const auto record = svp::read_record(options.output);
  const std::string what = record && !options.now
                               ? fmt::format("of the boot that broke, {}: {}", wire::name(record->kind), record->reason)
                               : "of what its harts do now";
  fmt::print("{}: core file {} {}\nnext: spyre debug --core {}\n", options.collect, options.output, what,
             options.output);
  return 0;
}

}  // namespace

int debug(const DebugOptions& options) {
  if (!options.card.empty()) return attach(options);
  if (!options.core.empty()) return open_core(options);
  return collect(options);
}

}  // namespace cli
