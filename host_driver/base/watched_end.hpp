// SPDX-License-Identifier: Apache-2.0
// The end of work that others hold, for a thread that does not: who sees that it has ended sees what it wrote.
// std::weak_ptr::expired() does not promise that: it reads the count of holders without order.
#pragma once

#include <atomic>
#include <memory>
#include <utility>

namespace svp {

class WatchedEnd {
 public:
  // Of no work: it has ended.
  WatchedEnd() = default;

  // Begins the work that this watches; it ends when the last copy of the result goes.
  std::shared_ptr<const void> begin() {
    auto ended = std::make_shared<std::atomic<bool>>(false);
    ended_ = ended;
    std::atomic<bool>* const flag = ended.get();
    return {flag, [kept = std::move(ended)](const void*) { kept->store(true, std::memory_order_release); }};
  }

  bool reached() const { return ended_ == nullptr || ended_->load(std::memory_order_acquire); }

 private:
  std::shared_ptr<const std::atomic<bool>> ended_;
};

}  // namespace svp
