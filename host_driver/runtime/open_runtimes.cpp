// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/open_runtimes.hpp"

#include <algorithm>

namespace svp {

OpenRuntimes& OpenRuntimes::process() {
  // Never destroyed: contexts may be static objects.
  static auto* const runtimes = new OpenRuntimes;
  return *runtimes;
}

std::uint64_t OpenRuntimes::add(Runtime& runtime) {
  const std::lock_guard lock(mutex_);
  entries_.push_back({runtime, ++last_});
  return last_;
}

void OpenRuntimes::remove(std::uint64_t number) {
  std::unique_lock lock(mutex_);
  const auto entry = std::ranges::find(entries_, number, &Entry::number);
  entry->leaves = true;
  left_.wait(lock, [&] { return entry->visitors == 0; });  // bounded: a visit waits for streams, and those end
  entries_.erase(entry);
}

void OpenRuntimes::leave(Entry& entry) {
  const std::lock_guard lock(mutex_);
  if (--entry.visitors == 0) left_.notify_all();
}

void OpenRuntimes::for_each(const std::function<void(Runtime&)>& visit) {
  for (std::uint64_t after = 0;;) {  // bounded: each iteration visits a runtime that was opened later
    std::unique_lock lock(mutex_);
    const auto next = std::ranges::find_if(entries_, [after](const Entry& e) { return e.number > after && !e.leaves; });
    if (next == entries_.end()) return;
    after = next->number;
    ++next->visitors;
    lock.unlock();
    struct Leave {
      OpenRuntimes& runtimes;
      Entry& entry;
      ~Leave() { runtimes.leave(entry); }
    } const leave{*this, *next};
    visit(next->runtime);
  }
}

}  // namespace svp
