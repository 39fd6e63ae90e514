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

#include "tests/support/flex/launches.hpp"

namespace flex_test {

inline int device_of_rank() {
  const char* rank = std::getenv("LOCAL_RANK");
  return rank == nullptr || *rank == '\0' ? 0 : std::atoi(rank);
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
