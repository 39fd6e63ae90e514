// SPDX-License-Identifier: Apache-2.0
// Functions on DL16: the second input is a table of all results.
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/rows.hpp"

namespace kernel::engine {
namespace {

constexpr unsigned kWords = wire::kStickBytes / sizeof(std::uint64_t);

std::uint64_t results_of(const std::uint16_t* table, std::uint64_t codes) {
  const std::uint64_t a = table[codes & 0xFFFF];
  const std::uint64_t b = table[codes >> 16 & 0xFFFF];
  const std::uint64_t c = table[codes >> 32 & 0xFFFF];
  const std::uint64_t d = table[codes >> 48];
  return a | b << 16 | c << 32 | d << 48;
}

void look_up(const std::uint16_t* table, const Rows& rows) {
  const std::byte* from = rows.in[0];
  std::byte* to = rows.out;
  for (std::uint64_t n = 0; n < rows.count; ++n) {
    const auto* codes = reinterpret_cast<const std::uint64_t*>(from);
    auto* results = reinterpret_cast<std::uint64_t*>(to);
#pragma clang loop unroll(full)
    for (unsigned w = 0; w < kWords; ++w) results[w] = results_of(table, codes[w]);
    from += rows.in_step[0];
    to += rows.out_step;
  }
}

}  // namespace

Refusal function(const Work& work) {
  if (work.output().format != program::Format::Dl16 || work.inputs() != 2) return work.refuse(Where::Unsupported);
  RowWalk walk(work, 1);
  const auto* table = reinterpret_cast<const std::uint16_t*>(work.address(work.operation.operand[1]));
  return walk.for_each([table](const Rows& rows) { look_up(table, rows); });
}

}  // namespace kernel::engine
