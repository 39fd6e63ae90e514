// SPDX-License-Identifier: Apache-2.0
// OUT = S ⊕ IN0 ⊕ … ⊕ IN13, bit by bit: as many operands as a kernel of the SDK has, of rank 6, with a scalar among
// them. For tests of what a launch can bring.
#include "firmware/kernels/sdk.hpp"

namespace {

constexpr unsigned kInputs = 14;
enum Symbol : unsigned { kScalar, kFirstInput, kOutput = kFirstInput + kInputs, kFirstExtent };
constexpr unsigned kRank = kernel::kMaxOperandRank;
constexpr std::uint64_t kLanesOfInt32 = wire::kStickBytes / sizeof(std::uint32_t);

consteval kernel::KernelInfo description() {
  kernel::KernelInfo info{.name = "wide"};
  constexpr kernel::DimensionName kShape[kRank] = {"A", "B", "C", "D", "E", "F"};
  info.operands[0] = {.name = "S", .access = kernel::Access::Read, .shape = {}, .format = kernel::Format::Fp32};
  info.symbols[kScalar] = kernel::address_of(0);
  for (unsigned i = 1; i <= kInputs + 1; ++i) {
    kernel::OperandInfo& operand = info.operands[i];
    operand.name = {"IN"};
    operand.name.characters[2] = static_cast<char>('A' + i - 1);
    operand.access = i <= kInputs ? kernel::Access::Read : kernel::Access::Write;
    operand.format = kernel::Format::Int32;
    for (unsigned axis = 0; axis < kRank; ++axis) operand.shape[axis] = kShape[axis];
    info.symbols[i] = kernel::address_of(i);
  }
  info.operands[kInputs + 1].name = {"OUT"};
  for (unsigned axis = 0; axis < kRank; ++axis) {
    info.symbols[kFirstExtent + axis] = kernel::extent_of(1, kShape[axis]);
  }
  return info;
}

std::uint64_t sticks() {
  std::uint64_t count = (kernel::symbol(kFirstExtent + kRank - 1) + kLanesOfInt32 - 1) / kLanesOfInt32;
  for (unsigned axis = 0; axis + 1 < kRank; ++axis) count *= kernel::symbol(kFirstExtent + axis);
  return count;
}

}  // namespace

SPYRE_KERNEL(= description());

std::uint64_t kernel::compute(const wire::KernelArguments& arguments) {
  const std::uint32_t scalar = *reinterpret_cast<const std::uint32_t*>(symbol(kScalar));
  auto* const out = reinterpret_cast<std::uint32_t*>(symbol(kOutput));
  const std::uint64_t count = sticks() * kLanesOfInt32;
  const Share share(arguments);
  for (std::uint64_t i = share.first; i < count; i += share.step) {
    std::uint32_t value = scalar;
    for (unsigned input = 0; input < kInputs; ++input) {
      value ^= reinterpret_cast<const std::uint32_t*>(symbol(kFirstInput + input))[i];
    }
    out[i] = value;
  }
  return 0;
}
