// SPDX-License-Identifier: Apache-2.0
// C = A * B on DL16 sticks, with the project's matrix numerics: the 64 products of a stick chunk along K are summed
// exactly and rounded once to fp32 (nearest even), chunks are added in fp32 in ascending order, the result is rounded
// once to DL16 (nearest, ties away from zero). An exact zero is +0; a NaN in a row of A or a column of B makes every
// element of that row or column of C 0x7FFE; overflow gives 0x7FFF with the sign. Bit-identical everywhere.
//
// A [M,K], B [K,N], C [M,N] in stick layout; any M, N, K; strides are those of the whole tensors, so that a tile of
// rows is addressed by a larger stride. Padding lanes of A and B are never used; those of C are written as zero.
//
// K may be cut into passes of whole chunks: each but the last leaves the fp32 sums in the launch's memory for partial
// results, and each but the first goes on with them. The additions are the same in the same order, so that the result
// does not depend on the passes. A sum that a NaN belongs to is kept as NaN.
//
// The cores claim blocks (block_product.hpp): one that the host keeps from running for a while gets fewer.
#include <cstddef>

#include "firmware/kernels/matmul/block_product.hpp"

namespace kernel::matmul {
namespace {

enum Symbol : unsigned { kAddressA, kStrideA, kAddressB, kStrideB, kAddressC, kStrideC, kM, kN, kK, kPartials, kPass };
enum Status : std::uint64_t { kOk = 0, kScratchpadTooSmall = 1 };

struct Memory {
  wire::array::Request request;  // where the compute array looks for it
  BlockMemory block;
};
static_assert(sizeof(Memory) <= wire::kScratchpadBytes && offsetof(Memory, request) == 0);

struct Problem {
  using Numbers = Dl16Numbers;
  static constexpr bool kPasses = true;

  StickTensor a, b, c;
  std::uint64_t m, n, k;
  std::uint64_t partials;  // [stick column][row][half][32] fp32
  std::uint64_t pass;
  wire::array::Request* array;

  std::uint64_t columns() const { return (n + kLanes - 1) / kLanes; }
  void begin_rows(Extent) {}
  void begin_chunk(std::uint64_t, unsigned) {}
  void begin_panel(std::uint64_t, unsigned, std::uint64_t) {}
  const void* row(std::uint64_t row, std::uint64_t first_k) const { return a.stick(row, first_k / kChunk); }
  const void* panel(std::uint64_t row, std::uint64_t column) const { return b.stick(row, column); }
  ArrayPanel array_panel(std::uint64_t first_k, unsigned /*depth*/, std::uint64_t column, std::uint64_t*) const {
    return {.address = reinterpret_cast<std::uint64_t>(panel(first_k, column)), .step = wire::kStickBytes};
  }
  static bool is_deep() { return true; }
  std::uint64_t row_step() const { return a.column_stride; }
  void store(std::uint64_t row, std::uint64_t column, vuint16m1_t codes) const {
    store_register(c.stick(row, column), codes);
  }

  bool first() const { return (pass & wire::kPassFirst) != 0; }
  bool last() const { return (pass & wire::kPassLast) != 0; }
  float* kept(std::uint64_t row, std::uint64_t stick, unsigned half) const {
    return reinterpret_cast<float*>(partials + ((stick * m + row) * kHalves + half) * wire::kStickBytes);
  }
};

}  // namespace
}  // namespace kernel::matmul

SPYRE_KERNEL({
    .name = "matmul",
    .scratchpad_bytes = sizeof(kernel::matmul::Memory),
    .operands = {{.name = "A", .access = kernel::Access::Read, .shape = {"M", "K"}},
                 {.name = "B", .access = kernel::Access::Read, .shape = {"K", "N"}},
                 {.name = "C", .access = kernel::Access::Write, .shape = {"M", "N"}}},
    .symbols = {kernel::address_of(0), kernel::stride_of(0, "K"), kernel::address_of(1), kernel::stride_of(1, "N"),
                kernel::address_of(2), kernel::stride_of(2, "N"), kernel::extent_of(0, "M"), kernel::extent_of(1, "N"),
                kernel::extent_of(0, "K"), kernel::partials_of(2), kernel::pass_of(2)},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  using namespace kernel::matmul;
  if (arguments.scratchpad_bytes < sizeof(Memory)) return kScratchpadTooSmall;
  enable_host_float();
  auto& memory = *reinterpret_cast<Memory*>(arguments.scratchpad_address);
  Problem problem{{symbol(kAddressA), symbol(kStrideA)},
                  {symbol(kAddressB), symbol(kStrideB)},
                  {symbol(kAddressC), symbol(kStrideC)},
                  symbol(kM),
                  symbol(kN),
                  symbol(kK),
                  symbol(kPartials),
                  symbol(kPass),
                  arguments.array_version == wire::array::kVersion ? &memory.request : nullptr};
  Blocks blocks(problem.m, problem.columns(), 1, arguments.core_count, kBlockRows);
  Claims claims(arguments.core_count);
  while (blocks.go_to(claims.next())) Block(problem, memory.block, blocks.rows(), blocks.sticks()).run();
  return kOk;
}
