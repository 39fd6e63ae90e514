// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/image.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "firmware/hal/address_space.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/crc32c.hpp"

namespace fw {

using wire::Field;
using wire::ImageHeader;
using wire::Status;

namespace {

Verdict bad_layout(std::size_t offset) { return {Status::ImageLayout, Field::ImageHeaderField, offset}; }

// The argument of a layout verdict is the offset of the header field that is wrong.
Verdict check_layout(const ImageHeader& header, std::uint64_t bytes) {
  if (header.image_bytes != bytes) return bad_layout(offsetof(ImageHeader, image_bytes));
  if (!wire::is_aligned(header.text_offset, wire::kStickBytes) || header.text_offset < sizeof(ImageHeader) ||
      !wire::range_inside(header.text_offset, header.text_bytes, bytes)) {
    return bad_layout(offsetof(ImageHeader, text_offset));
  }
  if (header.text_bytes == 0 || header.text_bytes > wire::kMaxTextBytes) {
    return bad_layout(offsetof(ImageHeader, text_bytes));
  }
  if (!wire::is_aligned(header.pool_offset, wire::kStickBytes) ||
      !wire::range_inside(header.pool_offset, header.pool_bytes, bytes)) {
    return bad_layout(offsetof(ImageHeader, pool_offset));
  }
  if (header.pool_bytes > wire::kMaxPoolBytes) return bad_layout(offsetof(ImageHeader, pool_bytes));
  for (const auto& [entry, at] : {std::pair{header.correction_entry, offsetof(ImageHeader, correction_entry)},
                                  std::pair{header.compute_entry, offsetof(ImageHeader, compute_entry)}}) {
    if (entry % 2 != 0 || entry >= header.text_bytes) return bad_layout(at);
  }
  if (header.scratchpad_bytes > wire::kScratchpadBytes) {
    return {Status::ScratchpadTooLarge, Field::ImageHeaderField, offsetof(ImageHeader, scratchpad_bytes)};
  }
  if (header.max_correction_bytes > wire::kMaxCorrectionBytes) {
    return bad_layout(offsetof(ImageHeader, max_correction_bytes));
  }
  for (const std::uint8_t byte : header.reserved) {
    if (byte != 0) return bad_layout(offsetof(ImageHeader, reserved));
  }
  return {};
}

}  // namespace

std::uint64_t sum_image(std::span<const std::byte> image, ImageCheck& check) {
  constexpr std::size_t kAt = offsetof(ImageHeader, crc32c);
  constexpr std::uint32_t kZero = 0;  // stands in for the checksum itself
  constexpr std::uint64_t kHead = kAt + sizeof kZero;
  static_assert(kHead <= sizeof(ImageHeader) && sizeof(ImageHeader) <= kEmulatedImageStepBytes);
  const std::uint64_t step = hal::array_version() != 0 ? kImageStepBytes : kEmulatedImageStepBytes;
  const std::uint64_t from = check.summed;
  const std::uint64_t end = std::min<std::uint64_t>(from + step, image.size());
  const std::uint64_t begin = std::max(from, kHead);
  if (from == 0) check.crc = wire::crc32c(wire::crc32c(0, image.data(), kAt), &kZero, sizeof kZero);
  check.crc = hal::checksum(check.crc, image.data() + begin, end - begin);
  check.summed = static_cast<std::uint32_t>(end);
  return end - from;
}

Verdict check_image_header(std::span<const std::byte> image, ImageHeader& header) {
  if (image.size() < sizeof header && !mutated(Mutant::ImageLength)) return {Status::BadSize, Field::ComputeImageBytes};
  std::memcpy(&header, image.data(), sizeof header);
  if (header.magic != wire::kImageMagic) return {Status::ImageMagic, Field::ImageHeaderField};
  if (header.abi_version != wire::kImageAbiVersion) return {Status::ImageVersion, Field::ImageHeaderField};
  return check_layout(header, image.size());
}

bool load_image(std::span<const std::byte> image, hal::PhysicalAddress source, const ImageHeader& header,
                ExecutionArea& area) {
  area = ExecutionArea{};
  area.text_pages = wire::align_up(header.text_bytes, kPageBytes);
  area.pool_pages = wire::align_up(header.pool_bytes, kPageBytes);
  area.text = hal::allocate_pages(area.text_pages);
  if (area.text == 0) return false;
  if (area.pool_pages != 0) {
    area.pool = hal::allocate_pages(area.pool_pages);
    if (area.pool == 0) {
      hal::free_pages(area.text, area.text_pages);
      return false;
    }
    hal::copy(hal::pointer(area.pool), image.data() + header.pool_offset, header.pool_bytes);
  }
  hal::copy_code(area.text, image.data() + header.text_offset, header.text_bytes);
  area.header = header;
  area.source = source;
  return true;
}

void unload_image(ExecutionArea& area) {
  if (area.source == 0) return;
  hal::free_pages(area.text, area.text_pages);
  if (area.pool != 0) hal::free_pages(area.pool, area.pool_pages);
  area = ExecutionArea{};
}

}  // namespace fw
