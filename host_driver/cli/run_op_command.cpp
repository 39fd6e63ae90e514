// SPDX-License-Identifier: Apache-2.0
// `spyre run OP`: one operation of spyre::ops on random data, timed and checked.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <random>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/op_problem.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/cli/timeline.hpp"
#include "host_driver/ops/operations.hpp"

namespace cli {
namespace {

using svp::DataType;
using svp::HostShape;
using svp::ops::Array;

struct OpRun {
  std::string device;
  unsigned cores = 0;
  std::uint64_t seed = 0;
  std::vector<std::vector<std::int64_t>> shapes;  // of the results
  double first_us = 0;                            // with the making and loading of the program
  double median_us = 0;                           // from launch to completion
  OpCheck check;
};

std::unique_ptr<svp::Context> open_card(const RunOpOptions& options) {
  svp::ContextOptions context;
  context.runtime.elide_corrections = true;  // as for a user of spyre::Context
  if (options.own_card) {
    svp::CardOptions& card = context.card.emplace();
    card.cores = options.cores;
    card.virtual_functions = options.function;
    card.sole_function = options.function;
    context.function = options.function;
  }
  return svp::Context::open(std::move(context));
}

svp::SpyreTensor to_card(svp::Context& context, const Array& array, DataType dtype) {
  std::vector<float> values(array.data.begin(), array.data.end());
  const svp::ConstHostTensor source{HostShape::contiguous(DataType::Float32, array.size),
                                    std::as_bytes(std::span(values))};
  if (dtype == DataType::Int32) {
    std::vector<std::int32_t> rows(array.data.begin(), array.data.end());
    return context.to_device({HostShape::contiguous(dtype, array.size), std::as_bytes(std::span(rows))});
  }
  if (dtype == DataType::Float32) return context.to_device(source);
  const svp::SpyreTensor tensor = context.empty(dtype, array.size);
  context.copy(tensor, source, context.default_stream());
  return tensor;
}

Array to_host(svp::Context& context, const svp::SpyreTensor& tensor) {
  Array array = Array::of(tensor.shape());
  if (tensor.layout().device_dtype == svp::DeviceType::Int32) {
    std::vector<std::int64_t> integers(array.data.size());
    const HostShape shape = HostShape::contiguous(DataType::Int64, tensor.shape());
    (void)context.copy({shape, std::as_writable_bytes(std::span(integers))}, tensor, context.default_stream());
    context.default_stream().Synchronize();
    std::ranges::copy(integers, array.data.begin());
    return array;
  }
  std::vector<float> values(array.data.size());
  const svp::HostTensor destination{HostShape::contiguous(DataType::Float32, tensor.shape()),
                                    std::as_writable_bytes(std::span(values))};
  (void)context.copy(destination, tensor, context.default_stream());
  context.default_stream().Synchronize();
  std::ranges::copy(values, array.data.begin());
  return array;
}

double microseconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
}

void print_op_report(const RunOpOptions& options, const OpProblem& problem, const OpRun& run) {
  fmt::print("\n{} of", options.op);
  for (const Array& input : problem.inputs) fmt::print(" [{}]", fmt::join(input.size, ","));
  fmt::print(" ->");
  for (const auto& shape : run.shapes) fmt::print(" [{}]", fmt::join(shape, ","));
  fmt::print(", {}, on {} ({} cores), seed {}\n", options.dtype, run.device, run.cores, run.seed);
  fmt::print("  first launch {} (program made and loaded), then {} from launch to completion\n",
             format_time_us(run.first_us), format_time_us(run.median_us));
  if (!options.verify) {
    fmt::print("  not checked (--verify)\n\n");
    return;
  }
  fmt::print("  golden model  {}\n", svp::ops::describe(run.check.golden));
  const svp::ops::Judgement& exact = run.check.exact;
  fmt::print(
      "  double        largest |error| {:.3g}, {:.3g} of the largest result; {} elements beyond the bound ({})\n",
      exact.largest_error, exact.relative_error, exact.beyond.differ, svp::ops::bound_text(run.check.bound));
  if (!exact.within()) fmt::print("                {}\n", svp::ops::describe(exact.beyond));
  fmt::print("  {}\n\n", run.check.passed() ? "PASSED" : "FAILED");
}

// A number that JSON has none for (NaN, infinity) is null.
nlohmann::ordered_json difference_json(const svp::ops::Difference& difference) {
  return {{"element", difference.element}, {"got", difference.got}, {"expected", difference.expected}};
}

nlohmann::ordered_json op_json(const RunOpOptions& options, const OpProblem& problem, const OpRun& run) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const Array& input : problem.inputs) inputs.push_back(input.size);
  nlohmann::ordered_json json{{"op", options.op},
                              {"dtype", options.dtype},
                              {"inputs", std::move(inputs)},
                              {"outputs", run.shapes},
                              {"seed", run.seed},
                              {"device", run.device},
                              {"cores", run.cores},
                              {"first_seconds", run.first_us / 1e6},
                              {"seconds", run.median_us / 1e6}};
  if (options.verify) {
    json["elements"] = run.check.golden.elements;
    json["mismatches"] = run.check.golden.differ;
    if (run.check.golden.first) json["first_mismatch"] = difference_json(*run.check.golden.first);
    json["largest_error"] = run.check.exact.largest_error;
    json["relative_error"] = run.check.exact.relative_error;
    json["beyond_bound"] = run.check.exact.beyond.differ;
    if (run.check.exact.beyond.first) json["first_beyond_bound"] = difference_json(*run.check.exact.beyond.first);
    json["bound"] = {{"ulps", run.check.bound.ulps}, {"relative", run.check.bound.relative}};
    json["passed"] = run.check.passed();
  }
  return json;
}

// Launches, and what came back.
std::vector<Array> execute_op(svp::Context& context, const RunOpOptions& options, const OpProblem& problem,
                              svp::ops::Request& request, OpRun& run) {
  svp::Operations operations(context);
  std::vector<svp::SpyreTensor> inputs;
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    inputs.push_back(to_card(context, problem.inputs[i], problem.dtypes[i]));
    request.inputs.push_back({inputs.back().base_shape(), inputs.back().layout(), inputs.back().device_view()});
  }
  context.default_stream().Synchronize();
  std::vector<svp::SpyreTensor> results;
  std::vector<double> times;
  for (unsigned i = 0; i <= options.repeat; ++i) {
    const auto start = std::chrono::steady_clock::now();
    results = operations.run(problem.op, inputs, problem.numbers, problem.integers);
    context.default_stream().Synchronize();
    (i == 0 ? run.first_us : times.emplace_back()) = microseconds_since(start);
  }
  std::ranges::sort(times);
  run.median_us = times[times.size() / 2];
  std::vector<Array> arrays;
  for (const svp::SpyreTensor& result : results) {
    arrays.push_back(to_host(context, result));
    run.shapes.push_back(result.shape());
  }
  return arrays;
}

}  // namespace

int run_op(const RunOpOptions& options) {
  OpRun run;
  run.seed = options.seed_given ? options.seed : std::random_device{}();
  const OpProblem problem = make_op_problem(options, run.seed);
  svp::ops::Request request{.op = problem.op, .scalars = problem.numbers, .integers = problem.integers};
  std::vector<Array> results;
  {
    Progress progress("booting the card");
    const auto context = open_card(options);
    progress.set("computing");
    run.device = context->device_name();
    run.cores = context->device().config().cores;
    results = execute_op(*context, options, problem, request, run);
  }
  if (options.verify) {
    const Progress progress("comparing with the golden model");
    run.check = check_op(problem, request, results);
  }
  if (options.json) {
    print_json(op_json(options, problem, run));
  } else {
    print_op_report(options, problem, run);
  }
  return run.check.passed() ? kOk : kNotAsWanted;
}

}  // namespace cli
