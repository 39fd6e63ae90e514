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

// Of the table that an index leads into.
std::uint64_t rows_of(const OpProblem& problem) {
  const std::vector<std::int64_t>& size = problem.inputs.front().size;
  return size.empty() ? 1 : static_cast<std::uint64_t>(std::max<std::int64_t>(size.front(), 1));
}

bool is_index(Op op, std::size_t input) { return op == Op::Embedding && input == 1; }

std::vector<std::string> default_shapes(Op op) {
  if (op == Op::Conv2d) return {"1x64x28x28", "64x64x3x3"};
  if (op == Op::Linear || op == Op::LinearFp8) return {"64x128", "96x128", "96"};
  return {svp::ops::info_of(op).family == svp::ops::Family::Window ? "1x64x28x28" : "64x128"};
}

// Where one shape serves all tensors: a norm's weight and bias are of the last extent, a bias of `linear` of the
// weight's first one.
std::vector<std::vector<std::int64_t>> shapes_from(Op op, const std::vector<std::int64_t>& shape) {
  const bool norm = op == Op::LayerNorm || op == Op::RmsNorm;
  std::vector<std::vector<std::int64_t>> shapes(svp::ops::info_of(op).tensors, shape);
  for (std::size_t i = 1; i < shapes.size() && !shape.empty(); ++i) {
    if (norm) shapes[i] = {shape.back()};
    if (op == Op::Linear && i == 2) shapes[i] = {shape.front()};
  }
  return shapes;
}

// The numbers that the card computes with: operands and scales have the format of its tensors, others are fp32.
std::vector<double> held_numbers(const OpProblem& problem) {
  std::vector<double> numbers = problem.numbers;
  const svp::ops::OpInfo& info = svp::ops::info_of(problem.op);
  const bool operands = problem.inputs.size() < info.tensors && info.family != svp::ops::Family::Norm;
  const auto device = problem.dtype == DataType::Float32 ? svp::DeviceType::Fp32 : svp::DeviceType::Dl16;
  for (double& number : numbers) {
    const bool rounded = (operands || info.family == svp::ops::Family::Product) && svp::ops::is_held(device, number);
    number = svp::ops::rounded_to(rounded ? device : svp::DeviceType::Fp32, number);
  }
  return numbers;
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
  std::vector<std::vector<std::int64_t>> shapes;
  for (const std::string& shape : options.shapes.empty() ? default_shapes(*op) : options.shapes) {
    shapes.push_back(parse_extents(shape));
  }
  const svp::ops::OpInfo& info = svp::ops::info_of(*op);
  // A number takes the place of an operand; of a norm it is eps.
  const bool all_tensors = options.numbers.empty() || info.family == svp::ops::Family::Norm;
  const bool serves_all = info.tensors <= 3 && *op != Op::Conv2d && *op != Op::LinearFp8 && all_tensors;
  if (shapes.size() == 1 && serves_all) shapes = shapes_from(*op, shapes.front());
  for (const std::vector<std::int64_t>& shape : shapes) {
    Array array = Array::of(shape);
    const bool index = is_index(*op, problem.inputs.size());
    problem.dtypes.push_back(index ? DataType::Int32 : problem.dtype);
    const svp::DeviceType device = fp32 ? svp::DeviceType::Fp32 : svp::DeviceType::Dl16;
    for (double& x : array.data) {
      x = index ? static_cast<double>(random() % rows_of(problem))
                : svp::ops::rounded_to(device, element_for(*op, normal(random)));
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
  const auto exact = svp::ops::reference(problem.op, problem.inputs, held_numbers(problem), problem.integers);
  OpCheck check;
  for (std::size_t r = 0; r < results.size(); ++r) {
    const Array golden = svp::ops::elements_of(lowered.outputs[r], memory[problem.inputs.size() + r]);
    const svp::DeviceType device = lowered.outputs[r].layout.device_dtype;
    check.golden.add(svp::ops::compare(results[r], golden));
    check.bound = svp::ops::bound_of(svp::ops::info_of(problem.op), device);
    check.exact.add(svp::ops::judge(results[r], exact[r], device, check.bound));
  }
  return check;
}

}  // namespace cli
