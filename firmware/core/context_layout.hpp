// SPDX-License-Identifier: Apache-2.0
// Where the data of a context lies: in its pages, and in the address space of its core (protocol §7).
#pragma once

#include <cstdint>

#include "firmware/core/image.hpp"
#include "shared/kernel_abi.hpp"

namespace fw {

// One run of pages: arguments page, correction tensor, stack.
inline constexpr std::uint64_t kArgumentsAt = 0;
inline constexpr std::uint64_t kCorrectionAt = kPageBytes;
inline constexpr std::uint64_t kStackAt = kCorrectionAt + wire::kMaxCorrectionBytes;
static_assert(wire::kMaxCorrectionBytes % kPageBytes == 0);
inline constexpr std::uint64_t kContextDataBytes = kStackAt + wire::kKernelStackBytes;

constexpr std::uint64_t context_base(unsigned slot) { return wire::kContextWindow + slot * wire::kContextStride; }
constexpr std::uint64_t area_base(unsigned slot, unsigned area) {
  return context_base(slot) + area * wire::kExecutionAreaStride;
}

// Where kernels that are broken on purpose find instructions to run into: a page behind the last context.
inline constexpr std::uint64_t kPlantedAt = context_base(4);

}  // namespace fw
