// SPDX-License-Identifier: Apache-2.0
// Host memory that transfers from the card are about to write. A transfer to the card reads its memory when it is
// launched: one that reads what an earlier transfer of its stream writes has to wait for that.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

namespace flex::detail {

class HostWrites {
 public:
  // Under way until the result goes.
  std::shared_ptr<const void> add(unsigned stream, const std::byte* memory, std::size_t bytes) {
    auto token = std::make_shared<char>();
    const std::lock_guard lock(mutex_);
    std::erase_if(writes_, [](const Write& write) { return write.under_way.expired(); });
    writes_.push_back({stream, memory, memory + bytes, token});
    return token;
  }

  // Whether one of the stream writes into this memory.
  bool reach(unsigned stream, const std::byte* memory, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    for (const Write& write : writes_) {
      const bool same = write.stream == stream && memory < write.end && write.begin < memory + bytes;
      if (same && !write.under_way.expired()) return true;
    }
    return false;
  }

 private:
  struct Write {
    unsigned stream;
    const std::byte* begin;
    const std::byte* end;
    std::weak_ptr<const void> under_way;
  };
  mutable std::mutex mutex_;
  std::vector<Write> writes_;
};

}  // namespace flex::detail
