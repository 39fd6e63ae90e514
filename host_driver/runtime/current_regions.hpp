// SPDX-License-Identifier: Apache-2.0
// The regions of whatever device a runtime has now: the allocator outlives a device that is replaced.
#pragma once

#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "host_driver/device/device.hpp"
#include "host_driver/memory/region.hpp"

namespace svp {

class CurrentRegions final : public RegionSource {
 public:
  explicit CurrentRegions(std::shared_ptr<Device> device) : device_(std::move(device)) {}

  Expected<Region> acquire(RegionType type, std::uint64_t bytes) override {
    const auto device = usable();
    if (device == nullptr) return std::unexpected(being_recovered());
    return device->acquire_region(type, bytes);
  }
  Expected<void> release(const Region& region) override {
    const auto device = usable();
    if (device == nullptr) return std::unexpected(being_recovered());
    return device->release_region(region);
  }
  std::uint64_t guaranteed_bytes() const override {
    const auto device = usable();
    return device == nullptr ? 0 : device->config().share_bytes;
  }
  std::uint64_t budget_bytes() const override {
    const auto device = usable();
    return device == nullptr ? 0 : device->config().budget_bytes;
  }
  Expected<MemoryInfo> memory_info() override {
    const auto device = usable();
    if (device == nullptr) return std::unexpected(being_recovered());
    return device->memory_info();
  }

  // From now on nobody gets a region …
  void shut() { set(nullptr, {}); }
  // … but this thread, from a new device …
  void open_here(std::shared_ptr<Device> device) { set(std::move(device), std::this_thread::get_id()); }
  // … and then everybody.
  void open(std::shared_ptr<Device> device) { set(std::move(device), {}); }

 private:
  void set(std::shared_ptr<Device> device, std::thread::id only) {
    const std::lock_guard lock(mutex_);
    std::swap(device_, device);  // the old one ends outside of the lock, if it ends here
    only_ = only;
  }
  std::shared_ptr<Device> usable() const {
    const std::lock_guard lock(mutex_);
    return only_ == std::thread::id() || only_ == std::this_thread::get_id() ? device_ : nullptr;
  }
  static ErrorInfo being_recovered() {
    return {.layer = Layer::Driver,
            .source = "device",
            .outcome = wire::Outcome::Aborted,
            .recoverable = true,
            .next_step = "try again when recover() has returned",
            .message = "the device is being recovered, or its recovery failed"};
  }

  mutable std::mutex mutex_;
  std::shared_ptr<Device> device_;
  std::thread::id only_{};
};

}  // namespace svp
