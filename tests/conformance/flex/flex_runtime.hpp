// SPDX-License-Identifier: Apache-2.0
// A runtime for all cases of a program, and the few things that every case does. Nothing but the headers that
// torch-spyre includes: the same sources run over a card on QEMU (libflex.so) and over the native firmware core
// (sanitizers).
#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <flex/flex.hpp>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace flex_test {

inline int device_of_rank() {
  const char* rank = std::getenv("LOCAL_RANK");
  return rank == nullptr || *rank == '\0' ? 0 : std::atoi(rank);
}

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

inline std::string what_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::runtime_error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

class FlexRuntime : public testing::Test {
 protected:
  static void SetUpTestSuite() { open(); }
  static void TearDownTestSuite() { runtime.reset(); }
  static void open() { flex::initializeRuntime(&runtime, device_of_rank()); }

  static flex::RuntimeStream& stream() { return *runtime->getDefaultStream(); }
  static flex::FlexAllocator& allocator() { return *runtime->getAllocator(); }
  static flex::CompositeAddress tensor(std::size_t bytes) { return allocator().allocate(bytes, tensor_memory()); }
  static std::vector<std::uint8_t> content(const flex::CompositeAddress& address) {
    std::vector<std::uint8_t> bytes(address.total_size());
    receive(stream(), bytes.data(), bytes.size(), address);
    stream().synchronize();
    return bytes;
  }

  static inline std::shared_ptr<flex::RuntimeContext> runtime;
};

}  // namespace flex_test
