// SPDX-License-Identifier: Apache-2.0
// Makers of good blocks on a function with one Tensor and one Program region. Host memory is used as the blocks say;
// nothing allocates it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "host_driver/device/device.hpp"
#include "shared/kernel_abi.hpp"
#include "tests/support/blocks.hpp"

namespace svp::test {

inline wire::Endpoint endpoint_of(const Region& region, std::uint64_t offset = 0) {
  return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
}
// In the host memory of a device, from its start.
inline wire::Endpoint host_endpoint(const Device& device, std::uint64_t offset) {
  return {0, device.host_memory_offset() + offset, 0, wire::EndpointKind::HostMemory, {}};
}

wire::CorrectionSymbol address_symbol(std::uint32_t operand, const Region& region, std::uint64_t offset);
wire::CorrectionSymbol dimension_symbol(std::uint32_t operand, std::uint64_t value);
// The correction tensor of a launch: its symbols, and the regions that the kernel may touch.
std::vector<std::byte> correction_of(std::span<const wire::CorrectionSymbol> symbols,
                                     std::span<const Region* const> regions);

class BlockBuilder : public Blocks {
 public:
  static constexpr std::uint64_t kRegionBytes = 4 * wire::kMiB;
  // Acquires the two regions. The device outlives this. Throws svp::Error.
  explicit BlockBuilder(Device& device, std::uint64_t region_bytes = kRegionBytes);

  Device& device() const { return device_; }
  const Region& tensor() const { return tensor_; }
  const Region& program() const { return program_; }
  wire::Endpoint tensor(std::uint64_t offset) const { return endpoint_of(tensor_, offset); }
  wire::Endpoint program(std::uint64_t offset) const { return endpoint_of(program_, offset); }
  wire::Endpoint host(std::uint64_t offset) const { return host_endpoint(device_, offset); }

  // Of an image at `offset` of the Program region.
  wire::ControlBlock compute(std::uint64_t offset, std::uint64_t bytes, std::uint64_t core_mask = 1,
                             std::uint64_t budget = 0) const {
    return launch(program(offset), bytes, core_mask, budget);
  }
  // Puts bytes at the end of host memory; the block that moves them from there to `offset` of the Program region.
  wire::ControlBlock loading(std::uint64_t offset, std::span<const std::byte> bytes) const;

  std::span<std::uint64_t> host_words(std::uint64_t offset, std::uint64_t bytes) const {
    return {reinterpret_cast<std::uint64_t*>(device_.host_memory().data() + offset), bytes / sizeof(std::uint64_t)};
  }

 private:
  Device& device_;
  Region tensor_;
  Region program_;
};

}  // namespace svp::test
