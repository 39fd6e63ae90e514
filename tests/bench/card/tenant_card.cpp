// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/tenant_card.hpp"

#include <algorithm>
#include <cstring>

#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

constexpr std::uint64_t kPattern = 0xD1D1D1D1D1D1D1D1;
constexpr std::uint64_t kReadBytes = 16 * wire::kMiB;  // at a time

}  // namespace

svp::CardOptions tenant_card_options(unsigned cores) {
  svp::CardOptions options;
  options.cores = cores;
  options.virtual_functions = kTenants;
  return options;
}

DirtyRegion::DirtyRegion(svp::Device& device, std::uint64_t bytes)
    : device_(device),
      region_(svp::value_or_throw(device.acquire_region(wire::RegionType::Tensor, bytes))),
      host_(device.host_memory(), device.host_memory_offset(), device.mapping()) {}

wire::Endpoint DirtyRegion::at(std::uint64_t offset) const {
  return {region_.base.region_id, offset, region_.generation, wire::EndpointKind::Region, {}};
}

void DirtyRegion::dirty(std::uint64_t bytes) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Fill;
  block.payload.fill = {.destination = at(0), .bytes = bytes, .pattern = kPattern, .reserved = {}};
  BlockClient(device_).run(block);
}

void DirtyRegion::require_zero(std::uint64_t bytes) {
  BlockClient client(device_);
  const auto memory = host_.allocate(std::min(bytes, kReadBytes));
  const wire::Endpoint host{0, memory.window_offset(), 0, wire::EndpointKind::HostMemory, {}};
  for (std::uint64_t offset = 0; offset < bytes; offset += memory.size()) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes - offset, memory.size());
    std::memset(memory.data(), 0xFF, part);
    wire::ControlBlock block{};
    block.header.opcode = wire::Opcode::Dma;
    block.payload.dma = {.source = at(offset), .destination = host, .bytes = part, .checksum = 0, .flags = 0};
    client.run(block);
    // All zero: the first byte is, and each is like the one before it.
    const std::byte* data = memory.data();
    require(data[0] == std::byte{0} && std::memcmp(data, data + 1, part - 1) == 0,
            "memory of an earlier owner was not clean");
  }
}

double DirtyRegion::copy(std::uint64_t bytes) {
  wire::ControlBlock block{};
  block.header.opcode = wire::Opcode::Dma;
  block.payload.dma = {.source = at(0), .destination = at(bytes), .bytes = bytes, .checksum = 0, .flags = 0};
  BlockClient client(device_);
  const auto start = Clock::now();
  client.run(block);
  return ns_since(start);
}

void DirtyRegion::release() { svp::value_or_throw(device_.release_region(region_)); }

}  // namespace bench
