// SPDX-License-Identifier: Apache-2.0
// Host memory that transfers from the card are about to write. A transfer to the card reads its memory when it is
// launched: one that reads what an earlier transfer of its stream writes has to wait for that.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "host_driver/base/watched_end.hpp"

namespace flex::detail {

class HostWrites {
 public:
  // Under way until the result goes.
  std::shared_ptr<const void> add(unsigned stream, const std::byte* memory, std::size_t bytes) {
    Write write{stream, memory, memory + bytes, {}};
    auto under_way = write.written.begin();
    const std::lock_guard lock(mutex_);
    std::erase_if(writes_, [](const Write& earlier) { return earlier.written.reached(); });
    writes_.push_back(std::move(write));
    return under_way;
  }

  // Whether one of the stream writes into this memory. When none does, what earlier ones wrote is visible.
  bool reach(unsigned stream, const std::byte* memory, std::size_t bytes) const {
    const std::lock_guard lock(mutex_);
    for (const Write& write : writes_) {
      const bool same = write.stream == stream && memory < write.end && write.begin < memory + bytes;
      if (same && !write.written.reached()) return true;
    }
    return false;
  }

 private:
  struct Write {
    unsigned stream;
    const std::byte* begin;
    const std::byte* end;
    svp::WatchedEnd written;
  };
  mutable std::mutex mutex_;
  std::vector<Write> writes_;
};

}  // namespace flex::detail
