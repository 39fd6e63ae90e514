// SPDX-License-Identifier: Apache-2.0
// System calls of the driver that a scenario may let fail, as -1 with errno (mmap: MAP_FAILED).
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <type_traits>

#include "host_driver/base/host_faults.hpp"

namespace svp {

// What `call()` returns, or its failure when a fault says so; `call` is not made then.
template <typename Call>
std::invoke_result_t<Call> system_call(Call&& call) {
  using Result = std::invoke_result_t<Call>;
  if (const int error = system_call_error(); error != 0) [[unlikely]] {
    errno = error;
    if constexpr (std::is_pointer_v<Result>) {
      return static_cast<Result>(MAP_FAILED);
    } else {
      return Result{-1};
    }
  }
  return call();
}

}  // namespace svp
