// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/tenant_card.hpp"

#include <algorithm>
#include <cstring>

#include "tests/bench/card/statistics.hpp"
#include "tests/support/block_builder.hpp"

namespace bench {

namespace {

using svp::test::Blocks;

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

wire::Endpoint DirtyRegion::at(std::uint64_t offset) const { return svp::test::endpoint_of(region_, offset); }

void DirtyRegion::dirty(std::uint64_t bytes) { BlockClient(device_).run(Blocks::fill(at(0), bytes, kPattern)); }

void DirtyRegion::require_zero(std::uint64_t bytes) {
  BlockClient client(device_);
  const auto memory = host_.allocate(std::min(bytes, kReadBytes));
  const wire::Endpoint host{0, memory.window_offset(), 0, wire::EndpointKind::HostMemory, {}};
  for (std::uint64_t offset = 0; offset < bytes; offset += memory.size()) {
    const std::uint64_t part = std::min<std::uint64_t>(bytes - offset, memory.size());
    std::memset(memory.data(), 0xFF, part);
    client.run(Blocks::dma(at(offset), host, part));
    // All zero: the first byte is, and each is like the one before it.
    const std::byte* data = memory.data();
    require(data[0] == std::byte{0} && std::memcmp(data, data + 1, part - 1) == 0,
            "memory of an earlier owner was not clean");
  }
}

double DirtyRegion::copy(std::uint64_t bytes) {
  const auto block = Blocks::dma(at(0), at(bytes), bytes);
  BlockClient client(device_);
  const auto start = Clock::now();
  client.run(block);
  return ns_since(start);
}

void DirtyRegion::release() { svp::value_or_throw(device_.release_region(region_)); }

}  // namespace bench
