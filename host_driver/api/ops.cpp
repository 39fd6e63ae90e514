// SPDX-License-Identifier: Apache-2.0
// Operations on tensors.
#include "host_driver/api/inside.hpp"

namespace spyre::inline v0::ops {
std::vector<Operation> operations() {
  std::vector<Operation> list;
  for (const svp::ops::OpInfo& info : svp::ops::operation_table()) {
    list.push_back({.name = info.name,
                    .tensors = info.tensors,
                    .arguments = info.arguments,
                    .fp32 = info.fp32.has_value(),
                    .error = svp::ops::bound_text(info)});
  }
  return list;
}

std::vector<SpyreTensor> run(Context& context, std::string_view name, std::span<const SpyreTensor> tensors,
                             std::span<const double> numbers, std::span<const std::int64_t> integers,
                             const Options& options) {
  const auto op = svp::ops::op_named(name);
  if (!op) {
    throw InvalidArgument("name", "there is no operation " + std::string(name), "ops::operations() lists them");
  }
  std::vector<svp::SpyreTensor> inputs;
  inputs.reserve(tensors.size());
  for (const SpyreTensor& tensor : tensors) inputs.push_back(Inside::of(tensor));
  svp::OperationOptions inner{
      .stream = {}, .out = {}, .core_mask = options.core_mask, .allow_copies = options.allow_copies};
  if (options.stream) inner.stream = svp::SpyreStream(Inside::of(*options.stream));
  if (options.out) inner.out = Inside::of(*options.out);
  std::vector<SpyreTensor> results;
  for (svp::SpyreTensor& result : Inside::operations(context).run(*op, inputs, numbers, integers, inner)) {
    results.push_back(Inside::tensor(std::move(result)));
  }
  return results;
}

}  // namespace spyre::inline v0::ops
