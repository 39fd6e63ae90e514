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

// What FP32 counts exactly, one by one.
constexpr std::int64_t kLargestCount = 1 << 24;

// Integers of the request: keepdim, then the dimensions; none: all of them. A tensor without dimensions has, as in
// PyTorch, one for whoever names it.
std::vector<std::size_t> reduced_dimensions(const Request& request, std::size_t rank) {
  std::vector<std::size_t> dims;
  for (std::size_t i = 1; i < request.integers.size(); ++i) {
    dims.push_back(dimension_of(request.integers[i], std::max<std::size_t>(rank, 1)));
  }
  if (dims.empty() && rank != 0) {
    dims.resize(rank);
    std::iota(dims.begin(), dims.end(), std::size_t{0});
  }
  std::ranges::sort(dims);
  if (std::ranges::adjacent_find(dims) != dims.end()) {
    throw InvalidArgument("dim", "a dimension is given twice", "name each dimension once");
  }
  if (rank == 0) dims.clear();
  return dims;
}

// A sum of bools counts them, as an int64 does; FP32 is exact as long as the count is.
void require_countable(const Value& input, const std::vector<std::size_t>& dims) {
  std::int64_t count = 1;
  for (const std::size_t d : dims) count *= input.size()[d];
  if (count <= kLargestCount) return;
  throw InvalidArgument("shape", "a count of " + std::to_string(count) + " elements of " + to_string(input.size()),
                        "count parts of at most 2^24 elements");
}

}  // namespace

void lower_top_k(Lowering& lowering);

void lower_reduction(Lowering& lowering) {
  const Request& request = lowering.request();
  if (request.op == Op::TopK) return lower_top_k(lowering);
  const Value& input = lowering.input(0);
  const std::vector<std::size_t> dims = reduced_dimensions(request, input.rank());
  const bool keep = !request.integers.empty() && request.integers[0] != 0;
  const auto no_elements = std::ranges::find(dims, 0, [&](std::size_t d) { return input.size()[d]; });
  if (no_elements != dims.end() && (request.op == Op::Max || request.op == Op::Min)) {
    throw InvalidArgument("dim",
                          std::string(info_of(request.op).name) + " of " + to_string(input.size()) +
                              " along dimension " + std::to_string(*no_elements) + ", which has no elements",
                          "give a tensor that has elements there");
  }
  std::vector<std::int64_t> kept = input.size();
  for (const std::size_t d : dims) kept[d] = 1;
  std::vector<std::int64_t> size;
  for (std::size_t d = 0; d < kept.size(); ++d) {
    if (keep || std::ranges::find(dims, d) == dims.end()) size.push_back(kept[d]);
  }
  const Opcode opcode = info_of(request.op).opcode;
  // Sums along several dimensions are rounded to the result's format once: what lies between is FP32.
  const bool adds = opcode == Opcode::Sum || opcode == Opcode::Mean || opcode == Opcode::Prod;
  const bool counts = adds && input.form.base.dtype == DataType::Bool;
  if (counts) require_countable(input, dims);
  const bool wide = counts || (adds && dims.size() > 1);
  const Value* result = wide ? &lowering.as_format(input, DeviceType::Fp32) : &input;
  // The stick dimension last: what lies before it is a whole stick of independent lanes.
  std::vector<std::size_t> order = dims;
  std::ranges::sort(order, {}, [&](std::size_t d) { return input.stick() == d ? input.rank() : d; });
  for (const std::size_t d : order) {
    std::vector<float> constants;
    if (opcode == Opcode::Mean) constants = {1.0F / static_cast<float>(result->size()[d])};
    result = &lowering.reduced(opcode, *result, d, std::move(constants));
  }
  const Value& out = counts ? lowering.output(size, DataType::Int64, DeviceType::Int32)
                            : lowering.output(size, input.form.base.dtype, input.form.layout.device_dtype);
  lowering.store(*result, keep ? out : lowering.keep(out.seen_as(reshaped(out.form.view, kept))));
}

// What the positions of topk are: integers of the request.
enum class IndexType : std::int64_t { Int64, Int32, OfTensor };

IndexType index_type(const Request& request, std::int64_t extent, DeviceType device) {
  const std::int64_t number = request.integers.size() > 2 ? request.integers[2] : 0;
  if (number < 0 || number > 2) {
    throw InvalidArgument("integers", "indices of type " + std::to_string(number),
                          "give 0 for int64, 1 for int32, 2 for the tensor's own type");
  }
  const auto type = static_cast<IndexType>(number);
  const std::int64_t exact = device == DeviceType::Dl16 ? 1 << 10 : 1 << 24;
  if (type == IndexType::OfTensor && extent - 1 > exact) {
    throw InvalidArgument("dtype",
                          "positions up to " + std::to_string(extent - 1) +
                              " as numbers of a format that is exact to " + std::to_string(exact),
                          "ask for int64 or int32 indices");
  }
  return type;
}

// The k largest along one dimension (opcode TopKValue), or their positions.
void top_k_into(Lowering& lowering, Opcode opcode, const Value& all, std::size_t dim, std::int64_t k,
                const Value& out) {
  std::vector<std::int64_t> extent = all.size();
  extent.push_back(k);  // the ranks are a dimension of their own
  // The lanes of the input stay lanes, but for the searched dimension: there the ranks may be.
  const bool searched_in_sticks = !all.stick() || all.stick() == dim;
  const bool fits = searched_in_sticks ? !out.stick() || out.stick() == dim : out.stick() == all.stick();
  const std::optional<std::size_t> stick = searched_in_sticks ? std::optional(dim) : all.stick();
  const Value& result =
      fits ? out : lowering.temporary(out.size(), out.form.base.dtype, out.form.layout.device_dtype, stick);
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

// As PyTorch: a tensor without dimensions has one of extent 1 for whoever names it, and its result is its one number,
// with k = 0, too.
void lower_top_k(Lowering& lowering) {
  const Request& request = lowering.request();
  const auto line = [&](const Value& value) -> const Value& {
    return value.rank() == 0 ? lowering.keep(value.seen_as(unsqueezed(value.form.view, 0))) : value;
  };
  if (request.integers.empty()) throw InvalidArgument("k", "topk without a number of elements", "give k");
  if (request.out) throw InvalidArgument("out", "one tensor for two results of topk", "copy a result into it");
  const Value& x = lowering.input(0);
  const Value& input = line(x);
  const std::size_t dim = dimension_of(request.integers.size() > 1 ? request.integers[1] : -1, input.rank());
  const std::int64_t k = request.integers[0];
  if (k < 0 || k > std::min<std::int64_t>(input.size()[dim], 128)) {
    throw InvalidArgument("k", "topk of " + std::to_string(k) + " out of " + std::to_string(input.size()[dim]),
                          "give 0 up to the extent of the dimension, at most 128");
  }
  const DeviceType device = x.form.layout.device_dtype;
  const IndexType type = index_type(request, input.size()[dim], device);
  std::vector<std::int64_t> size = x.size();
  if (!size.empty()) size[dim] = k;
  const Value& values = lowering.output(size, x.form.base.dtype, device);
  const bool integers = type != IndexType::OfTensor;
  const DataType integer = type == IndexType::Int32 ? DataType::Int32 : DataType::Int64;
  const Value& indices =
      integers ? lowering.output(size, integer, DeviceType::Int32) : lowering.output(size, x.form.base.dtype, device);
  if (!values.form.has_elements()) return;
  const Value& all = lowering.materialised(input);
  const std::int64_t ranks = line(values).size()[dim];
  top_k_into(lowering, Opcode::TopKValue, all, dim, ranks, line(values));
  // Integers are found in elements of their own size: FP32 keeps the order of DL16, NaN included.
  const Value& searched = integers ? lowering.as_format(all, DeviceType::Fp32) : all;
  top_k_into(lowering, Opcode::TopKIndex, searched, dim, ranks, line(indices));
}

}  // namespace svp::ops
