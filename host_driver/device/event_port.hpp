// SPDX-License-Identifier: Apache-2.0
// Queue 2: buffers for device events, posted by bring-up and posted again as soon as they have been read.
// harvest() is called by the reaping thread; take() by any.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "host_driver/transport/packed_queue.hpp"
#include "host_driver/transport/window.hpp"
#include "shared/admin.hpp"

namespace svp {

class EventPort {
 public:
  static constexpr std::size_t kKept = 256;

  EventPort(Window& window, PackedQueue queue);

  bool has_used() const { return violation_.empty() && queue_.has_used(); }
  // `kick`: the card wants a doorbell for the buffers that were posted again.
  std::size_t harvest(bool& kick);
  const std::string& violation() const { return violation_; }

  std::vector<wire::DeviceEvent> take();
  std::uint64_t received() const { return received_.load(std::memory_order_relaxed); }

 private:
  Window& window_;
  PackedQueue queue_;
  std::string violation_;
  std::mutex mutex_;                           // of kept_
  std::array<wire::DeviceEvent, kKept> kept_;  // the last of them; number n stands at n % kKept
  std::uint64_t kept_end_ = 0;                 // ever kept
  std::uint64_t taken_ = 0;                    // of them
  std::atomic<std::uint64_t> received_{0};
};

}  // namespace svp
