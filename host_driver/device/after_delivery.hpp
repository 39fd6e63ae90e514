// SPDX-License-Identifier: Apache-2.0
// What a sink leaves for the moment in which the locks of the delivery are gone: whatever runs code of others, such as
// destructors.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "shared/window.hpp"

namespace svp {

class AfterDelivery {
 public:
  // On the thread that has delivered, with no lock of the device held; may be called by several threads at a time.
  virtual void after_delivery() noexcept = 0;

 protected:
  ~AfterDelivery() = default;
};

// Those that asked for it, each once. One per stream at most: more are called with the next delivery.
class AfterDeliveries {
 public:
  void add(AfterDelivery& wanted) {
    for (std::size_t i = 0; i < count_; ++i) {
      if (wanted_[i] == &wanted) return;
    }
    if (count_ < wanted_.size()) wanted_[count_++] = &wanted;
  }
  // Takes over what the other one has.
  void take(AfterDeliveries& other) {
    const std::size_t count = std::exchange(other.count_, 0);
    for (std::size_t i = 0; i < count; ++i) add(*other.wanted_[i]);
  }
  bool empty() const { return count_ == 0; }
  void run() {
    for (std::size_t i = 0; i < count_; ++i) wanted_[i]->after_delivery();
    count_ = 0;
  }

 private:
  std::size_t count_ = 0;
  std::array<AfterDelivery*, wire::kStreamsPerFunction> wanted_;  // uninitialised above count_: this goes on hot stacks
};

}  // namespace svp
