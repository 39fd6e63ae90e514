// SPDX-License-Identifier: Apache-2.0
// Memory that was released while a stream may still use it, without a launch that names it (record_stream()). The list
// of a launch: let go when it and all before it have ended.
#pragma once

#include <memory>
#include <utility>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {

struct RecordedUse {
  std::unique_ptr<RecordedUse> next{};
  AllocationUses uses{};
};

class RecordedUses {
 public:
  RecordedUses() = default;
  ~RecordedUses() { let_go(); }
  RecordedUses(const RecordedUses&) = delete;
  RecordedUses& operator=(const RecordedUses&) = delete;

  void push(std::unique_ptr<RecordedUse> use) noexcept {
    use->next = std::move(first_);
    first_ = std::move(use);
  }
  // One by one: a list of a million must not be as many frames deep.
  void let_go() noexcept {
    while (first_ != nullptr) first_ = std::move(first_->next);
  }

 private:
  std::unique_ptr<RecordedUse> first_;
};

}  // namespace svp
