// SPDX-License-Identifier: Apache-2.0
// P1: what FlexStream::Launch costs its caller, in CPU time of the calling thread, on a booted card. The launches are
// timed in groups that fit the stream's credits, so that the figure is that of handing over, not of waiting in a list;
// a second series launches far beyond the credits.
//
//   launch_bench [--benchmark_filter=…]
#include <benchmark/benchmark.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <memory>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/program/device_program.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using svp::Argument;
using svp::Job;

double thread_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

class Card {
 public:
  Card() : context_(svp::Context::open()) {}

  svp::Context& context() { return *context_; }
  svp::FlexStream& stream() { return context_->runtime().default_stream(); }
  Job job(const char* kernel, const svp::DimensionExtents& extents) {
    return load(Job(svp::CompiledKernel(context_->kernel(kernel), extents)));
  }
  Job load(const Job& job) {
    svp::ExecutionPlan plan({job});
    context_->load(plan);
    return plan.jobs()[0];
  }
  std::array<Argument, 3> operands(std::int64_t rows) {
    std::array<Argument, 3> arguments;
    for (Argument& argument : arguments) {
      argument = {.allocation = context_->runtime().allocator().allocate(static_cast<std::uint64_t>(rows) * 128),
                  .shape = {rows, 64}};
    }
    return arguments;
  }

 private:
  std::unique_ptr<svp::Context> context_;
};

Card& card() {
  static Card instance;
  return instance;
}

// `group` launches are timed, then the stream runs empty.
void time_launches(benchmark::State& state, const Job& job, std::span<const Argument> arguments, int group) {
  svp::FlexStream& stream = card().stream();
  for ([[maybe_unused]] auto _ : state) {
    const double before = thread_seconds();
    for (int i = 0; i < group; ++i) stream.Launch(job, arguments);
    state.SetIterationTime(thread_seconds() - before);
    stream.Synchronize();
  }
  state.SetItemsProcessed(state.iterations() * group);
  state.counters["per_launch"] = benchmark::Counter(static_cast<double>(state.iterations()) * group,
                                                    benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

// Host operation with 8 symbols, correction DMA, compute with 3 operands.
void compound_job(benchmark::State& state) {
  const auto arguments = card().operands(1);
  time_launches(state, card().job("add", {{"M", 1}, {"N", 64}}), arguments, static_cast<int>(state.range(0)));
}
// One control block, no operand.
void compute_only(benchmark::State& state) {
  time_launches(state, card().job("empty", {}), {}, static_cast<int>(state.range(0)));
}
void pinned_transfer(benchmark::State& state) {
  const auto memory = card().context().runtime().allocator().allocate(128);
  const svp::PinnedBuffer buffer = card().context().host_memory().allocate(128);
  time_launches(state, Job::to_device(buffer.data(), memory, 128), {}, static_cast<int>(state.range(0)));
}
// Launch of 16 tiles: 32 control blocks.
void sixteen_tiles(benchmark::State& state) {
  const auto arguments = card().operands(16);
  time_launches(state, card().job("add", {{"M", 1}, {"N", 64}}), arguments, static_cast<int>(state.range(0)));
}

// A device program without operations, with so many arguments of a stick and with or without a workspace.
void program_job(benchmark::State& state) {
  const auto count = static_cast<std::size_t>(state.range(1));
  svp::test::ProgramBuilder builder;
  for (std::size_t i = 0; i < count; ++i) builder.add_argument(wire::kStickBytes, wire::program::Access::Read);
  builder.pool_bytes = state.range(2) != 0 ? wire::kStickBytes : 0;
  const auto program = std::make_shared<const svp::DeviceProgram>("empty program", builder.build());
  const Argument argument = Argument::raw(card().context().runtime().allocator().allocate(wire::kStickBytes));
  const std::vector<Argument> arguments(count, argument);
  time_launches(state, card().load(Job(program)), arguments, static_cast<int>(state.range(0)));
}

// Fixed counts: by default the library would run until the timed part alone fills half a second, with minutes of
// untimed waiting.
BENCHMARK(compound_job)->Arg(1)->Arg(48)->Iterations(500)->UseManualTime();
BENCHMARK(compound_job)->Arg(2000)->Iterations(10)->UseManualTime();
BENCHMARK(compute_only)->Arg(48)->Iterations(500)->UseManualTime();
BENCHMARK(pinned_transfer)->Arg(48)->Iterations(500)->UseManualTime();
BENCHMARK(sixteen_tiles)->Arg(3)->Iterations(500)->UseManualTime();
BENCHMARK(program_job)->Args({48, 3, 0})->Args({48, 3, 1})->Args({48, 30, 1})->Iterations(500)->UseManualTime();

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  try {
    benchmark::RunSpecifiedBenchmarks();
  } catch (const svp::Error& error) {
    std::fprintf(stderr, "launch_bench: %s\n", error.what());
    return 1;
  }
  return 0;
}
