// SPDX-License-Identifier: Apache-2.0
// C = A + B by element, DL16 [M, N] in stick layout: the fp32 sum of the decoded operands, rounded to DL16 (nearest,
// ties away from zero); NaN is 0x7FFE, overflow 0x7FFF with the sign; (-0) + (-0) is -0, other exact zeros
// are +0.
//
// Cores take stick columns in turn. Padding lanes are added like the others. The rows of A and B have strides, so that
// a row may be added to every other one.
#include "firmware/kernels/dl16_vector.hpp"
#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

namespace {

enum Symbol : unsigned { kAddressA, kStrideA, kRowA, kAddressB, kStrideB, kRowB, kAddressC, kStrideC, kM, kN };
}  // namespace

SPYRE_KERNEL({
    .name = "add",
    .operands = {{.name = "A", .access = kernel::Access::Read, .shape = {"M", "N"}},
                 {.name = "B", .access = kernel::Access::Read, .shape = {"M", "N"}},
                 {.name = "C", .access = kernel::Access::Write, .shape = {"M", "N"}}},
    .symbols = {kernel::address_of(0), kernel::stride_of(0, "N"), kernel::stride_of(0, "M"), kernel::address_of(1),
                kernel::stride_of(1, "N"), kernel::stride_of(1, "M"), kernel::address_of(2), kernel::stride_of(2, "N"),
                kernel::extent_of(0, "M"), kernel::extent_of(0, "N")},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const StridedStickTensor a{symbol(kAddressA), symbol(kStrideA), symbol(kRowA)};
  const StridedStickTensor b{symbol(kAddressB), symbol(kStrideB), symbol(kRowB)};
  const StickTensor c{symbol(kAddressC), symbol(kStrideC)};
  const std::uint64_t rows = symbol(kM);
  const std::uint64_t columns = (symbol(kN) + kLanes - 1) / kLanes;
  const Share share(arguments);
  for (std::uint64_t column = share.first; column < columns; column += share.step) {
    for (std::uint64_t row = 0; row < rows; ++row) {
      store_register(c.stick(row, column),
                     dl16::sum_of(dl16::load(a.stick(row, column)), dl16::load(b.stick(row, column))));
    }
  }
  return 0;
}
