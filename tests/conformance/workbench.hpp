// SPDX-License-Identifier: Apache-2.0
// What every test of an attached function needs: deadlines, and single blocks.
#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "host_driver/device/device.hpp"
#include "tests/bounds.hpp"
#include "tests/support/block_builder.hpp"
#include "tests/support/block_stream.hpp"

namespace svp::test {

// Everything ends within this on a loaded two-core machine; every bound of the card and the driver is shorter.
inline constexpr std::chrono::seconds kBound = test_bounds::kWork;
inline Device::TimePoint soon() { return Device::Clock::now() + kBound; }

// The window behind a device: its host memory starts at a fixed place of it.
inline std::byte* window_of(const Device& device) { return device.host_memory().data() - device.host_memory_offset(); }
// A block builder with regions of 2 MiB, for tests in which every block ends.
class Workbench : public BlockBuilder {
 public:
  static constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;

  explicit Workbench(Device& device) : BlockBuilder(device, kRegionBytes) {}

  // Submits one block and waits for its end.
  wire::Completion run(const wire::ControlBlock& block, std::uint32_t stream = 0) const;
  // Puts bytes into the Program region.
  void load(std::uint64_t offset, std::span<const std::byte> image) const;
};

}  // namespace svp::test
