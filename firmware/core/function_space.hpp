// SPDX-License-Identifier: Apache-2.0
// One address space of a function (protocol §7): the regions that it maps, the images that it holds, and on each core a
// page table with contexts. AddressSpaces makes and destroys it, on hart 0. A launch that runs on it reads it from the
// harts of its parts: what those read is written before it is published (windows, planted) and constant from then on.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "firmware/core/image.hpp"
#include "firmware/core/launch_limits.hpp"
#include "firmware/hal/context.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/units.hpp"
#include "shared/window.hpp"

namespace fw {

// Where a kernel runs: registers, stack, arguments, scratchpad, and a copy of the pool of every image.
struct ContextSlot {
  hal::Context context;
  bool busy;
  bool mapped;  // data and scratchpad
  std::uint16_t mapped_areas;
  hal::PhysicalAddress data;  // stack, arguments, correction (one run of pages)
  hal::PhysicalAddress scratchpad;
  std::array<hal::PhysicalAddress, wire::kExecutionAreas> pools;
  // What the arguments page tells, which kernels only read: the next launch that would be told the same finds it there.
  struct Told {
    std::uint64_t correction_bytes;
    std::uint32_t index;
    std::uint32_t parts;  // 0: nothing yet
    std::uint32_t area;
    bool operator==(const Told& other) const {  // one branch, not four
      return ((correction_bytes ^ other.correction_bytes) | (index ^ other.index) | (parts ^ other.parts) |
              (area ^ other.area)) == 0;
    }
  } told;
  // Which correction tensor of a command buffer it holds (BufferEntry::tensor), which kernels only read; 0: another
  // one.
  std::uint64_t tensor;
};

// What a space has on one core: a page table and contexts that only its function ever uses.
struct CoreSpace {
  std::uint64_t root;
  std::uint8_t windows;  // regions shared into this root; the core's own hart reads it (atomic_ref)
  std::uint8_t planted;  // 1: the planted instructions are mapped; likewise
  std::array<ContextSlot, kContextsPerCore> contexts;

  bool has_planted() { return std::atomic_ref(planted).load(std::memory_order_acquire) != 0; }
  bool has_window(unsigned ordinal) {
    return (std::atomic_ref(windows).load(std::memory_order_acquire) >> ordinal & 1) != 0;
  }
};

// A region as a space maps it. Written before its window is shared, constant while it is.
struct MappedRegion {
  hal::PhysicalAddress base;
  std::uint64_t bytes;
  bool released;  // by its owner: goes back to the pool with the last space that maps it
};

// Lies in zeroed pages: every member starts as zero.
struct FunctionSpace {
  std::uint32_t function;         // whose it is: Owner
  std::uint32_t launches;         // under way on this space
  std::uint64_t regions_version;  // of the region table that `windows` was made for
  std::uint64_t root;             // holds the region tables; never run itself
  std::uint64_t bytes;            // firmware memory of this space, page tables included
  std::uint8_t windows;           // regions whose tables exist
  std::array<MappedRegion, wire::kRegionsPerFunction> regions;
  std::array<ExecutionArea, wire::kExecutionAreas> areas;
  std::array<CoreSpace*, kMaxCores> cores;
  hal::PhysicalAddress images_begin;  // bounds of all cached images
  hal::PhysicalAddress images_end;

  bool maps(hal::PhysicalAddress base) const {
    for (unsigned i = 0; i < wire::kRegionsPerFunction; ++i) {
      if ((windows >> i & 1) != 0 && regions[i].base == base) return true;
    }
    return false;
  }

  // Where the granule lies that a kernel on `core` sees at `address`; 0: it sees no region there. Decided by what the
  // core's root maps, not by what the function has now: regions may have come and gone since the launch began.
  hal::PhysicalAddress granule_at(unsigned core, std::uint64_t address) const {
    const std::uint64_t window = address >> wire::kRegionShift;
    if (window < 1 || window > wire::kRegionsPerFunction) return 0;
    const auto ordinal = static_cast<unsigned>(window - 1);
    if (!cores[core]->has_window(ordinal)) return 0;
    const std::uint64_t offset = address & ((std::uint64_t{1} << wire::kRegionShift) - 1);
    if (offset >= regions[ordinal].bytes) return 0;
    return regions[ordinal].base + offset / wire::kGranuleBytes * wire::kGranuleBytes;
  }
};

inline constexpr std::uint64_t kCoreSpaceBytes = wire::align_up(sizeof(CoreSpace), kPageBytes);
inline constexpr std::uint64_t kFunctionSpaceBytes = wire::align_up(sizeof(FunctionSpace), kPageBytes);

}  // namespace fw
