// SPDX-License-Identifier: Apache-2.0
// The checksum of a kernel image, in steps: a megabyte takes the emulated card milliseconds, in which hart 0 would
// serve nobody else. The progress belongs to the control block that wants the image.
#pragma once

#include <cstdint>
#include <span>

#include "firmware/hal/memory.hpp"

namespace fw {

inline constexpr std::uint64_t kImageStepBytes = 32 * 1024;
// Without a compute array: CRC32C under emulation takes about nine instructions for a byte.
inline constexpr std::uint64_t kEmulatedImageStepBytes = 8 * 1024;

struct ImageCheck {
  hal::PhysicalAddress source = 0;
  std::uint32_t summed = 0;  // bytes; 0: not begun
  std::uint32_t crc = 0;

  // Whether a write to [address, +bytes) changes what has been summed: then the check begins anew.
  bool overlaps(hal::PhysicalAddress address, std::uint64_t bytes) const {
    return address < source + summed && source < address + bytes;
  }
};

// One step over at most kImageStepBytes; returns its bytes. The check is done when `summed` is image.size().
std::uint64_t sum_image(std::span<const std::byte> image, ImageCheck& check);

}  // namespace fw
