// SPDX-License-Identifier: Apache-2.0
// `spyre run OP`: one operation of spyre::ops on random data, timed and checked.
#include <algorithm>
#include <chrono>
#include <random>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/op_problem.hpp"
#include "host_driver/cli/op_report.hpp"
#include "host_driver/cli/progress.hpp"
#include "host_driver/ops/operations.hpp"

namespace cli {
namespace {

using svp::DataType;
using svp::HostShape;
using svp::ops::Array;

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
  return report_op(options, problem, run);
}

}  // namespace cli
