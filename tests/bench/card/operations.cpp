// SPDX-License-Identifier: Apache-2.0
// P8: operations of the engine, from launch to completion. Element-wise operations and reductions against the engine's
// own copy, in bytes read and written; a small operation against an empty kernel; a decoder, token by token.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "host_driver/models/transformer.hpp"
#include "host_driver/ops/comparison.hpp"
#include "host_driver/ops/operations.hpp"
#include "host_driver/ops/reference.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

using svp::ops::Array;
using svp::ops::Op;

constexpr std::int64_t kRows = 1024;
constexpr std::int64_t kColumns = 1024;
constexpr unsigned kLaunches = 10;
constexpr double kEmulatedGoal = 0.3;

struct Measured {
  Op op;
  const char* what;
  std::vector<std::int64_t> integers{};
  bool two = false;              // inputs
  bool transposed = false;       // the input is
  std::optional<double> goal{};  // with the compute array
};

const std::vector<Measured>& measured_operations() {
  static const std::vector<Measured> list{
      {.op = Op::Add, .what = "add", .two = true, .goal = 0.6},
      {.op = Op::Mul, .what = "mul", .two = true, .goal = 0.6},
      {.op = Op::Relu, .what = "relu", .goal = 0.6},
      {.op = Op::Less, .what = "less", .two = true, .goal = 0.6},
      {.op = Op::Exp, .what = "exp (table)", .goal = 0.5},
      {.op = Op::Sum, .what = "sum along the stick dimension", .integers = {1, 1}, .goal = 0.5},
      {.op = Op::Sum, .what = "sum along rows", .integers = {1, 0}, .goal = 0.5},
      {.op = Op::Max, .what = "max along the stick dimension", .integers = {1, 1}, .goal = 0.5},
      {.op = Op::Copy, .what = "copy of a transposed view", .transposed = true},
      {.op = Op::Softmax, .what = "softmax (five operations)", .integers = {-1}, .goal = 0.2},
      {.op = Op::LayerNorm, .what = "layer_norm (three operations)", .goal = 0.2},
  };
  return list;
}

class OperationBench {
 public:
  explicit OperationBench(svp::Context& context) : context_(context), operations_(context) {
    std::mt19937_64 random(20261124);
    std::uniform_real_distribution<float> uniform(-2, 2);
    for (Array& array : host_) {
      array = Array::of({kRows, kColumns});
      std::vector<float> values(array.data.size());
      for (float& value : values) value = std::round(uniform(random) * 256) / 256;  // what DL16 holds
      std::ranges::copy(values, array.data.begin());
      tensors_.push_back(context.empty(svp::DataType::Float16, array.size));
      context.copy(tensors_.back(),
                   {svp::HostShape::contiguous(svp::DataType::Float32, array.size), std::as_bytes(std::span(values))},
                   context.default_stream());
    }
    context.default_stream().Synchronize();
  }

  // Nanoseconds of one launch, kLaunches in a row.
  double time(const Measured& measured) {
    const std::vector<svp::SpyreTensor> inputs = inputs_of(measured);
    const auto start = Clock::now();
    for (unsigned i = 0; i < kLaunches; ++i)
      result_ = operations_.run(measured.op, inputs, {}, measured.integers).front();
    context_.default_stream().Synchronize();
    return ns_since(start) / kLaunches;
  }

  // Read and written.
  std::uint64_t bytes(const Measured& measured) const {
    std::uint64_t sum = result_.size_bytes();
    for (const svp::SpyreTensor& input : inputs_of(measured)) sum += input.size_bytes();
    return sum;
  }

  void check(const Measured& measured) {
    std::vector<Array> inputs{host_[0]};
    if (measured.two) inputs.push_back(host_[1]);
    if (measured.transposed) inputs = {transposed_host()};
    const Array expected = svp::ops::reference(measured.op, inputs, {}, measured.integers).front();
    std::vector<float> values(expected.data.size());
    (void)context_.copy({svp::HostShape::contiguous(svp::DataType::Float32, result_.shape()),
                         std::as_writable_bytes(std::span(values))},
                        result_, context_.default_stream());
    context_.default_stream().Synchronize();
    const Array got{.size = result_.shape(), .data = {values.begin(), values.end()}};
    const auto wrong = svp::ops::beyond_bound(measured.op, result_.layout().device_dtype, got, expected);
    require(!wrong, fmt::format("{}: {}", measured.what, wrong.value_or("")));
  }

 private:
  std::vector<svp::SpyreTensor> inputs_of(const Measured& measured) const {
    if (measured.transposed) return {tensors_[0].transpose(0, 1)};
    if (measured.two) return tensors_;
    return {tensors_[0]};
  }
  Array transposed_host() const {
    Array array = Array::of({kColumns, kRows});
    for (std::size_t r = 0; r < kRows; ++r) {
      for (std::size_t c = 0; c < kColumns; ++c) array.data[c * kRows + r] = host_[0].data[r * kColumns + c];
    }
    return array;
  }

  svp::Context& context_;
  svp::Operations operations_;
  Array host_[2];
  std::vector<svp::SpyreTensor> tensors_;
  svp::SpyreTensor result_;
};

void measure_bandwidth(Session& session, OperationBench& bench) {
  const Measured copy{.op = Op::Copy, .what = "copy"};
  bench.time(copy);
  bench.check(copy);
  for (const Measured& measured : measured_operations()) {
    Row row{.id = "P8",
            .what = fmt::format("{} of [1024,1024] DL16, bytes read and written", measured.what),
            .unit = Unit::BytesPerSecond,
            .limit = "the engine's copy",
            .checked = "every element, in double precision"};
    if (measured.goal) row.goal = session.goal(at_least(*measured.goal), at_least(kEmulatedGoal));
    bench.time(measured);
    bench.check(measured);
    for (unsigned round = 0; round < session.options().rounds; ++round) {
      const double ours = bench.time(measured);
      const auto bytes = static_cast<double>(bench.bytes(measured));
      const double limit = bench.time(copy);
      row.add(bytes / ours * 1e9, static_cast<double>(bench.bytes(copy)) / limit * 1e9);
    }
    session.add(std::move(row));
  }
}

// From launch to completion, each waited for.
template <typename Launch>
double round_trip(svp::SpyreStream stream, unsigned launches, Launch launch) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < launches; ++i) {
    launch();
    stream.Synchronize();
  }
  return ns_since(start) / launches;
}

void measure_small(Session& session, svp::Context& context) {
  svp::ExecutionPlan empty;
  empty.add(svp::Job(svp::CompiledKernel(context.kernel("empty"), {})));
  context.load(empty);
  svp::SpyreStream stream = context.default_stream();
  svp::Operations operations(context);
  const svp::SpyreTensor x = context.empty(svp::DataType::Float16, {64, 128});
  const std::vector<svp::SpyreTensor> inputs{x, x};
  operations.run(Op::Add, inputs, {}, {}, {.stream = {}, .out = x, .core_mask = 0});
  stream.Synchronize();
  Row row{.id = "P8",
          .what = "add of [64,128], launch to completion",
          .limit = "an empty kernel, likewise",
          .goal = session.goal(at_most(2.5), at_most(2)),
          .checked = "outcome"};
  const unsigned launches = session.amount(2000);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double ours = round_trip(
        stream, launches, [&] { operations.run(Op::Add, inputs, {}, {}, {.stream = {}, .out = x, .core_mask = 0}); });
    const double limit = round_trip(stream, launches, [&] { svp::LaunchKernel(stream, empty, {}); });
    row.add(ours, limit);
  }
  session.add(std::move(row));
}

void measure_model(Session& session, svp::Context& context) {
  namespace models = svp::models;
  models::TransformerConfig config;
  const models::TransformerWeights weights = models::make_weights(config);
  svp::Operations operations(context);
  models::Transformer model(context, operations, config, weights);
  models::ReferenceTransformer reference(config, weights);
  for (unsigned token = 1; token < 4; ++token) {
    const std::vector<float> logits = model.step(token);
    const std::vector<double> expected = reference.step(token);
    double largest = 0;
    for (const double x : expected) largest = std::max(largest, std::fabs(x));
    for (std::size_t i = 0; i < logits.size(); ++i) {
      require(std::fabs(static_cast<double>(logits[i]) - expected[i]) <= models::kLogitBound * largest,
              "a logit is wrong");
    }
  }
  Row row{.id = "P8",
          .what = "decoder (2 layers, width 256), one token, replayed",
          .limit = "operation by operation, each waited for",
          .checked = "the logits of three tokens, in double precision"};
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    model.restart();
    const auto start = Clock::now();
    constexpr unsigned kTokens = 20;
    for (unsigned token = 0; token < kTokens; ++token) model.step(token);
    const double ours = ns_since(start) / kTokens;
    double parts = 0;
    for (const double microseconds : model.time_parts(1)) parts += microseconds * 1e3;
    row.add(ours, parts);
  }
  session.add(std::move(row));
}

}  // namespace

void measure_operations(Session& session) {
  svp::Context& context = session.card();
  measure_small(session, context);
  OperationBench bench(context);
  measure_bandwidth(session, bench);
  measure_model(session, context);
}

}  // namespace bench
