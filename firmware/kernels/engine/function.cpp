// SPDX-License-Identifier: Apache-2.0
// Functions. On DL16 the second input is a table of all results; on FP32 each element is evaluated in fp64.
#include "firmware/kernels/engine/families.hpp"
#include "firmware/kernels/engine/rows.hpp"
#include "firmware/kernels/vector.hpp"
#include "shared/real_functions.hpp"

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

void evaluate(const Operation& operation, bool single, const Rows& rows) {
  constexpr unsigned kWordsOfFp32 = wire::kStickBytes / sizeof(std::uint32_t);
  const std::byte* from = rows.in[0];
  std::byte* to = rows.out;
  // An output with one element in each stick has it in all lanes.
  const unsigned elements = single ? 1 : kWordsOfFp32;
  for (std::uint64_t n = 0; n < rows.count; ++n) {
    const auto* in = reinterpret_cast<const std::uint32_t*>(from);
    auto* out = reinterpret_cast<std::uint32_t*>(to);
    for (unsigned w = 0; w < elements; ++w) {
      out[w] = wire::real::evaluate_fp32(operation.opcode, in[w], operation.constant[0], operation.constant[1]);
    }
    for (unsigned w = elements; w < kWordsOfFp32; ++w) out[w] = out[0];
    from += rows.in_step[0];
    to += rows.out_step;
  }
}

}  // namespace

Refusal function(const Work& work) {
  if (work.output().format == program::Format::Fp32) {
    enable_host_float();
    RowWalk walk(work, 1);
    const bool single = work.output().stick_dim == program::kNoDimension;
    return walk.for_each([&work, single](const Rows& rows) { evaluate(work.operation, single, rows); });
  }
  RowWalk walk(work, 1);
  const auto* table = reinterpret_cast<const std::uint16_t*>(work.address(work.operation.operand[1]));
  return walk.for_each([table](const Rows& rows) { look_up(table, rows); });
}

}  // namespace kernel::engine
