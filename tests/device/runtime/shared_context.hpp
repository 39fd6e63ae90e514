// SPDX-License-Identifier: Apache-2.0
// One booted card per test program, a runtime on the function that SPYRE_TEST_FUNCTION names, and the helpers of its
// tests. With FLEX_DEVICE=PF or VF in the environment they run over that function of a running card instead:
// spyre exec -- runtime_compute_device_test.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <random>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "shared/dl16.hpp"
#include "tests/bounds.hpp"
#include "tests/conformance/function_under_test.hpp"

namespace svp::test {

// Everything ends within this on a loaded two-core machine; the watchdog of the card is shorter.
inline constexpr std::chrono::seconds kBound = test_bounds::kCompute;
inline FlexStream::Clock::time_point soon() { return FlexStream::Clock::now() + kBound; }

class OneCard : public testing::Test {
 public:
  static void SetUpTestSuite() {
    svp::ContextOptions options;
    const char* chosen = std::getenv(kFlexDeviceVariable);
    if (chosen == nullptr || *chosen == '\0') {
      options.card.emplace().boot_arguments = "watchdog=200";
      options.function = function_under_test();
    }
    opened = svp::Context::open(std::move(options));
  }
  static void TearDownTestSuite() { opened.reset(); }

  static svp::Context& context() { return *opened; }
  static FlexStream& stream() { return opened->runtime().default_stream(); }
  static AllocationIndex allocate(std::uint64_t bytes) { return opened->runtime().allocator().allocate(bytes); }
  static void free(AllocationIndex index) { opened->runtime().allocator().deallocate(index); }

  // Every test leaves a stream that works.
  void TearDown() override {
    if (stream().error()) stream().Reset();
    EXPECT_NO_THROW(stream().Synchronize(soon()));
  }

  static inline std::unique_ptr<svp::Context> opened;
};

// Quick, different for each seed, without a period that could hide a displacement.
inline void fill_pattern(std::span<std::byte> bytes, std::uint64_t seed) {
  std::uint64_t state = seed * 0x9E3779B97F4A7C15u + 1;
  const auto next = [&] {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  };
  std::size_t at = 0;
  for (; at + 8 <= bytes.size(); at += 8) {
    const std::uint64_t word = next();
    std::memcpy(bytes.data() + at, &word, 8);
  }
  for (; at < bytes.size(); ++at) bytes[at] = static_cast<std::byte>(next());
}

inline std::vector<std::uint16_t> random_dl16(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<std::uint16_t> values(count);
  for (auto& value : values) value = wire::dl16_from_fp32(normal(random));
  return values;
}

}  // namespace svp::test
