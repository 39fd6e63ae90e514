// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/elements.hpp"

namespace kernel::engine {

Index input_index(const Work& work, const Index& index) {
  Index input = index;
  for (unsigned d = 0; d < work.operation.rank; ++d) {
    if ((work.output().present >> d & 1) == 0) input.of[d] = 0;
  }
  return input;
}

std::uint64_t address_of(const Work& work, const Operand& operand, const Index& index) {
  std::uint64_t address = work.address(operand);
  for (unsigned d = 0; d < work.operation.rank; ++d) {
    std::uint32_t n = index.of[d];
    if (operand.base == program::Base::Scratchpad && operand.split[d] > 1) {
      const std::uint32_t part = work.operation.extent[d] / operand.split[d];
      address += std::uint64_t{n / part} * operand.split_stride[d] * program::kScratchpadStride;
      n %= part;
    }
    if ((operand.present >> d & 1) == 0) continue;
    const std::uint32_t lanes = d == operand.stick_dim ? program::lanes_of(operand.format) : 1;
    address += operand.stride[d] * (n / lanes) + std::uint64_t{n % lanes} * program::item_bytes(operand.format);
  }
  return address;
}

std::uint32_t load_element(std::uint64_t address, unsigned bytes) {
  switch (bytes) {
    case 1: return *reinterpret_cast<const std::uint8_t*>(address);
    case 2: return *reinterpret_cast<const std::uint16_t*>(address);
    default: return *reinterpret_cast<const std::uint32_t*>(address);
  }
}

void store_element(std::uint64_t address, unsigned bytes, std::uint32_t bits) {
  switch (bytes) {
    case 1: *reinterpret_cast<std::uint8_t*>(address) = static_cast<std::uint8_t>(bits); break;
    case 2: *reinterpret_cast<std::uint16_t*>(address) = static_cast<std::uint16_t>(bits); break;
    default: *reinterpret_cast<std::uint32_t*>(address) = bits; break;
  }
}

}  // namespace kernel::engine
