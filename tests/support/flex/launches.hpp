// SPDX-License-Identifier: Apache-2.0
// The launches of a program of torch-spyre's runtime interface, in a line each. Nothing but its headers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <flex/flex.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace flex_test {

inline flex::AllocationDirective tensor_memory() {
  return {flex::PlacementPolicy::Bind, {0}, std::nullopt, flex::MemoryType::Tensor};
}
inline flex::AllocationDirective program_memory() {
  return {flex::PlacementPolicy::Bind, {0}, std::nullopt, flex::MemoryType::Program};
}

// A part of an address that is made of one chunk; it owns nothing.
inline flex::CompositeAddress part_of(const flex::CompositeAddress& address, std::uint64_t offset, std::size_t bytes) {
  const flex::Chunk& chunk = address.chunks().front();
  return flex::CompositeAddress(
      flex::Chunk(flex::LogicalAddress(chunk.addr.region_id, chunk.addr.offset + offset), bytes, chunk.domain_id));
}

// Launches as torch-spyre does: parameters made, launched, destroyed.
inline void send(flex::RuntimeStream& stream, const void* host, std::size_t bytes, const flex::CompositeAddress& device,
                 std::shared_ptr<data_conversion_info> conversion = nullptr,
                 std::function<void(void*)> callback = nullptr) {
  struct Guard {
    flex::DmaParams* params;
    ~Guard() { flex::destroyDmaParams(params); }
  } guard{flex::createDmaParams(const_cast<void*>(host), bytes, true, &device, std::move(conversion))};
  guard.params->callback = std::move(callback);
  stream.launchOperationH2D(guard.params);
}
inline void receive(flex::RuntimeStream& stream, void* host, std::size_t bytes, const flex::CompositeAddress& device,
                    std::shared_ptr<data_conversion_info> conversion = nullptr,
                    std::function<void(void*)> callback = nullptr) {
  struct Guard {
    flex::DmaParams* params;
    ~Guard() { flex::destroyDmaParams(params); }
  } guard{flex::createDmaParams(host, bytes, false, &device, std::move(conversion))};
  guard.params->callback = std::move(callback);
  stream.launchOperationD2H(guard.params);
}

inline std::vector<std::uint8_t> counted_bytes(std::size_t count, unsigned first = 1) {
  std::vector<std::uint8_t> bytes(count);
  for (std::size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::uint8_t>(first + i * 7 + i / 251);
  return bytes;
}

}  // namespace flex_test
