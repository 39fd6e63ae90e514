// SPDX-License-Identifier: Apache-2.0
// OUT[i] = TABLE[i mod its length] + i, INT32 [N]: the table comes with the correction tensor of the launch, behind the
// symbols, and fills the largest tensor that there is. For tests of large corrections.
#include "firmware/kernels/sdk.hpp"

namespace {

enum Symbol : unsigned { kOut, kN, kSymbols };
constexpr std::uint64_t kLanesOfInt32 = wire::kStickBytes / sizeof(std::uint32_t);

}  // namespace

SPYRE_KERNEL({
    .name = "table",
    .operands = {{.name = "OUT", .access = kernel::Access::Write, .shape = {"N"}, .format = kernel::Format::Int32}},
    .symbols = {kernel::address_of(0), kernel::extent_of(0, "N")},
    .table_bytes = wire::kMaxCorrectionBytes - wire::correction_bytes(kSymbols),
});

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const Table given = table(arguments, kSymbols);
  const std::uint64_t entries = given.bytes / sizeof(std::uint32_t);
  if (entries == 0) return 1;
  const auto* const entry = reinterpret_cast<const std::uint32_t*>(given.data);
  auto* const out = reinterpret_cast<std::uint32_t*>(symbol(kOut));
  const std::uint64_t sticks = (symbol(kN) + kLanesOfInt32 - 1) / kLanesOfInt32;
  const Share share(arguments);
  for (std::uint64_t stick = share.first; stick < sticks; stick += share.step) {
    for (std::uint64_t i = stick * kLanesOfInt32; i < (stick + 1) * kLanesOfInt32; ++i) {
      out[i] = entry[i % entries] + static_cast<std::uint32_t>(i);
    }
  }
  return 0;
}
