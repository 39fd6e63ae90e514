// SPDX-License-Identifier: Apache-2.0
// Asking the compute array (shared/array.hpp).
#pragma once

#include <cstdint>

#include "firmware/kernels/sdk.hpp"
#include "shared/array.hpp"

namespace kernel {

// The hint does nothing on a card without array: then the outcome is None.
inline wire::array::Outcome hint_array(wire::array::Request& request) {
  request.outcome = wire::array::Outcome::None;
  static_assert(wire::array::kWorkHint == 0x5A202013);
  asm volatile(".word 0x5A202013" ::: "memory");
  return request.outcome;
}

// While somebody breaks the array on purpose, the firmware is asked first. It answers each call with an order, or ends
// the launch.
[[gnu::cold, gnu::noinline]] inline wire::array::Outcome ask_array_by_order(wire::array::Request& request) {
  wire::array::Outcome outcome = request.outcome;
  while (outcome >= wire::array::Outcome::Ask) {
    environment_call(wire::KernelCall::ArrayOrder, 0);
    outcome = hint_array(request);
  }
  return outcome;
}

inline wire::array::Outcome ask_array(wire::array::Request& request) {
  const wire::array::Outcome outcome = hint_array(request);
  return outcome < wire::array::Outcome::Ask ? outcome : ask_array_by_order(request);
}

// Reaches the byte that the array did not find mapped. It is mapped then; or the launch ends here, by a fault at that
// address, as it would if the kernel had executed the operation.
inline void touch(const wire::array::Request& request) {
  if (request.operand == wire::array::kOutput) {
    asm volatile("amoor.w zero, zero, (%0)" ::"r"(request.address) : "memory");
  } else {
    std::uint64_t ignored = 0;
    asm volatile("lbu %0, (%1)" : "=r"(ignored) : "r"(request.address) : "memory");
  }
}

// Of a request that ends as a whole. False: the array refuses it, or there is none.
inline bool is_done_by_array(wire::array::Request& request) {
  constexpr unsigned kTries = 32;  // at bytes that are not mapped yet
  for (unsigned tries = 0; tries < kTries; ++tries) {
    const wire::array::Outcome outcome = ask_array(request);
    if (outcome == wire::array::Outcome::Done) return true;
    if (outcome != wire::array::Outcome::Missing) return false;
    touch(request);
  }
  return false;
}

}  // namespace kernel
