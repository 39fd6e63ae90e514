// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ops/operations.hpp"

#include <bit>
#include <string>
#include <utility>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/operation_arguments.hpp"
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
  key.push_back(request.allow_copies ? 1 : 0);
  if (request.out) append_form(key, *request.out);
  return key;
}

ops::TensorForm form_of(const SpyreTensor& tensor) {
  return {.base = tensor.base_shape(), .layout = tensor.layout(), .view = tensor.device_view()};
}

bool can_be_walked(const SpyreTensor& tensor, bool written) {
  if (tensor.element_count() == 0) return true;
  const auto access = stick_access(tensor.base_shape(), tensor.layout(), tensor.device_view());
  return access && (access->whole_sticks || !written);
}

void require_layout(const char* field, const SpyreTensor& tensor) {
  if (!tensor.layout().device_size.empty()) return;
  throw InvalidArgument(field, "a tensor that was never allocated", "give one of Context::empty() or to_device()");
}

// What an operation becomes is a program that the engine takes; what a caller may get wrong was refused before.
std::shared_ptr<const DeviceProgram> checked_program(const char* name, std::vector<std::byte> bytes) {
  try {
    return std::make_shared<const DeviceProgram>(name, std::move(bytes));
  } catch (const InvalidArgument& error) {
    throw InvalidArgument("inputs", std::string(name) + " can not be computed on these tensors: " + error.field(),
                          "give tensors in default layout (Context::contiguous()), and report it: it is a defect");
  }
}

}  // namespace

struct Operations::Program {
  std::vector<ops::TensorForm> outputs;
  // Of one job; of none: there is nothing to do. Loaded ones take the place of those that are not.
  std::shared_ptr<const ExecutionPlan> plan;
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
  std::vector<Job> jobs;
  if (!lowered.program.empty()) {
    jobs.emplace_back(checked_program(ops::info_of(request.op).name, std::move(lowered.program)), context_.engine());
  }
  program->plan = std::make_shared<const ExecutionPlan>(std::move(jobs));
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

SpyreTensor Operations::walkable(const SpyreTensor& tensor, std::size_t input, SpyreStream stream, bool allow_copies) {
  require_layout("inputs", tensor);
  if (can_be_walked(tensor, false)) return tensor;
  if (!allow_copies) {
    throw CopyNeeded("inputs", "input " + std::to_string(input) + " is a view that steps inside of sticks",
                     "allow copies, or give a copy: Context::contiguous()");
  }
  return restickify(context_.runtime(), context_.allocator(), stream, tensor, std::nullopt);
}

// Loading allocates, which may call the program's memory-pressure callback, and waits for the stream: it happens
// without the lock. Of two threads that load the same program the second one's memory is given back.
std::shared_ptr<const ExecutionPlan> Operations::loaded_plan(Program& program) {
  std::shared_ptr<const ExecutionPlan> before;
  {
    const std::lock_guard lock(mutex_);
    before = program.plan;
  }
  if (before->jobs().empty() || before->loaded()) return before;
  auto mine = std::make_shared<ExecutionPlan>(*before);
  context_.load(*mine);
  const std::lock_guard lock(mutex_);
  if (program.plan == before) program.plan = mine;
  return mine;
}

void Operations::launch(Program& program, std::span<const SpyreTensor> tensors, const OperationOptions& options) {
  const std::shared_ptr<const ExecutionPlan> plan = loaded_plan(program);
  if (plan->jobs().empty()) return;
  std::vector<Argument> arguments;
  arguments.reserve(tensors.size());
  for (const SpyreTensor& tensor : tensors) {
    if (tensor.element_count() != 0) arguments.push_back(Argument::raw(tensor.allocation_index()));
  }
  SpyreStream stream = options.stream.value_or(context_.default_stream());
  stream.flex_stream().Launch(plan->jobs()[0], arguments, LaunchOptions{.core_mask = options.core_mask});
}

void Operations::run_elsewhere(ops::Op op, std::span<const SpyreTensor> inputs, std::span<const double> scalars,
                               std::span<const std::int64_t> integers, const OperationOptions& options,
                               SpyreStream stream) {
  const SpyreTensor& out = *options.out;
  ops::require_out_memory(op, form_of(out));
  if (!options.allow_copies) {
    throw CopyNeeded("out", "out is a view that shares sticks with elements that are not its own",
                     "allow copies, or give a tensor of its own");
  }
  OperationOptions elsewhere = options;
  // Rows that index_copy does not write stay as they are.
  elsewhere.out = op == ops::Op::IndexCopy
                      ? restickify(context_.runtime(), context_.allocator(), stream, out, std::nullopt)
                      : context_.empty(out.data_type(), out.shape(), out.layout().device_dtype);
  run(op, inputs, scalars, integers, elsewhere);
  context_.copy(out, *elsewhere.out, stream);
}

std::vector<SpyreTensor> Operations::run(ops::Op op, std::span<const SpyreTensor> inputs,
                                         std::span<const double> scalars, std::span<const std::int64_t> integers,
                                         const OperationOptions& options) {
  SpyreStream stream = options.stream.value_or(context_.default_stream());
  if (!stream.flex_stream().is_beside(context_.default_stream().flex_stream())) {
    throw InvalidArgument("stream", "the stream is of another context", "give one of the context's own streams");
  }
  if (options.out) {
    require_layout("out", *options.out);
    if (!can_be_walked(*options.out, true)) {
      run_elsewhere(op, inputs, scalars, integers, options, stream);
      return {*options.out};
    }
  }
  ops::Request request{.op = op,
                       .inputs = {},
                       .scalars = {scalars.begin(), scalars.end()},
                       .integers = {integers.begin(), integers.end()},
                       .out = {},
                       .allow_copies = options.allow_copies};
  std::vector<SpyreTensor> tensors;
  for (const SpyreTensor& input : inputs) {
    tensors.push_back(walkable(input, tensors.size(), stream, options.allow_copies));
    request.inputs.push_back(form_of(tensors.back()));
  }
  if (options.out) request.out = form_of(*options.out);
  const std::shared_ptr<Program> program = program_for(request);
  std::vector<SpyreTensor> results;
  for (const ops::TensorForm& form : program->outputs) {
    results.push_back(options.out ? *options.out
                                  : context_.empty(form.base.dtype, form.base.size,
                                                   TensorOptions{.device_dtype = form.layout.device_dtype}));
  }
  tensors.insert(tensors.end(), results.begin(), results.end());
  launch(*program, tensors, options);
  return results;
}

}  // namespace svp
