// SPDX-License-Identifier: Apache-2.0
// Copy: bits when the formats are the same.
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/rows.hpp"
#include "firmware/kernels/vector.hpp"

namespace kernel::engine {
namespace {

constexpr std::uint64_t kMove = 8;  // sticks in one move

void copy_bits(const Rows& rows) {
  std::byte* to = rows.out;
  const std::byte* from = rows.in[0];
  std::uint64_t left = rows.count;
  if (rows.out_step == wire::kStickBytes && rows.in_step[0] == wire::kStickBytes) {
    for (; left >= kMove; left -= kMove) {
      store_registers8(to, load_sticks8(from));
      to += kMove * wire::kStickBytes;
      from += kMove * wire::kStickBytes;
    }
  }
  for (; left > 0; --left) {
    store_register(to, load_stick(from));
    to += rows.out_step;
    from += rows.in_step[0];
  }
}

}  // namespace

Refusal copy(const Work& work) {
  if (work.operation.operand[0].format != work.output().format) return convert(work);
  RowWalk walk(work, 1);
  return walk.for_each(copy_bits);
}

}  // namespace kernel::engine
