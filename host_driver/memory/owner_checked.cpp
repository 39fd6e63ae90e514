// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/owner_checked.hpp"

#include <pthread.h>

#include <system_error>

namespace svp {

void check_owner(std::mutex& mutex) {
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ERRORCHECK);
  pthread_mutex_destroy(mutex.native_handle());
  pthread_mutex_init(mutex.native_handle(), &attributes);
  pthread_mutexattr_destroy(&attributes);
}

bool unlock_if_mine(std::mutex& mutex) {
  try {
    const std::scoped_lock lock(mutex);
    return false;
  } catch (const std::system_error&) {
    mutex.unlock();
    return true;
  }
}

LockUnlessMine::LockUnlessMine(std::mutex& mutex) noexcept {
  try {
    lock_ = std::unique_lock(mutex);
  } catch (const std::system_error&) {
    lock_ = {};  // this thread has it locked
  }
}

}  // namespace svp
