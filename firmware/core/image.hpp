// SPDX-License-Identifier: Apache-2.0
// Kernel images: judging one in Program memory, and the places a function keeps loaded ones in. Text is copied by hart
// stores: on this emulator code written by others is not seen by translated code, and on hardware it needs fence.i.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "firmware/core/stream.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/kernel_abi.hpp"

namespace fw {

// Judges the header of the image in `image`, which is card memory. On success `header` is the private copy to use, and
// what is left is the checksum (image_check.hpp).
Verdict check_image_header(std::span<const std::byte> image, wire::ImageHeader& header);

inline constexpr std::uint64_t kPageBytes = 4096;

// A loaded image. Which one it is: the place it was loaded from, as long as nothing wrote there.
struct ExecutionArea {
  wire::ImageHeader header{};
  hal::PhysicalAddress source = 0;  // 0: free
  hal::PhysicalAddress text = 0;
  hal::PhysicalAddress pool = 0;  // initial contents; each launch gets a copy
  std::uint64_t text_pages = 0;   // bytes, page-aligned
  std::uint64_t pool_pages = 0;
  bool stale = false;  // its source was written: matches nothing any more
  // How the launch that used it last named its source, and RegionTable::names_version() then. 0: none has.
  std::uint64_t named_region = 0;
  std::uint64_t named_offset = 0;
  std::uint64_t named_version = 0;
  std::uint32_t named_generation = 0;

  bool matches(hal::PhysicalAddress address, std::uint64_t bytes) const {
    return source == address && header.image_bytes == bytes && !stale;
  }
  // A name that has been looked up means the same until the region table changes.
  bool is_named(const wire::Endpoint& name, std::uint64_t bytes, std::uint64_t version) const {
    return named_offset == name.offset && named_region == name.region_id && named_generation == name.generation &&
           named_version == version && header.image_bytes == bytes && !stale;
  }
  void set_name(const wire::Endpoint& name, std::uint64_t version) {
    named_region = name.region_id;
    named_offset = name.offset;
    named_generation = name.generation;
    named_version = version;
  }
};

// Copies text and pool of a judged image into fresh pages. False when there are none (the area stays free).
bool load_image(std::span<const std::byte> image, hal::PhysicalAddress source, const wire::ImageHeader& header,
                ExecutionArea& area);
void unload_image(ExecutionArea& area);

}  // namespace fw
