// SPDX-License-Identifier: Apache-2.0
// A card's region pool for tests: grants from a fixed capacity, first come first served, as the firmware does.
#pragma once

#include <array>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"
#include "host_driver/memory/region.hpp"

namespace svp::testing {

class FakeRegionSource : public RegionSource {
 public:
  explicit FakeRegionSource(std::uint64_t capacity) : free_(capacity), capacity_(capacity) {}

  Expected<Region> acquire(RegionType type, std::uint64_t bytes) override {
    const std::scoped_lock lock(mutex_);
    asked.push_back(bytes);
    if (during_acquire) during_acquire();
    if (failure) return std::unexpected(*failure);
    const std::uint32_t ordinal = free_ordinal(type);
    if (bytes > free_ || ordinal == wire::kRegionsPerFunction) {
      return std::unexpected(ErrorInfo{.layer = Layer::Firmware,
                                       .source = "region pool",
                                       .outcome = wire::Outcome::Rejected,
                                       .recoverable = true,
                                       .next_step = "ask for less",
                                       .message = "out of device memory"});
    }
    free_ -= bytes;
    Region region{.base = {.region_id = first_region_id + ordinal, .offset = 0},
                  .generation = ++generation_,
                  .ordinal = ordinal,
                  .bytes = bytes,
                  .type = type};
    held_[ordinal] = region;
    if (corrupt_grant) corrupt_grant(region);
    return region;
  }

  Expected<void> release(const Region& region) override {
    const std::scoped_lock lock(mutex_);
    if (release_failure) return std::unexpected(*release_failure);
    if (held_[region.ordinal] != region) return std::unexpected(failed("released a region that is not held"));
    free_ += region.bytes;
    held_[region.ordinal].reset();
    ++released;
    return {};
  }

  std::uint64_t guaranteed_bytes() const override { return share; }
  std::uint64_t budget_bytes() const override {
    if (budget_asked) budget_asked();
    return budget;
  }

  Expected<MemoryInfo> memory_info() override {
    const std::scoped_lock lock(mutex_);
    if (failure) return std::unexpected(*failure);
    return MemoryInfo{.free_bytes = free_, .total_bytes = capacity_};
  }

  // An error that is not about size: the card is broken or gone.
  static ErrorInfo failed(std::string message, wire::Outcome outcome = wire::Outcome::Fault) {
    return {.layer = Layer::Transport,
            .source = "card",
            .outcome = outcome,
            .recoverable = false,
            .next_step = "start again",
            .message = std::move(message)};
  }

  // As after a reset of the function: everything is back.
  void forget() {
    const std::scoped_lock lock(mutex_);
    for (auto& region : held_) {
      if (region) free_ += region->bytes;
      region.reset();
    }
  }

  int held_count() const {
    int count = 0;
    for (const auto& region : held_) count += region.has_value();
    return count;
  }

  std::uint64_t first_region_id = 100;
  std::uint64_t share = 0;
  std::uint64_t budget = 0;
  std::function<void()> budget_asked;
  std::vector<std::uint64_t> asked;
  int released = 0;
  std::optional<ErrorInfo> failure;
  std::optional<ErrorInfo> release_failure;
  std::function<void(Region&)> corrupt_grant;
  std::function<void()> during_acquire;

 private:
  std::uint32_t free_ordinal(RegionType type) const {
    if (type == RegionType::Program)
      return held_[wire::kProgramRegion] ? wire::kRegionsPerFunction : wire::kProgramRegion;
    for (std::uint32_t i = 0; i < wire::kProgramRegion; ++i) {
      if (!held_[i]) return i;
    }
    return wire::kRegionsPerFunction;
  }

  std::mutex mutex_;
  std::uint64_t free_;
  std::uint64_t capacity_;
  std::uint32_t generation_ = 0;
  std::array<std::optional<Region>, wire::kRegionsPerFunction> held_;
};

// Regions of one size, and no wait for work under way.
inline FlexAllocatorOptions regions_of(std::uint64_t bytes) {
  FlexAllocatorOptions options;
  options.region_bytes = options.program_bytes = {bytes};
  // reached: what is in use stays so, or there is nothing to wait for
  options.timeout = std::chrono::nanoseconds(1);
  return options;
}

}  // namespace svp::testing
