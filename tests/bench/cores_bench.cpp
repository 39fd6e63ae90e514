// SPDX-License-Identifier: Apache-2.0
// From how much work on another core pays, and what further cores bring: operations of the engine and the matrix kernel
// on one card, each time on some of its cores, in turn. Printed are medians of microseconds.
//
//   cores_bench alone      a launch of one operation of so many sticks, on one core and on two
//   cores_bench inside     one of many operations in a launch: beside the work it costs a barrier
//   cores_bench scaling    one large product and one large addition on 1, 2, 4 and 8 cores
//   cores_bench products KERNEL KERNEL
//                          two images of the matrix kernel in turn, on one core and on two. Another image is a copy of
//                          matmul.img and matmul.json in the kernels' folder under a name of its own
//
// "inside" measures what the engine does: below its bound (kSharedCost) core 0 executes the operation on both sides.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <random>
#include <string_view>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/program/device_program.hpp"
#include "shared/device_program_opcodes.hpp"
#include "tests/support/program_builder.hpp"

namespace {

namespace program = wire::program;
using Clock = std::chrono::steady_clock;
using program::Access;
using program::Format;
using program::Opcode;

constexpr unsigned kRounds = 31;

// The cost classes of element-wise operations: a move, usual arithmetic, element by element.
struct Kind {
  const char* name;
  Opcode opcode;
  unsigned inputs;
  Format from, to;
};
constexpr Kind kKinds[] = {{"copy", Opcode::Copy, 1, Format::Dl16, Format::Dl16},
                           {"add", Opcode::Add, 2, Format::Dl16, Format::Dl16},
                           {"int32 to fp32", Opcode::Copy, 1, Format::Int32, Format::Fp32}};

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

class Card {
 public:
  explicit Card(unsigned cores) {
    svp::ContextOptions options;
    options.card.emplace().cores = cores;
    context_ = svp::Context::open(std::move(options));
  }

  struct Work {
    svp::ExecutionPlan plan;
    std::vector<svp::Argument> arguments;
    unsigned times;  // operations in one launch
  };

  // The operation on so many sticks, `times` in a loop.
  Work operation(const Kind& kind, std::uint32_t sticks, unsigned times) {
    svp::test::ProgramBuilder builder;
    program::Operation operation = svp::test::operation_of(kind.opcode, {sticks, program::lanes_of(kind.to)});
    const std::span<const std::uint32_t> extent(operation.extent, operation.rank);
    constexpr unsigned kOrder[] = {0, 1};
    Work work{.plan = {}, .arguments = {}, .times = times};
    for (unsigned i = 0; i <= kind.inputs; ++i) {
      const bool output = i == kind.inputs;
      program::Operand& operand = operation.operand[operation.operand_count++];
      operand = svp::test::dense_operand(output ? kind.to : kind.from, extent, kOrder, 1);
      const std::uint64_t bytes = svp::test::bytes_of(operand, extent);
      operand.argument = builder.add_argument(bytes, output ? Access::Write : Access::Read);
      work.arguments.push_back(svp::Argument::raw(memory(bytes)));
    }
    if (times > 1) builder.begin_loop(times);
    builder.add(operation);
    if (times > 1) builder.end_loop();
    return loaded(svp::Job(std::make_shared<const svp::DeviceProgram>("cores", builder.build())), std::move(work));
  }

  Work product(std::int64_t extent, const std::string& kernel = "matmul") {
    Work work{.plan = {}, .arguments = {}, .times = 1};
    for (unsigned i = 0; i < 3; ++i) {
      work.arguments.push_back(
          {.allocation = memory(static_cast<std::uint64_t>(extent * extent) * 2), .shape = {extent, extent}});
    }
    const svp::DimensionExtents extents{{"M", extent}, {"N", extent}, {"K", extent}};
    return loaded(svp::Job(svp::CompiledKernel(context_->kernel(kernel), extents)), std::move(work));
  }

  // Microseconds for one of the operations, from launch to completion.
  double time(const Work& work, std::uint64_t core_mask) {
    svp::FlexStream& stream = context_->runtime().default_stream();
    const auto start = Clock::now();
    stream.Launch(work.plan.jobs()[0], work.arguments, {.core_mask = core_mask});
    stream.Synchronize();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count() / work.times;
  }

 private:
  Work loaded(const svp::Job& job, Work work) {
    work.plan.add(job);
    context_->load(work.plan);
    return work;
  }

  // Numbers of moderate size in any format.
  svp::AllocationIndex memory(std::uint64_t bytes) {
    const svp::AllocationIndex memory = context_->runtime().allocator().allocate(bytes);
    std::vector<std::uint16_t> words(bytes / 2);
    for (std::uint16_t& word : words) word = static_cast<std::uint16_t>((random_() & 0x83FF) | 0x3C00);
    svp::FlexStream& stream = context_->runtime().default_stream();
    stream.Launch(svp::Job::to_device(words.data(), memory, bytes), {});
    stream.Synchronize();
    return memory;
  }

  std::mt19937_64 random_{1};
  std::unique_ptr<svp::Context> context_;
};

struct Measured {
  const Card::Work& work;
  std::uint64_t core_mask;
};

// One column for each, measured in turn.
void measure(Card& card, const std::string& name, std::initializer_list<Measured> columns) {
  constexpr unsigned kWarmUp = 2;
  std::vector<std::vector<double>> times(columns.size());
  for (unsigned round = 0; round < kRounds + kWarmUp; ++round) {
    std::size_t i = 0;
    for (const Measured& measured : columns) {
      const double microseconds = card.time(measured.work, measured.core_mask);
      if (round >= kWarmUp) times[i].push_back(microseconds);
      ++i;
    }
  }
  fmt::print("| {:32} |", name);
  for (const auto& column : times) {
    fmt::print(" {:9.1f} ({:.1f}) | {:.2f} |", median(column), std::ranges::min(column),
               median(column) / median(times[0]));
  }
  fmt::print("\n");
  std::fflush(stdout);
}

void measure_sizes(unsigned times) {
  Card card(2);
  fmt::print("| operation, sticks | 1 core, us (best) | | 2 cores | of 1 |\n");
  for (const Kind& kind : kKinds) {
    for (std::uint32_t sticks = 32; sticks <= 8192; sticks *= 2) {
      const Card::Work work = card.operation(kind, sticks, times);
      measure(card, fmt::format("{}, {}", kind.name, sticks), {{work, 1}, {work, 3}});
    }
  }
}

void measure_scaling() {
  Card card(8);
  fmt::print("| work | 1 core, us (best) | | 2 | | 4 | | 8 | |\n");
  const Card::Work sum = card.operation(kKinds[1], 16384, 1);
  measure(card, "add of 16384 sticks", {{sum, 1}, {sum, 3}, {sum, 0xF}, {sum, 0xFF}});
  const Card::Work product = card.product(512);
  measure(card, "product 512x512x512", {{product, 1}, {product, 3}, {product, 0xF}, {product, 0xFF}});
}

void measure_products(const std::string& first, const std::string& second) {
  Card card(2);
  fmt::print("| product | 1 core, {0}, us (best) | | 1, {1} | | 2, {0} | | 2, {1} | |\n", first, second);
  for (const std::int64_t extent : {512, 1024}) {
    const Card::Work one = card.product(extent, first);
    const Card::Work other = card.product(extent, second);
    measure(card, fmt::format("{0}x{0}x{0}", extent), {{one, 1}, {other, 1}, {one, 3}, {other, 3}});
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc >= 2 ? argv[1] : "";
  try {
    if (what == "alone") {
      measure_sizes(1);
    } else if (what == "inside") {
      measure_sizes(50);
    } else if (what == "scaling") {
      measure_scaling();
    } else if (what == "products" && argc == 4) {
      measure_products(argv[2], argv[3]);
    } else {
      fmt::print(stderr, "cores_bench: alone, inside, scaling, or products and two kernels\n");
      return 2;
    }
  } catch (const svp::Error& error) {
    fmt::print(stderr, "cores_bench: {}\n", error.what());
    return 1;
  }
  return 0;
}
