// SPDX-License-Identifier: Apache-2.0
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/result_types.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

void lower_copy(Lowering& lowering) {
  const Value& x = lowering.input(0);
  const TensorForm form = lowering.request().out.value_or(x.form);
  const Value& out = lowering.output(x.size(), form.base.dtype, form.layout.device_dtype);
  if (form.base.dtype != DataType::Bool || x.form.base.dtype == DataType::Bool) return lowering.store(x, out);
  // A bool is 1 where there is anything but 0. Rounding to FP32 makes no 0 of a number.
  const DeviceType device = x.format() == program::Format::Dl16 ? DeviceType::Dl16 : DeviceType::Fp32;
  const Value& result = lowering.temporary(x.size(), DataType::Bool, device, x.stick());
  lowering.elementwise(Opcode::NotEqual, {&x, &lowering.scalar(DataType::Bool, device, 0)}, result);
  lowering.store(result, out);
}

// As PyTorch: a tensor of shape [0] is no part, whatever the shape of the others is.
bool is_part(const Value& value) { return value.size() != std::vector<std::int64_t>{0}; }

// The parts that have elements, one behind the other along `dimension` of `out`. False: one of them would end inside of
// a stick, and nothing was written.
bool store_parts(Lowering& lowering, const Value& out, std::size_t dimension) {
  std::vector<std::pair<const Value*, const Value*>> places;
  std::int64_t start = 0;
  for (std::size_t i = 0; i < lowering.inputs(); ++i) {
    const Value& part = lowering.input(i);
    if (!part.form.has_elements()) continue;
    const std::int64_t length = part.size()[dimension];
    const DeviceView view = narrowed(out.form.view, static_cast<std::int64_t>(dimension), start, length);
    const auto access = stick_access(out.form.base, out.form.layout, view);
    if (!access || !access->whole_sticks) return false;
    places.emplace_back(&part, &lowering.keep(out.seen_as(view)));
    start += length;
  }
  for (const auto& [part, place] : places) lowering.store(*part, *place);
  return true;
}

// Of the other dimensions the longest: lanes of one stick are elements that stay together.
std::optional<std::size_t> lanes_beside(const std::vector<std::int64_t>& size, std::size_t dimension) {
  std::optional<std::size_t> longest;
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (d != dimension && size[d] > (longest ? size[*longest] : 1)) longest = d;
  }
  return longest;
}

void lower_cat(Lowering& lowering) {
  const Value* first = &lowering.input(0);
  for (std::size_t i = 1; i < lowering.inputs() && !is_part(*first); ++i) first = &lowering.input(i);
  if (first->rank() == 0) throw InvalidArgument("inputs", "cat of numbers", "give tensors of one dimension or more");
  const std::int64_t dim = lowering.request().integers.empty() ? 0 : lowering.request().integers[0];
  // As PyTorch: where there is no part, any dimension may be named.
  const std::size_t dimension = is_part(*first) ? dimension_of(dim, first->rank()) : 0;
  std::vector<std::int64_t> size = first->size();
  size[dimension] = 0;
  for (std::size_t i = 0; i < lowering.inputs(); ++i) {
    const Value& part = lowering.input(i);
    if (!is_part(part)) continue;
    std::vector<std::int64_t> expected = size;
    if (part.rank() == expected.size()) expected[dimension] = part.size()[dimension];
    if (part.size() != expected) {
      throw InvalidArgument("shape", "cat of " + to_string(first->size()) + " and " + to_string(part.size()),
                            "give tensors that differ in the extent of that dimension only");
    }
    size[dimension] += part.size()[dimension];
  }
  // As in PyTorch, one that is left out has part in the type.
  std::vector<const Value*> all(lowering.inputs());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = &lowering.input(i);
  const ResultType type = result_type(all, false);
  const Value& out = lowering.output(size, type.dtype, type.device);
  if (store_parts(lowering, out, dimension)) return;
  if (!lowering.request().allow_copies) {
    throw CopyNeeded("inputs", "a part of cat ends inside of a stick of the result",
                     "allow copies, or copy the parts into views of a tensor: Context::copy()");
  }
  // Put together where no two parts have lanes of one stick.
  const Value& together =
      lowering.temporary(size, out.form.base.dtype, out.form.layout.device_dtype, lanes_beside(size, dimension));
  store_parts(lowering, together, dimension);
  lowering.store(together, out);
}

void require_index(const Value& index) {
  if (index.format() == program::Format::Int32) return;
  throw InvalidArgument("dtype", "indices of type " + std::string(name(index.form.layout.device_dtype)),
                        "give int32 or int64");
}

// out[index[i…], :] = rows[i…, :]; the other rows of out stay.
void lower_index_copy(Lowering& lowering) {
  const Value& index = lowering.input(0);
  require_index(index);
  if (!lowering.request().out || lowering.request().out->size().size() != 2) {
    throw InvalidArgument("out", "index_copy without a tensor of rows", "give out: [rows, width]");
  }
  const std::vector<std::int64_t> size = lowering.request().out->size();
  const Value& out =
      lowering.output(size, lowering.input(1).form.base.dtype, lowering.input(1).form.layout.device_dtype);
  std::vector<std::int64_t> extent = index.size();
  extent.push_back(size[1]);
  const Value& from = lowering.input(1);
  if (from.size() != extent || !out.access.present[0] || (size[1] > 1 && out.stick() != 1)) {
    throw InvalidArgument("shape", "index_copy of rows " + to_string(from.size()) + " into " + to_string(size),
                          "give [indices…, width] for [rows, width], two rows or more, the width in sticks");
  }
  const std::size_t rank = extent.size();
  std::optional<std::size_t> stick;
  if (size[1] > 1) stick = rank - 1;
  const Value& rows =
      lowering.with_stick(lowering.as_format(lowering.materialised(from), out.form.layout.device_dtype), stick);
  Use indices{&index, std::vector<int>(rank, kAbsent)};
  for (std::size_t d = 0; d + 1 < rank; ++d) indices.dims[d] = static_cast<int>(d);
  Use places{&out, std::vector<int>(rank, kAbsent)};
  places.dims[rank - 1] = 1;
  lowering.writer().emit({.opcode = Opcode::Scatter,
                          .extent = extent,
                          .operands = {indices, aligned(rows, rank), places},
                          .page = out.access.stride[0]});
}

// Rows of a table: out[i…, :] = table[index[i…], :].
void lower_embedding(Lowering& lowering) {
  const Value& table = lowering.input(0);
  const Value& index = lowering.input(1);
  if (table.rank() != 2 || !table.access.present[0]) {
    throw InvalidArgument("shape", "a table of " + to_string(table.size()), "give [rows, width] with two rows or more");
  }
  require_index(index);
  if (table.size()[0] == 0 && index.form.has_elements()) {
    throw InvalidArgument("shape", "a table of no rows, and " + to_string(index.size()) + " indices",
                          "give a table that has the rows");
  }
  const Value& rows = lowering.with_stick(lowering.materialised(table), 1);
  std::vector<std::int64_t> size = index.size();
  size.push_back(table.size()[1]);
  const Value& out = lowering.output(size, table.form.base.dtype, table.form.layout.device_dtype);
  const std::size_t rank = size.size();
  const bool fits = (out.stick() == rank - 1 || out.size().back() == 1) && out.format() == table.format();
  const Value& result =
      fits ? out : lowering.temporary(size, table.form.base.dtype, table.form.layout.device_dtype, rank - 1);
  Use indices{&index, std::vector<int>(rank, kAbsent)};
  for (std::size_t d = 0; d + 1 < rank; ++d) indices.dims[d] = static_cast<int>(d);
  Use values{&rows, std::vector<int>(rank, kAbsent)};
  values.dims[rank - 1] = 1;
  lowering.writer().emit({.opcode = Opcode::Gather,
                          .extent = size,
                          .operands = {indices, values, aligned(result, rank)},
                          .page = rows.access.stride[0]});
  if (!fits) lowering.store(result, out);
}

}  // namespace

void lower_movement(Lowering& lowering) {
  switch (lowering.request().op) {
    case Op::Cat: return lower_cat(lowering);
    case Op::Embedding: return lower_embedding(lowering);
    case Op::IndexCopy: return lower_index_copy(lowering);
    default: return lower_copy(lowering);
  }
}

}  // namespace svp::ops
