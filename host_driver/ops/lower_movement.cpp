// SPDX-License-Identifier: Apache-2.0
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/tensor/tensor_view.hpp"

namespace svp::ops {
namespace {

using program::Opcode;

void lower_copy(Lowering& lowering) {
  const Value& x = lowering.input(0);
  const TensorForm form = lowering.request().out.value_or(x.form);
  const Value& out = lowering.output(x.size(), form.base.dtype, form.layout.device_dtype);
  lowering.store(x, out);
}

void lower_cat(Lowering& lowering) {
  const Value& first = lowering.input(0);
  if (first.rank() == 0) throw InvalidArgument("inputs", "cat of numbers", "give tensors of one dimension or more");
  const std::int64_t dim = lowering.request().integers.empty() ? 0 : lowering.request().integers[0];
  const std::size_t dimension = dimension_of(dim, first.rank());
  std::vector<std::int64_t> size = first.size();
  size[dimension] = 0;
  for (std::size_t i = 0; i < lowering.inputs(); ++i) {
    std::vector<std::int64_t> expected = size;
    const Value& part = lowering.input(i);
    if (part.rank() == expected.size()) expected[dimension] = part.size()[dimension];
    if (part.size() != expected) {
      throw InvalidArgument("shape", "cat of " + to_string(first.size()) + " and " + to_string(part.size()),
                            "give tensors that differ in the extent of that dimension only");
    }
    size[dimension] += part.size()[dimension];
  }
  const Value& out = lowering.output(size, first.form.base.dtype, first.form.layout.device_dtype);
  std::int64_t start = 0;
  for (std::size_t i = 0; i < lowering.inputs(); ++i) {
    const Value& part = lowering.input(i);
    const std::int64_t length = part.size()[dimension];
    const Value& place =
        lowering.keep(out.seen_as(narrowed(out.form.view, static_cast<std::int64_t>(dimension), start, length)));
    if (!place.access.whole_sticks) {
      throw CopyNeeded("inputs", "a part of cat ends inside of a stick of the result",
                       "copy the parts into views of a tensor: Context::copy()");
    }
    lowering.store(part, place);
    start += length;
  }
}

void require_index(const Value& index) {
  if (index.format() == program::Format::Int32) return;
  throw InvalidArgument("dtype", "indices of type " + std::string(name(index.form.layout.device_dtype)),
                        "give int32 or int64");
}

// out[index[i…], :] = rows[i…, :]; the other rows of out stay.
void lower_index_copy(Lowering& lowering) {
  if (lowering.inputs() != 2) throw InvalidArgument("inputs", "index_copy", "give the indices and the rows");
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
  if (lowering.inputs() != 2) throw InvalidArgument("inputs", "embedding", "give the table and the indices");
  const Value& table = lowering.input(0);
  const Value& index = lowering.input(1);
  if (table.rank() != 2 || !table.access.present[0]) {
    throw InvalidArgument("shape", "a table of " + to_string(table.size()), "give [rows, width] with two rows or more");
  }
  require_index(index);
  const Value& rows = lowering.with_stick(lowering.materialised(table), 1);
  std::vector<std::int64_t> size = index.size();
  size.push_back(table.size()[1]);
  const Value& out = lowering.output(size, table.form.base.dtype, table.form.layout.device_dtype);
  const std::size_t rank = size.size();
  const bool fits = out.stick() == rank - 1 || out.size().back() == 1;
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
  if (lowering.inputs() == 0) throw InvalidArgument("inputs", "nothing to copy", "give a tensor");
  switch (lowering.request().op) {
    case Op::Cat: return lower_cat(lowering);
    case Op::Embedding: return lower_embedding(lowering);
    case Op::IndexCopy: return lower_index_copy(lowering);
    default: return lower_copy(lowering);
  }
}

}  // namespace svp::ops
