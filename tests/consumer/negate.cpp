// SPDX-License-Identifier: Apache-2.0
// B = -A by element, DL16 [M, N] in stick layout: a stick is 16 words of four elements, whose top bits are the signs.
// Cores take stick columns in turn.
#include <spyre_kernel.hpp>

namespace {
enum Symbol : unsigned { kAddressA, kStrideA, kAddressB, kStrideB, kM, kN };
constexpr std::uint64_t kSigns = 0x8000'8000'8000'8000;
}  // namespace

SPYRE_KERNEL({
    .name = "negate",
    .operands = {{.name = "A", .access = kernel::Access::Read, .shape = {"M", "N"}},
                 {.name = "B", .access = kernel::Access::Write, .shape = {"M", "N"}}},
    .symbols = {kernel::address_of(0), kernel::stride_of(0, "N"), kernel::address_of(1), kernel::stride_of(1, "N"),
                kernel::extent_of(0, "M"), kernel::extent_of(0, "N")},
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const StickTensor a{symbol(kAddressA), symbol(kStrideA)};
  const StickTensor b{symbol(kAddressB), symbol(kStrideB)};
  const std::uint64_t columns = (symbol(kN) + kLanes - 1) / kLanes;
  const Share share(arguments);
  for (std::uint64_t column = share.first; column < columns; column += share.step) {
    for (std::uint64_t row = 0; row < symbol(kM); ++row) {
      const auto* from = reinterpret_cast<const std::uint64_t*>(a.stick(row, column));
      auto* to = reinterpret_cast<std::uint64_t*>(b.stick(row, column));
      for (unsigned word = 0; word < wire::kStickBytes / sizeof(std::uint64_t); ++word) to[word] = from[word] ^ kSigns;
    }
  }
  return 0;
}
