// SPDX-License-Identifier: Apache-2.0
// A mutex that code of others gets a lock of: its owner can not wait for itself, and what was left locked is noticed.
#pragma once

#include <mutex>

namespace svp {

// From now on lock() throws std::system_error (resource_deadlock_would_occur) on the thread that has the mutex locked.
// Nobody uses the mutex yet.
void check_owner(std::mutex& mutex);

// Of a mutex that was given to check_owner(): whether this thread has it locked. It is unlocked then.
bool unlock_if_mine(std::mutex& mutex);

// Likewise: locks it, unless this thread has done so already. Unlocks only what it has locked.
class LockUnlessMine {
 public:
  explicit LockUnlessMine(std::mutex& mutex) noexcept;

 private:
  std::unique_lock<std::mutex> lock_;
};

}  // namespace svp
