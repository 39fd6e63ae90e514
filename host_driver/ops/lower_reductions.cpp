// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

// Integers of the request: keepdim, then the dimensions; none: all of them.
std::vector<std::size_t> reduced_dimensions(const Request& request, std::size_t rank) {
  std::vector<std::size_t> dims;
  for (std::size_t i = 1; i < request.integers.size(); ++i) dims.push_back(dimension_of(request.integers[i], rank));
  if (dims.empty()) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), std::size_t{0});
  }
  std::ranges::sort(dims);
  if (std::ranges::adjacent_find(dims) != dims.end()) {
    throw InvalidArgument("dim", "a dimension is given twice", "name each dimension once");
  }
  return dims;
}

}  // namespace

void lower_top_k(Lowering& lowering);

void lower_reduction(Lowering& lowering) {
  const Request& request = lowering.request();
  if (request.op == Op::TopK) return lower_top_k(lowering);
  const Value& input = lowering.input(0);
  const std::vector<std::size_t> dims = reduced_dimensions(request, input.rank());
  const bool keep = !request.integers.empty() && request.integers[0] != 0;
  std::vector<std::int64_t> kept = input.size();
  for (const std::size_t d : dims) kept[d] = 1;
  std::vector<std::int64_t> size;
  for (std::size_t d = 0; d < kept.size(); ++d) {
    if (keep || std::ranges::find(dims, d) == dims.end()) size.push_back(kept[d]);
  }
  const Opcode opcode = info_of(request.op).opcode;
  // Sums along several dimensions are rounded to the result's format once: what lies between is FP32.
  const bool adds = opcode == Opcode::Sum || opcode == Opcode::Mean || opcode == Opcode::Prod;
  const Value* result = adds && dims.size() > 1 ? &lowering.as_format(input, DeviceType::Fp32) : &input;
  // The stick dimension last: what lies before it is a whole stick of independent lanes.
  std::vector<std::size_t> order = dims;
  std::ranges::sort(order, {}, [&](std::size_t d) { return input.stick() == d ? input.rank() : d; });
  for (const std::size_t d : order) {
    std::vector<float> constants;
    if (opcode == Opcode::Mean) constants = {1.0F / static_cast<float>(result->size()[d])};
    result = &lowering.reduced(opcode, *result, d, std::move(constants));
  }
  const Value& out = lowering.output(size, input.form.base.dtype, input.form.layout.device_dtype);
  lowering.store(*result, keep ? out : lowering.keep(out.seen_as(reshaped(out.form.view, kept))));
}

// The k largest along one dimension and their positions.
void lower_top_k(Lowering& lowering) {
  const Request& request = lowering.request();
  const Value& input = lowering.input(0);
  if (request.integers.empty() || input.rank() == 0) {
    throw InvalidArgument("k", "topk without a number of elements", "give k, and a tensor of one dimension or more");
  }
  const std::size_t dim = dimension_of(request.integers.size() > 1 ? request.integers[1] : -1, input.rank());
  const std::int64_t k = request.integers[0];
  if (k < 1 || k > std::min<std::int64_t>(input.size()[dim], 128)) {
    throw InvalidArgument("k", "topk of " + std::to_string(k) + " out of " + std::to_string(input.size()[dim]),
                          "give 1 up to the extent of the dimension, at most 128");
  }
  std::vector<std::int64_t> size = input.size();
  size[dim] = k;
  const Value& all = lowering.materialised(input);
  std::vector<std::int64_t> extent = all.size();
  extent.push_back(k);  // the ranks are a dimension of their own
  // The lanes of the input stay lanes, but for the searched dimension: there the ranks may be.
  const bool searched_in_sticks = !all.stick() || all.stick() == dim;
  for (const Opcode opcode : {Opcode::TopKValue, Opcode::TopKIndex}) {
    const Value& out = lowering.output(size, input.form.base.dtype, input.form.layout.device_dtype);
    const bool fits = searched_in_sticks ? !out.stick() || out.stick() == dim : out.stick() == all.stick();
    const std::optional<std::size_t> stick = searched_in_sticks ? std::optional(dim) : all.stick();
    const Value& result =
        fits ? out : lowering.temporary(size, input.form.base.dtype, input.form.layout.device_dtype, stick);
    Use from{&all, std::vector<int>(extent.size(), kAbsent)};
    Use to{&result, std::vector<int>(extent.size(), kAbsent)};
    for (std::size_t d = 0; d < all.rank(); ++d) {
      from.dims[d] = static_cast<int>(d);
      to.dims[d == dim ? all.rank() : d] = static_cast<int>(d);
    }
    from.named = {dim};
    lowering.writer().emit({.opcode = opcode, .extent = extent, .operands = {from, to}, .reduced = dim});
    if (!fits) lowering.store(result, out);
  }
}

}  // namespace svp::ops
