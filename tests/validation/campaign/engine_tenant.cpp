// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/engine_tenant.hpp"

#include <algorithm>
#include <cstdio>
#include <span>

#include "host_driver/ops/elements.hpp"
#include "host_driver/program/golden/golden.hpp"
#include "tests/validation/bounds.hpp"

namespace svp::campaign {

namespace {

using ops::Op;

// Whole sticks: each byte of a result is one of an element.
constexpr std::int64_t kRows = 64;
constexpr std::int64_t kColumns = 256;

ops::Array random_array(std::vector<std::int64_t> size, std::mt19937_64& random) {
  ops::Array array = ops::Array::of(std::move(size));
  std::normal_distribution<double> normal;
  for (double& x : array.data) x = ops::rounded_to(DeviceType::Dl16, normal(random));
  return array;
}

}  // namespace

std::string function_name(unsigned function) {
  return function == 0 ? std::string("PF") : "VF" + std::to_string(function);
}

wire::Target target_of(unsigned function) {
  return function == 0 ? wire::kTargetPhysical : wire::target_of_virtual(function);
}

wire::FaultSpec fault_at(unsigned function, wire::FaultPoint point, wire::FaultAction action) {
  wire::FaultSpec spec = ScenarioContext::any_fault(point, action);
  spec.trigger.function = target_of(function);
  return spec;
}

std::unique_ptr<svp::Context> open_context(ScenarioContext& context, unsigned function) {
  svp::ContextOptions options;
  options.function = function;
  return svp::Context::open(context.fixture().card(), options);
}

bool names_element(const std::string& text, const ops::Difference& difference) {
  std::string index;
  for (const std::int64_t i : difference.element) index += (index.empty() ? "[" : ",") + std::to_string(i);
  char values[80];
  std::snprintf(values, sizeof values, "] is %.9g, not %.9g;", difference.got, difference.expected);
  return !index.empty() && text.contains("element " + index + values);
}

LaunchEnd wait_for(ScenarioContext& context, FlexStream& stream) {
  try {
    stream.Synchronize(ScenarioContext::Clock::now() + context.timeout());
  } catch (const StreamError& error) {
    return {.error = error.what(), .failure = error.failure()};
  } catch (const TimeoutError& error) {
    return {.error = std::string("did not end: ") + error.what(), .failure = {}};
  }
  return {};
}

OperationTenant::OperationTenant(ScenarioContext& context, unsigned function, std::mt19937_64& random,
                                 std::optional<Op> op)
    : context_(context),
      program_(open_context(context, function)),
      operations_(std::make_unique<Operations>(*program_)) {
  static constexpr Op kOps[] = {Op::Softmax, Op::MatMul, Op::LayerNorm, Op::Add};
  request_.op = op ? *op : kOps[random() % std::size(kOps)];
  add_input({kRows, kColumns}, random);
  if (request_.op == Op::Add) add_input({kRows, kColumns}, random);
  if (request_.op == Op::MatMul) add_input({kColumns, kColumns}, random);
  if (request_.op == Op::Softmax) request_.integers = {-1};
  const ops::Lowered lowered = ops::lower(request_);
  form_ = lowered.outputs.front();
  golden_.resize(form_.layout.device_bytes());
  std::vector<std::vector<std::byte>> memory;
  memory.reserve(input_.size());
  for (std::size_t i = 0; i < input_.size(); ++i) {
    memory.push_back(ops::device_bytes(request_.inputs[i], input_[i]));
  }
  std::vector<std::span<std::byte>> arguments(memory.begin(), memory.end());
  arguments.emplace_back(golden_);
  svp::program::golden::run(lowered.program, arguments);
  program_->default_stream().flex_stream().Synchronize(ScenarioContext::Clock::now() + context.timeout());
}

void OperationTenant::add_input(std::vector<std::int64_t> size, std::mt19937_64& random) {
  input_.push_back(random_array(std::move(size), random));
  on_card_.push_back(to_card(input_.back()));
  const SpyreTensor& tensor = on_card_.back();
  request_.inputs.push_back({tensor.base_shape(), tensor.layout(), tensor.device_view()});
}

SpyreTensor OperationTenant::to_card(const ops::Array& array) {
  const std::vector<float> values(array.data.begin(), array.data.end());
  const SpyreTensor tensor = program_->empty(DataType::Float16, array.size);
  program_->copy(tensor, {HostShape::contiguous(DataType::Float32, array.size), std::as_bytes(std::span(values))},
                 program_->default_stream());
  program_->default_stream().flex_stream().Synchronize(ScenarioContext::Clock::now() + campaign_bounds::kBlock);
  return tensor;
}

ops::Array OperationTenant::to_host(const SpyreTensor& tensor) {
  ops::Array array = ops::Array::of(tensor.shape());
  std::vector<float> values(array.data.size());
  const HostShape shape = HostShape::contiguous(DataType::Float32, tensor.shape());
  (void)program_->copy({shape, std::as_writable_bytes(std::span(values))}, tensor, program_->default_stream());
  program_->default_stream().flex_stream().Synchronize(ScenarioContext::Clock::now() + campaign_bounds::kBlock);
  std::ranges::copy(values, array.data.begin());
  return array;
}

LaunchEnd OperationTenant::launch(std::uint64_t core_mask) {
  const OperationOptions options{.stream = {}, .out = {}, .core_mask = core_mask};
  result_ = operations_->run(request_.op, on_card_, request_.scalars, request_.integers, options).front();
  return wait_for(context_, program_->default_stream().flex_stream());
}

ops::Comparison OperationTenant::compare() { return ops::compare(to_host(*result_), ops::elements_of(form_, golden_)); }

std::string OperationTenant::wrong(std::uint64_t core_mask) {
  const LaunchEnd end = launch(core_mask);
  return end.ok() ? damage() : end.error;
}

std::string OperationTenant::damage() {
  if (const auto result = compare(); !result.equal()) return ops::describe(result);
  for (std::size_t i = 0; i < input_.size(); ++i) {
    const auto input = ops::compare(to_host(on_card_[i]), input_[i]);
    if (!input.equal()) return "input " + std::to_string(i) + ": " + ops::describe(input);
  }
  return {};
}

ops::Comparison OperationTenant::with_inverted_byte(std::uint64_t at) const {
  std::vector<std::byte> bytes = golden_;
  bytes[at] ^= std::byte{0xff};
  return compare_with(bytes);
}

ops::Comparison OperationTenant::with_inverted_bit(std::uint64_t at) const {
  std::vector<std::byte> bytes = golden_;
  bytes[at / 8] ^= std::byte{1} << (at % 8);
  return compare_with(bytes);
}

ops::Comparison OperationTenant::compare_with(const std::vector<std::byte>& bytes) const {
  return ops::compare(ops::elements_of(form_, bytes), ops::elements_of(form_, golden_));
}

}  // namespace svp::campaign
