// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/operations.hpp"

#include <bit>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/program/device_program.hpp"

namespace svp {
namespace {

using Key = std::vector<std::int64_t>;

void append_list(Key& key, const std::vector<std::int64_t>& list) {
  key.push_back(static_cast<std::int64_t>(list.size()));
  key.insert(key.end(), list.begin(), list.end());
}

void append_form(Key& key, const ops::TensorForm& form) {
  key.push_back(static_cast<std::int64_t>(form.base.dtype) << 8 | static_cast<std::int64_t>(form.layout.device_dtype));
  append_list(key, form.base.size);
  append_list(key, form.base.stride);
  append_list(key, form.layout.device_size);
  append_list(key, form.layout.stride_map);
  append_list(key, form.view.size);
  append_list(key, form.view.stride);
  key.push_back(form.view.offset);
}

Key key_of(const ops::Request& request) {
  Key key{static_cast<std::int64_t>(request.op), static_cast<std::int64_t>(request.inputs.size())};
  for (const ops::TensorForm& form : request.inputs) append_form(key, form);
  key.push_back(static_cast<std::int64_t>(request.scalars.size()));
  for (const double scalar : request.scalars) key.push_back(std::bit_cast<std::int64_t>(scalar));
  append_list(key, request.integers);
  if (request.out) append_form(key, *request.out);
  return key;
}

ops::TensorForm form_of(const SpyreTensor& tensor) {
  return {.base = tensor.base_shape(), .layout = tensor.layout(), .view = tensor.device_view()};
}

bool can_be_walked(const SpyreTensor& tensor, bool written) {
  const auto access = stick_access(tensor.base_shape(), tensor.layout(), tensor.device_view());
  return access && (access->whole_sticks || !written);
}

}  // namespace

struct Operations::Program {
  std::vector<ops::TensorForm> outputs;
  ExecutionPlan plan;  // of one job
};

std::shared_ptr<Operations::Program> Operations::found(const Key& key) {
  const std::lock_guard lock(mutex_);
  const auto entry = by_key_.find(key);
  if (entry == by_key_.end()) return nullptr;
  programs_.splice(programs_.begin(), programs_, entry->second);
  return entry->second->second;
}

std::size_t Operations::programs() const {
  const std::lock_guard lock(mutex_);
  return programs_.size();
}

std::shared_ptr<Operations::Program> Operations::program_for(const ops::Request& request) {
  Key key = key_of(request);
  if (auto program = found(key)) return program;
  ops::Lowered lowered = ops::lower(request);
  auto program = std::make_shared<Program>();
  program->outputs = std::move(lowered.outputs);
  program->plan.add(
      Job(std::make_shared<const DeviceProgram>(ops::info_of(request.op).name, std::move(lowered.program)),
          context_.engine()));
  std::shared_ptr<Program> oldest;  // ends outside of the lock
  const std::lock_guard lock(mutex_);
  if (const auto other = by_key_.find(key); other != by_key_.end()) return other->second->second;
  programs_.emplace_front(key, program);
  by_key_.emplace(std::move(key), programs_.begin());
  if (programs_.size() > kKeptPrograms) {
    oldest = std::move(programs_.back().second);
    by_key_.erase(programs_.back().first);
    programs_.pop_back();
  }
  return program;
}

SpyreTensor Operations::walkable(const SpyreTensor& tensor, SpyreStream stream) {
  if (can_be_walked(tensor, false)) return tensor;
  return restickify(context_.runtime(), context_.allocator(), stream, tensor, std::nullopt);
}

void Operations::launch(Program& program, std::span<const SpyreTensor> tensors, const OperationOptions& options) {
  {
    const std::lock_guard lock(loading_);
    if (!program.plan.loaded()) context_.load(program.plan);
  }
  std::vector<Argument> arguments;
  arguments.reserve(tensors.size());
  for (const SpyreTensor& tensor : tensors) arguments.push_back(Argument::raw(tensor.allocation_index()));
  SpyreStream stream = options.stream.value_or(context_.default_stream());
  stream.flex_stream().Launch(program.plan.jobs()[0], arguments, LaunchOptions{.core_mask = options.core_mask});
}

std::vector<SpyreTensor> Operations::run(ops::Op op, std::span<const SpyreTensor> inputs,
                                         std::span<const double> scalars, std::span<const std::int64_t> integers,
                                         const OperationOptions& options) {
  const SpyreStream stream = options.stream.value_or(context_.default_stream());
  ops::Request request{.op = op,
                       .inputs = {},
                       .scalars = {scalars.begin(), scalars.end()},
                       .integers = {integers.begin(), integers.end()},
                       .out = {}};
  std::vector<SpyreTensor> tensors;
  for (const SpyreTensor& input : inputs) {
    tensors.push_back(walkable(input, stream));
    request.inputs.push_back(form_of(tensors.back()));
  }
  const bool in_place = options.out && can_be_walked(*options.out, true);
  if (in_place) request.out = form_of(*options.out);
  const std::shared_ptr<Program> program = program_for(request);
  std::vector<SpyreTensor> results;
  for (const ops::TensorForm& form : program->outputs) {
    results.push_back(in_place ? *options.out
                               : context_.empty(form.base.dtype, form.base.size,
                                                TensorOptions{.device_dtype = form.layout.device_dtype}));
  }
  tensors.insert(tensors.end(), results.begin(), results.end());
  launch(*program, tensors, options);
  if (options.out && !in_place) {
    context_.copy(*options.out, results.front(), stream);
    results.front() = *options.out;
  }
  return results;
}

}  // namespace svp
