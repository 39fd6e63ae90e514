// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <mutex>
#include <nlohmann/json.hpp>
#include <random>
#include <thread>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/matmul_problem.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/signals.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/cli/timeouts.hpp"
#include "host_driver/frontend/context.hpp"
#include "qemu/memory_budget.hpp"

namespace cli {

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Keeps the records of a launch's blocks; the stream's lock orders them.
class Recorder final : public svp::LaunchObserver {
 public:
  void on_block(const svp::BlockRecord& record) noexcept override { records_.push_back(record); }
  void on_launch_ended(std::uint64_t, wire::Outcome outcome) noexcept override { outcome_ = outcome; }
  void reserve(std::size_t blocks) { records_.reserve(blocks); }
  const std::vector<svp::BlockRecord>& records() const { return records_; }
  wire::Outcome outcome() const { return outcome_; }

 private:
  std::vector<svp::BlockRecord> records_;
  wire::Outcome outcome_ = wire::Outcome::Indeterminate;
};

struct Run {
  bool embedded = true;
  std::string boot_console;  // embedded only
  double boot_ms = 0;        // until the device was ready for work
  unsigned cores = 0;
  std::string function;
  std::string device;
  std::int64_t tile = 0;
  std::uint64_t seed = 0;
  double to_device_s = 0;
  double launch_s = 0;  // from Launch to the end of the last tile
  double to_host_s = 0;
  std::vector<svp::BlockRecord> blocks;
  bool interrupted = false;
  MatmulCheck check;
  double check_s = 0;
};

std::int64_t tiles_of(const RunMatmulOptions& options, const Run& run) { return (options.m - 1) / run.tile + 1; }

std::span<const std::byte> bytes_of(const std::vector<std::uint16_t>& values) {
  return std::as_bytes(std::span(values));
}

std::unique_ptr<svp::Context> open_device(const RunMatmulOptions& options, Run& run) {
  const auto start = Clock::now();
  svp::ContextOptions context_options;
  if (options.own_card) {
    svp::CardOptions& card = context_options.card.emplace();
    card.cores = options.cores;
    card.virtual_functions = options.function;
    card.sole_function = options.function;
    context_options.function = options.function;
  }
  auto context = svp::Context::open(std::move(context_options));
  run.boot_ms = seconds_since(start) * 1e3;
  run.embedded = context->embedded();
  if (run.embedded) run.boot_console = context->card().machine().console();
  const wire::DeviceConfig& config = context->device().config();
  run.cores = config.cores;
  run.function =
      config.kind == wire::FunctionKind::Physical ? std::string("PF") : fmt::format("VF {}", config.function_index);
  run.device = context->device_name();
  return context;
}

// False: an interrupt came first, and what was still to run was stopped.
bool ended_or_interrupted(svp::SpyreStream& stream) {
  for (;;) {
    try {
      // At most kInterruptLook; each launch ends by its watchdog
      stream.flex_stream().Synchronize(svp::FlexStream::Clock::now() + kInterruptLook);
      return true;
    } catch (const svp::TimeoutError&) {
      if (!InterruptNote::came()) continue;
      stream.Reset();
      return false;
    }
  }
}

void compute(svp::Context& context, const RunMatmulOptions& options, const MatmulProblem& problem,
             std::vector<float>& result, Run& run) {
  using svp::DataType;
  using svp::HostShape;
  auto stream = context.default_stream();
  auto start = Clock::now();
  const auto a =
      context.to_device({HostShape::contiguous(DataType::Float16, {options.m, options.k}), bytes_of(problem.a)});
  const auto b =
      context.to_device({HostShape::contiguous(DataType::Float16, {options.k, options.n}), bytes_of(problem.b)});
  const auto c = context.empty(DataType::Float16, {options.m, options.n});
  svp::ExecutionPlan plan;
  plan.add(
      svp::Job(svp::CompiledKernel(context.kernel("matmul"), {{"M", run.tile}, {"K", options.k}, {"N", options.n}})));
  context.load(plan);
  stream.Synchronize();
  run.to_device_s = seconds_since(start);

  Recorder recorder;
  recorder.reserve(static_cast<std::size_t>(2 * tiles_of(options, run)));
  const svp::SpyreTensor tensors[] = {a, b, c};
  const std::span<const svp::SpyreTensor> arguments(tensors);
  svp::LaunchOptions launch;
  launch.observer = &recorder;
  launch.allow_tiled_launch = svp::parse_allow_tiled_launch(std::getenv(svp::kAllowTiledLaunchVariable));
  start = Clock::now();
  svp::LaunchKernel(stream, plan, std::span(&arguments, 1), launch);
  run.interrupted = !ended_or_interrupted(stream);
  run.launch_s = seconds_since(start);
  run.blocks = recorder.records();
  if (run.interrupted) return;

  start = Clock::now();
  context.to_host(
      c, {HostShape::contiguous(DataType::Float32, {options.m, options.n}), std::as_writable_bytes(std::span(result))});
  run.to_host_s = seconds_since(start);
}

// ---- what is said about it ------------------------------------------------------------------------------------------

double ticks_to_us(std::uint64_t ticks) {
  return static_cast<double>(ticks) / static_cast<double>(wire::kTicksPerMicrosecond);
}

std::vector<Bar> make_bars(const RunMatmulOptions& options, const Run& run) {
  std::vector<Bar> bars;
  const std::uint64_t origin = run.blocks.empty() ? 0 : run.blocks.front().start_time;
  for (const svp::BlockRecord& block : run.blocks) {
    if (block.outcome == wire::Outcome::Aborted) continue;  // an interrupt: it never began
    const bool kernel = block.opcode == wire::Opcode::Compute;
    Bar bar;
    bar.name = fmt::format("{} {}", kernel ? "Compute" : "DMA", block.tile);
    bar.start_us = ticks_to_us(block.start_time - origin);
    bar.end_us = ticks_to_us(block.end_time - origin);
    bar.bytes = block.bytes;
    const std::int64_t rows = std::min(run.tile, options.m - std::int64_t{block.tile} * run.tile);
    bar.operations = kernel ? static_cast<double>(rows) * static_cast<double>(options.n * options.k) : 0;
    bar.wide = kernel;
    bar.outcome = block.outcome;
    bars.push_back(std::move(bar));
  }
  return bars;
}

std::size_t blocks_ended_well(const Run& run) {
  return static_cast<std::size_t>(std::ranges::count(run.blocks, wire::Outcome::Ok, &svp::BlockRecord::outcome));
}

bool passed(const Run& run) {
  return run.check.mismatches == 0 && run.check.beyond_bound == 0 && run.check.elements != 0;
}

void print_report(const RunMatmulOptions& options, const Run& run) {
  const Style style = stdout_style();
  const char* plural = run.cores == 1 ? "" : "s";
  if (run.embedded) {
    fmt::print("\nThe card boots ({} core{}, real RISC-V firmware under QEMU)\n", run.cores, plural);
    fmt::print("{}", draw_boot(parse_post_lines(run.boot_console), run.boot_ms, style));
  } else {
    fmt::print("\nAttached to {} ({} core{}) in {}\n", run.device, run.cores, plural,
               format_time_us(run.boot_ms * 1e3));
  }
  fmt::print("\nC[{0},{2}] = A[{0},{1}] x B[{1},{2}], fp16 on the host, DL16 on the card, on {3}\n", options.m,
             options.k, options.n, run.function);
  fmt::print("  kernel compiled for [{},{}]: {} tile{}, {} control blocks on one stream, seed {}\n", run.tile,
             options.k, tiles_of(options, run), tiles_of(options, run) == 1 ? "" : "s", run.blocks.size(), run.seed);
  fmt::print("  to the card in {}, launch {}, back in {}\n\n", format_time_us(run.to_device_s * 1e6),
             format_time_us(run.launch_s * 1e6), format_time_us(run.to_host_s * 1e6));
  fmt::print("{}", draw_timeline(make_bars(options, run), 48, style));
  if (run.interrupted) {
    fmt::print("\n  INTERRUPTED: {} of {} blocks had ended well; nothing was compared\n\n", blocks_ended_well(run),
               run.blocks.size());
    return;
  }
  fmt::print("\n  golden model  {} of {} elements bit-equal\n", run.check.elements - run.check.mismatches,
             run.check.elements);
  fmt::print("  double        {} beyond the error bound; largest |error| {:.3g}, relative to sum|a*b| {:.3g}\n",
             run.check.beyond_bound, run.check.largest_error, run.check.largest_relative_error);
  fmt::print("  {} (checked in {})\n\n", passed(run) ? "PASSED" : "FAILED", format_time_us(run.check_s * 1e6));
}

nlohmann::ordered_json make_json(const RunMatmulOptions& options, const Run& run) {
  nlohmann::ordered_json tiles = nlohmann::ordered_json::array();
  nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
  for (const svp::BlockRecord& block : run.blocks) {
    const double seconds = ticks_to_us(block.end_time - block.start_time) / 1e6;
    if (block.opcode == wire::Opcode::Compute) tiles.push_back({{"tile", block.tile}, {"seconds", seconds}});
    blocks.push_back({{"opcode", wire::name(block.opcode)},
                      {"tile", block.tile},
                      {"start_ticks", block.start_time},
                      {"end_ticks", block.end_time},
                      {"bytes", block.bytes},
                      {"outcome", wire::name(block.outcome)}});
  }
  return {{"kernel", "matmul"},
          {"m", options.m},
          {"n", options.n},
          {"k", options.k},
          {"tile", run.tile},
          {"seed", run.seed},
          {"function", run.function},
          {"device", run.device},
          {"cores", run.cores},
          {"boot_seconds", run.boot_ms / 1e3},
          {"to_device_seconds", run.to_device_s},
          {"seconds", run.launch_s},
          {"to_host_seconds", run.to_host_s},
          {"elements", run.check.elements},
          {"mismatches", run.check.mismatches},
          {"beyond_error_bound", run.check.beyond_bound},
          {"largest_error", run.check.largest_error},
          {"tiles", std::move(tiles)},
          {"blocks", std::move(blocks)},
          {"interrupted", run.interrupted},
          {"passed", passed(run)}};
}

}  // namespace

int run_matmul(const RunMatmulOptions& options) {
  if (const auto available = svp::available_memory()) {
    require_memory(static_cast<std::uint64_t>(options.m), static_cast<std::uint64_t>(options.n),
                   static_cast<std::uint64_t>(options.k), *available);
  }
  Run run;
  run.tile = options.tile != 0 ? options.tile : std::min<std::int64_t>(options.m, 1024);
  run.seed = options.seed_given ? options.seed : std::random_device{}();
  const auto problem = make_problem(static_cast<std::size_t>(options.m), static_cast<std::size_t>(options.n),
                                    static_cast<std::size_t>(options.k), run.seed);
  std::vector<float> result(problem.m * problem.n);
  const InterruptNote note;
  {
    Progress progress("booting the card");
    const auto context = open_device(options, run);
    progress.set("computing");
    compute(*context, options, problem, result, run);
  }
  if (!run.interrupted) {
    const Progress progress("comparing with the golden model");
    const auto start = Clock::now();
    run.check = check_result(problem, result, std::min(8u, std::max(1u, std::thread::hardware_concurrency())));
    run.check_s = seconds_since(start);
  }
  if (options.json) {
    print_json(make_json(options, run));
  } else {
    print_report(options, run);
  }
  if (run.interrupted) return kInterrupted;
  return passed(run) ? kOk : kNotAsWanted;
}

}  // namespace cli
