// SPDX-License-Identifier: Apache-2.0
// How far a stream is, for FlexAllocator: memory that was freed while work of one stream uses it can be given at once
// to what is launched on that stream later (docs/memory.md).
#pragma once

#include <atomic>
#include <cstdint>

namespace svp {

class StreamChannel;

// Outlives every use that names it.
struct UseClock {
  StreamChannel* stream = nullptr;
  std::atomic<std::uint64_t> launched{0};  // launches that have their place in the stream
  std::atomic<std::uint64_t> ended{0};     // launches up to this number have ended
  std::atomic<std::uint32_t> open{0};      // AllocationUses of launches that have no place yet
};

// Until a launch of a stream has ended, memory belongs to it.
struct AwaitedUse {
  const UseClock* stream = nullptr;
  std::uint64_t launch = 0;

  bool ended() const { return stream->ended.load(std::memory_order_acquire) >= launch; }
};

}  // namespace svp
