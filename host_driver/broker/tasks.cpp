// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/tasks.hpp"

#include <system_error>
#include <utility>

#include "host_driver/base/start_thread.hpp"

namespace svp {

bool Tasks::run(Work work) {
  const std::lock_guard lock(mutex_);
  const unsigned id = next_++;
  try {
    threads_[id] = start_thread([this, id, work = std::move(work)]() mutable {
      auto then = work();
      work = nullptr;
      loop_.post([this, id, then = std::move(then)] {
        std::thread ended;
        {
          const std::lock_guard inner(mutex_);
          if (const auto found = threads_.find(id); found != threads_.end()) {
            ended = std::move(found->second);
            threads_.erase(found);
          }
        }
        if (ended.joinable()) ended.join();  // bounded: its last act was to post this closure
        if (then) then();
      });
    });
  } catch (const std::system_error&) {
    threads_.erase(id);
    return false;
  }
  return true;
}

bool Tasks::idle() const {
  const std::lock_guard lock(mutex_);
  return threads_.empty();
}

bool Tasks::join_one() {
  std::thread thread;
  {
    const std::lock_guard lock(mutex_);
    if (threads_.empty()) return false;
    const auto first = threads_.begin();
    thread = std::move(first->second);
    threads_.erase(first);
  }
  thread.join();  // bounded: work() is a command to the card, each bounded by Timeouts
  return true;
}

void Tasks::join() {
  while (join_one()) {
    while (join_one()) {  // bounded: one iteration per thread that is left
    }
    loop_.flush();  // what came back may have started more
  }
  loop_.flush();
}

}  // namespace svp
