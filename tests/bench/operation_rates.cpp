// SPDX-License-Identifier: Apache-2.0
// What small operations take, those of a decoder's token: microseconds of one launch, many in a row, and each waited
// for alone; two that alternate. The best of several rounds.
//
//   operation_rates [CORES]     of a card of its own, 1 when not said; SPYRE_ARRAY=off for one without compute array;
//                               SPYRE_BENCH_ALL_CORRECTIONS=1 sends each launch's correction tensor
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/ops/operations.hpp"

namespace {

using svp::ops::Op;
using Clock = std::chrono::steady_clock;

constexpr unsigned kRounds = 20;
constexpr unsigned kInRow = 200;
constexpr unsigned kAlone = 50;

class Rates {
 public:
  explicit Rates(unsigned cores) : context_(open(cores)), operations_(*context_) {}

  void print(const char* what, Op op, const std::vector<std::vector<std::int64_t>>& shapes,
             const std::vector<std::int64_t>& integers = {}) {
    const auto launch = launch_of(op, shapes, integers);
    const double in_row = best(kInRow, [&](unsigned) { launch(); });
    const double alone = best(kAlone, [&](unsigned) {
      launch();
      context_->default_stream().Synchronize();
    });
    fmt::print("{:32} {:8.1f} us in a row {:8.1f} us alone\n", what, in_row, alone);
  }
  void print_alternating() {
    const auto add = launch_of(Op::Add, {{1, 256}, {1, 256}}, {});
    const auto gelu = launch_of(Op::Gelu, {{1, 1024}}, {});
    const double each = best(kInRow, [&](unsigned i) { i % 2 == 0 ? add() : gelu(); });
    fmt::print("{:32} {:8.1f} us in a row\n", "add and gelu in turn, each", each);
  }

 private:
  static std::unique_ptr<svp::Context> open(unsigned cores) {
    svp::ContextOptions options;
    options.card.emplace().cores = cores;
    options.runtime.elide_corrections = std::getenv("SPYRE_BENCH_ALL_CORRECTIONS") == nullptr;
    return svp::Context::open(std::move(options));
  }

  // Of tensors that stay, after a first one that made the result.
  std::function<void()> launch_of(Op op, const std::vector<std::vector<std::int64_t>>& shapes,
                                  const std::vector<std::int64_t>& integers) {
    std::vector<svp::SpyreTensor> inputs;
    inputs.reserve(shapes.size());
    for (const auto& shape : shapes) inputs.push_back(context_->empty(svp::DataType::Float16, shape));
    const svp::OperationOptions options{.stream = {}, .out = operations_.run(op, inputs, {}, integers).front()};
    return [=, this] { operations_.run(op, inputs, {}, integers, options); };
  }

  template <typename Launch>
  double best(unsigned launches, Launch launch) {
    double least = 1e12;
    for (unsigned round = 0; round < kRounds; ++round) {
      const auto start = Clock::now();
      for (unsigned i = 0; i < launches; ++i) launch(i);
      context_->default_stream().Synchronize();
      least = std::min(least, std::chrono::duration<double, std::micro>(Clock::now() - start).count() / launches);
    }
    return least;
  }

  std::unique_ptr<svp::Context> context_;
  svp::Operations operations_;
};

void print_all(unsigned cores) {
  Rates rates(cores);
  rates.print("add [1,256]", Op::Add, {{1, 256}, {1, 256}});
  rates.print("add [64,128]", Op::Add, {{64, 128}, {64, 128}});
  rates.print("matmul [1,256] x [256,256]", Op::MatMul, {{1, 256}, {256, 256}});
  rates.print("matmul [1,256] x [256,1024]", Op::MatMul, {{1, 256}, {256, 1024}});
  rates.print("matmul [1,1024] x [1024,256]", Op::MatMul, {{1, 1024}, {1024, 256}});
  rates.print("layer_norm [1,256]", Op::LayerNorm, {{1, 256}});
  rates.print("softmax [4,64]", Op::Softmax, {{4, 64}}, {-1});
  rates.print("gelu [1,1024]", Op::Gelu, {{1, 1024}});
  rates.print_alternating();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    print_all(argc > 1 ? static_cast<unsigned>(std::strtoul(argv[1], nullptr, 10)) : 1);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "operation_rates: {}\n", error.what());
    return 1;
  }
}
