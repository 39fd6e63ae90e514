// SPDX-License-Identifier: Apache-2.0
// What every test of an attached function needs: deadlines, sinks, and makers of good control blocks.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "host_driver/device/device.hpp"
#include "tests/bounds.hpp"
#include "tests/unit/host_driver/device/recorder.hpp"

namespace svp::test {

// Everything ends within this on a loaded two-core machine; every bound of the card and the driver is shorter.
inline constexpr std::chrono::seconds kBound = test_bounds::kWork;
inline Device::TimePoint soon() { return Device::Clock::now() + kBound; }

// The value, or the error thrown: GoogleTest shows its text.
template <typename T>
T must(Expected<T> result) {
  if (!result) throw Error(std::move(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

// The window behind a device: its host memory starts at a fixed place of it.
inline std::byte* window_of(const Device& device) { return device.host_memory().data() - device.host_memory_offset(); }
// Of a stream, as the card published it last.
std::uint64_t started_sequence(const Device& device, std::uint32_t stream);

// Hears how blocks ended and keeps it all. The device calls one at a time, and the count is the last thing that a call touches:
// who has seen the count may read the rest, and destroy this when it was the last block.
class Endings final : public CompletionSink {
 public:
  void on_completion(const wire::Completion& completion) noexcept override {
    all_.push_back(completion);
    count_.store(all_.size(), std::memory_order_release);
  }
  std::size_t count() const { return count_.load(std::memory_order_acquire); }
  const std::vector<wire::Completion>& all() const { return all_; }

 private:
  std::vector<wire::Completion> all_;
  std::atomic<std::size_t> count_{0};
};

// A device with one Tensor and one Program region of 2 MiB, and makers of good blocks on them. Host memory is used as the
// blocks say; nothing allocates it.
class Workbench {
 public:
  static constexpr std::uint64_t kRegionBytes = 2 * wire::kMiB;

  explicit Workbench(Device& device);

  Device& device() const { return device_; }
  const Region& tensor() const { return tensor_; }
  const Region& program() const { return program_; }

  wire::Endpoint host(std::uint64_t offset) const;  // in host memory
  wire::Endpoint tensor(std::uint64_t offset) const { return in(tensor_, offset); }
  wire::Endpoint program(std::uint64_t offset) const { return in(program_, offset); }

  static wire::ControlBlock nop() { return test::nop(); }
  static wire::ControlBlock dma(const wire::Endpoint& from, const wire::Endpoint& to, std::uint64_t bytes);
  static wire::ControlBlock fill(const wire::Endpoint& at, std::uint64_t bytes, std::uint64_t pattern);
  wire::ControlBlock compute(std::uint64_t image_offset, std::uint64_t image_bytes, std::uint64_t core_mask = 1,
                             std::uint64_t budget = 0) const;

  // Submits one block and waits for its end.
  wire::Completion run(const wire::ControlBlock& block, std::uint32_t stream = 0) const;
  // Puts bytes into the Program region, by way of the end of host memory.
  void load(std::uint64_t offset, std::span<const std::byte> image) const;

 private:
  static wire::Endpoint in(const Region& region, std::uint64_t offset) {
    return {region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
  }

  Device& device_;
  Region tensor_;
  Region program_;
};

}  // namespace svp::test
