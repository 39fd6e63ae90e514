// SPDX-License-Identifier: Apache-2.0
// Add, Sub, Mul, Div.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/rows.hpp"

namespace kernel::engine {
namespace {

template <typename Function>
void on_dl16(const Rows& rows, Function function) {
  const std::byte* a = rows.in[0];
  const std::byte* b = rows.in[1];
  std::byte* out = rows.out;
  for (std::uint64_t n = 0; n < rows.count; ++n) {
    store_register(out, function(dl16::load(a), dl16::load(b)));
    a += rows.in_step[0];
    b += rows.in_step[1];
    out += rows.out_step;
  }
}

}  // namespace

Refusal arithmetic(const Work& work) {
  RowWalk walk(work, 2);
  if (work.output().format != program::Format::Dl16 || work.operation.opcode != Opcode::Add) {
    return work.refuse(Where::Unsupported);
  }
  return walk.for_each(
      [](const Rows& rows) { on_dl16(rows, [](dl16::V a, dl16::V b) { return dl16::sum_of(a, b); }); });
}

}  // namespace kernel::engine
