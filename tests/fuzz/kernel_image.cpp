// SPDX-License-Identifier: Apache-2.0
// Kernel images in Program memory: what the loader accepts lies inside of the image and of its limits, is copied as it
// stands, and gives all its pages back.
#include <cstring>
#include <span>
#include <vector>

#include "firmware/core/image.hpp"
#include "firmware/hal/memory.hpp"
#include "firmware/platform/host/native_board.hpp"
#include "shared/crc32c.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/fuzz/mutate.hpp"

namespace {

constexpr std::size_t kCrcAt = offsetof(wire::ImageHeader, crc32c);

void put_crc(std::uint8_t* data, std::size_t size) {
  constexpr std::uint32_t kZero = 0;
  std::memcpy(data + kCrcAt, &kZero, sizeof kZero);
  const std::uint32_t crc = wire::crc32c(0, data, size);
  std::memcpy(data + kCrcAt, &crc, sizeof crc);
}

// From the contract (shared/kernel_abi.hpp), not from the loader.
void expect_inside(const wire::ImageHeader& header, std::uint64_t bytes) {
  using fuzz::require;
  require(header.image_bytes == bytes, "an image is as long as it says");
  require(header.text_offset >= sizeof header && header.text_offset <= bytes &&
              header.text_bytes <= bytes - header.text_offset,
          "text lies behind the header, inside of the image");
  require(header.pool_offset <= bytes && header.pool_bytes <= bytes - header.pool_offset, "the pool lies inside");
  require(header.text_bytes <= wire::kMaxTextBytes && header.pool_bytes <= wire::kMaxPoolBytes, "limits hold");
  require(header.correction_entry < header.text_bytes && header.compute_entry < header.text_bytes,
          "entries lie in the text");
  require(header.scratchpad_bytes <= wire::kScratchpadBytes, "a core has the scratchpad");
}

// In steps, each bounded, to the very sum that the whole has.
void expect_summed(std::span<const std::byte> image, const wire::ImageHeader& header) {
  fw::ImageCheck check{.source = 4 * wire::kGiB};
  while (check.summed != image.size()) {  // every step sums something
    const std::uint64_t step = fw::sum_image(image, check);
    fuzz::require(step != 0 && step <= fw::kImageStepBytes, "a step sums something, and not too much");
  }
  std::vector<std::byte> whole(image.begin(), image.end());
  std::memset(whole.data() + offsetof(wire::ImageHeader, crc32c), 0, sizeof header.crc32c);
  fuzz::require(check.crc == wire::crc32c(0, whole.data(), whole.size()), "steps sum up to the whole");
}

}  // namespace

// Most inputs get what would stop a damaged image at the door: magic, versions, size, checksum. `seed` decides.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size < sizeof(wire::ImageHeader) || seed % 8 == 0) return size;
  wire::ImageHeader header;
  std::memcpy(&header, data, sizeof header);
  header.magic = wire::kImageMagic;
  header.abi_version = wire::kImageAbiVersion;
  if (seed % 8 < 6) {
    header.image_bytes = size;
    std::memset(header.reserved, 0, sizeof header.reserved);
  }
  std::memcpy(data, &header, sizeof header);
  put_crc(data, size);
  return size;
}

void fuzz::run(Input input) {
  const native::Board board({.region_bytes = wire::kMiB, .page_bytes = 4 * wire::kMiB});
  const auto bytes = input.rest();
  const std::vector<std::byte> image(bytes.begin(), bytes.end());
  wire::ImageHeader header{};
  if (const fw::Verdict verdict = fw::check_image_header(image, header); !verdict.ok()) {
    require(verdict.field != wire::Field::None, "a refusal names a field");
    return;
  }
  expect_summed(image, header);
  expect_inside(header, image.size());
  fw::ExecutionArea area;
  require(fw::load_image(image, 4 * wire::kGiB, header, area), "there are pages for an image of legal size");
  require(area.matches(4 * wire::kGiB, image.size()), "a loaded image is found again");
  require(std::memcmp(hal::pointer(area.text), image.data() + header.text_offset, header.text_bytes) == 0,
          "text is copied as it stands");
  require(
      area.pool == 0 || std::memcmp(hal::pointer(area.pool), image.data() + header.pool_offset, header.pool_bytes) == 0,
      "the pool is copied as it stands");
  fw::unload_image(area);
  require(board.pages_in_use() == 0, "an unloaded image holds no pages");
}
