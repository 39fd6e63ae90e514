// SPDX-License-Identifier: Apache-2.0
// The device side of one packed queue for tests: the firmware's own state machine behind the driver's, in one window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "firmware/core/packed_queue.hpp"
#include "host_driver/transport/packed_queue.hpp"
#include "shared/window.hpp"

namespace svp::test {

class QueuePair {
 public:
  explicit QueuePair(std::uint16_t size, bool event_idx = true, std::uint16_t max_chains = 0, bool indirect = false)
      : memory_((indirect ? wire::kMinWindowBytes : wire::kQueueBlock.end()) / 8),  // tables lie in host memory
        layout_{size, wire::kQueueBlock.offset, wire::kQueueBlock.offset + 32 * wire::kKiB,
                wire::kQueueBlock.offset + 32 * wire::kKiB + wire::kStickBytes},
        driver(window(), layout_, max_chains != 0 ? max_chains : size, event_idx) {
    device.set(window(), size, layout_.descriptors, layout_.driver_area, layout_.device_area);
    device.set_features(event_idx, indirect);
  }

  std::span<std::byte> window() { return std::as_writable_bytes(std::span(memory_)); }
  wire::DescriptorWords& descriptor(std::uint16_t index) {
    return reinterpret_cast<wire::DescriptorWords*>(window().data() + layout_.descriptors)[index];
  }
  std::uint32_t& driver_area() { return *reinterpret_cast<std::uint32_t*>(window().data() + layout_.driver_area); }
  std::uint32_t& device_area() { return *reinterpret_cast<std::uint32_t*>(window().data() + layout_.device_area); }

 private:
  std::vector<std::uint64_t> memory_;
  wire::QueueLayout layout_;

 public:
  PackedQueue driver;
  fw::PackedQueue device;
};

// A chain of `buffers` descriptors, the last one writable when there is more than one. Our firmware takes at most two.
inline std::vector<RingBuffer> chain(std::size_t buffers) {
  std::vector<RingBuffer> list;
  for (std::size_t i = 0; i < buffers; ++i) {
    list.push_back(
        {wire::kHostMemoryOffset + i * wire::kStickBytes, wire::kStickBytes, i + 1 == buffers && buffers > 1});
  }
  return list;
}

}  // namespace svp::test
