// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/op_problem.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <random>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/elements.hpp"
#include "host_driver/program/golden/golden.hpp"

namespace cli {
namespace {

using svp::DataType;
using svp::ops::Array;
using svp::ops::Op;

DataType dtype_of(const std::string& name) {
  for (const DataType type : {DataType::Float16, DataType::BFloat16, DataType::Float32}) {
    if (svp::name(type) == name) return type;
  }
  throw svp::InvalidArgument("--dtype", fmt::format("'{}' is no type of the operations", name),
                             "use float16, bfloat16 or float32");
}

// Where the operation is defined, and where its results are of a size to compare.
double element_for(Op op, double x) {
  const bool positive = op == Op::Log || op == Op::Sqrt || op == Op::Rsqrt;
  if (op == Op::Prod) return 1 + x / 16;
  return positive ? std::fabs(x) + 0.25 : x;
}

bool is_index(Op op, std::size_t input) { return op == Op::Embedding && input == 1; }

std::vector<std::string> default_shapes(Op op) {
  if (op == Op::Conv2d) return {"1x64x28x28", "64x64x3x3"};
  if (op == Op::Linear || op == Op::LinearFp8) return {"64x128", "96x128", "96"};
  if (op == Op::LayerNorm) return {"64x128", "128", "128"};
  return {svp::ops::info_of(op).family == svp::ops::Family::Window ? "1x64x28x28" : "64x128"};
}

// Of an operation that does nothing without them: the 8 largest, windows of 2 by 2.
std::vector<std::int64_t> default_integers(Op op) {
  if (op == Op::TopK) return {8};
  if (op == Op::AvgPool2d || op == Op::MaxPool2d) return {2, 2};
  return {};
}

}  // namespace

std::vector<std::int64_t> parse_extents(const std::string& text) {
  std::vector<std::int64_t> size;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    std::int64_t extent = 0;
    const auto [rest, error] = std::from_chars(at, end, extent);
    const bool more = rest != end && *rest == 'x' && rest + 1 != end;
    if (error != std::errc{} || extent < 1 || extent > INT32_MAX || (rest != end && !more)) {
      throw svp::InvalidArgument("--shape", fmt::format("'{}' is no shape", text), "give extents like 64x128");
    }
    size.push_back(extent);
    at = rest == end ? end : rest + 1;
  }
  return size;
}

OpProblem make_op_problem(const RunOpOptions& options, std::uint64_t seed) {
  const auto op = svp::ops::op_named(options.op);
  if (!op) throw svp::InvalidArgument("op", fmt::format("there is no operation '{}'", options.op), "see spyre ops");
  OpProblem problem{.op = *op,
                    .dtype = dtype_of(options.dtype),
                    .inputs = {},
                    .dtypes = {},
                    .numbers = options.numbers,
                    .integers = options.integers};
  if (problem.integers.empty()) problem.integers = default_integers(*op);
  const bool fp32 = problem.dtype == DataType::Float32;
  if (fp32 && !svp::ops::info_of(*op).fp32) {
    throw svp::InvalidArgument("--dtype", fmt::format("{} has no form on FP32", options.op), "use float16");
  }
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal;
  std::vector<std::string> shapes = options.shapes;
  if (shapes.empty()) shapes = default_shapes(*op);
  const unsigned tensors = svp::ops::info_of(*op).tensors;
  const bool serves_all = tensors <= 3 && *op != Op::Conv2d && *op != Op::LinearFp8 && options.numbers.empty();
  if (shapes.size() == 1 && serves_all) shapes.resize(tensors, shapes.front());
  for (const std::string& shape : shapes) {
    Array array = Array::of(parse_extents(shape));
    const bool index = is_index(*op, problem.inputs.size());
    problem.dtypes.push_back(index ? DataType::Int32 : problem.dtype);
    const svp::DeviceType device = fp32 ? svp::DeviceType::Fp32 : svp::DeviceType::Dl16;
    for (double& x : array.data) {
      const auto row = static_cast<double>(random() % static_cast<std::uint64_t>(std::max<std::int64_t>(
                                                          problem.inputs.empty() ? 1 : problem.inputs[0].size[0], 1)));
      x = index ? row : svp::ops::rounded_to(device, element_for(*op, normal(random)));
    }
    problem.inputs.push_back(std::move(array));
  }
  return problem;
}

OpCheck check_op(const OpProblem& problem, const svp::ops::Request& request,
                 const std::vector<svp::ops::Array>& results) {
  const svp::ops::Lowered lowered = svp::ops::lower(request);
  std::vector<std::vector<std::byte>> memory;
  memory.reserve(problem.inputs.size() + lowered.outputs.size());
  for (std::size_t i = 0; i < problem.inputs.size(); ++i) {
    memory.push_back(svp::ops::device_bytes(request.inputs[i], problem.inputs[i]));
  }
  for (const auto& form : lowered.outputs) memory.emplace_back(form.layout.device_bytes());
  const std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  svp::program::golden::run(lowered.program, arguments);
  const auto exact = svp::ops::reference(problem.op, problem.inputs, problem.numbers, problem.integers);
  OpCheck check;
  double largest = 0;
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Array golden = svp::ops::elements_of(lowered.outputs[r], memory[problem.inputs.size() + r]);
    check.golden.add(svp::ops::compare(results[r], golden));
    for (std::size_t i = 0; i < golden.data.size(); ++i) {
      const double got = results[r].data[i];
      if (!std::isfinite(exact[r].data[i])) continue;
      largest = std::max(largest, std::fabs(exact[r].data[i]));
      check.largest_error = std::max(check.largest_error, std::fabs(got - exact[r].data[i]));
    }
  }
  check.relative_error = largest == 0 ? 0 : check.largest_error / largest;
  return check;
}

}  // namespace cli
