// SPDX-License-Identifier: Apache-2.0
// C = A, stick by stick: what the card's memory gives under the emulator, the peer that other kernels are measured
// against. Cores take stick columns in turn.
#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"

namespace {
enum Symbol : unsigned { kAddressA, kStrideA, kAddressC, kStrideC, kM, kN };
constexpr std::uint64_t kRun = 8;  // sticks in one move
}  // namespace

SPYRE_KERNEL({
    .name = "copy",
    .operands = {{.name = "A", .access = kernel::Access::Read, .shape = {"M", "N"}},
                 {.name = "C", .access = kernel::Access::Write, .shape = {"M", "N"}}},
    .symbols = {kernel::address_of(0), kernel::stride_of(0, "N"), kernel::address_of(1), kernel::stride_of(1, "N"),
                kernel::extent_of(0, "M"), kernel::extent_of(0, "N")},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const StickTensor a{symbol(kAddressA), symbol(kStrideA)};
  const StickTensor c{symbol(kAddressC), symbol(kStrideC)};
  const std::uint64_t rows = symbol(kM);
  const std::uint64_t columns = (symbol(kN) + kLanes - 1) / kLanes;
  const Share share(arguments);
  for (std::uint64_t column = share.first; column < columns; column += share.step) {
    std::uint64_t row = 0;
    for (; row + kRun <= rows; row += kRun) store_registers8(c.stick(row, column), load_sticks8(a.stick(row, column)));
    for (; row < rows; ++row) store_register(c.stick(row, column), load_stick(a.stick(row, column)));
  }
  return 0;
}
