// SPDX-License-Identifier: Apache-2.0
// The binary that a ComputeOnDevice names (docs/spyrecode.md): a kernel image, the metadata of the kernel build, and
// the command list that says with which extents the image runs. The format is this project's own.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/units.hpp"

namespace svp::spyrecode {

inline constexpr std::uint64_t kBinaryMagic = 0x314E494252595053;  // "SPYRBIN1" little-endian
inline constexpr std::uint32_t kBinaryVersion = 1;
inline constexpr std::uint64_t kMostMetadataBytes = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kMostBinaryBytes = std::uint64_t{8} << 20;

// All numbers are little-endian. Offsets count from the header's first byte; parts do not overlap.
struct BinaryHeader {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t crc32c;           // over `bytes` bytes with this field zero
  std::uint64_t bytes;            // of the binary, a multiple of 128
  std::uint64_t image_offset;     // a multiple of 128
  std::uint64_t image_bytes;      // the kernel image (shared/kernel_abi.hpp)
  std::uint64_t metadata_offset;  // a multiple of 128
  std::uint64_t metadata_bytes;   // JSON
  std::uint64_t commands_offset;  // a multiple of 128
  std::uint32_t command_count;    // 1
  std::uint32_t command_bytes;    // sizeof(BinaryCommand)
  std::uint8_t reserved[56];      // zero
};
static_assert(sizeof(BinaryHeader) == wire::kStickBytes);

enum class CommandCode : std::uint32_t { Compute = 1 };

inline constexpr std::size_t kCommandExtents = 16;
struct BinaryCommand {
  CommandCode code;
  std::uint32_t extent_count;             // dimensions of the kernel
  std::uint64_t core_mask;                // 0: chosen by the amount of work
  std::uint64_t budget_slices;            // of the watchdog; 0: the card's default
  std::uint64_t reserved0;                // zero
  std::int64_t extents[kCommandExtents];  // elements, in the order of the metadata's dimensions; others zero
  std::uint8_t reserved1[96];             // zero
};
static_assert(sizeof(BinaryCommand) == 2 * wire::kStickBytes);

// A part of the bytes that were read; they outlive it.
struct Binary {
  std::span<const std::byte> image;
  std::string_view metadata;
  BinaryCommand command;

  std::span<const std::int64_t> extents() const { return {command.extents, command.extent_count}; }
};

// Reads the binary at the front of `bytes`; what stands behind it is not looked at. The image and the metadata are not
// looked at either. Throws InvalidPlan; `source` names the bytes in its message and is its field.
Binary read_binary(std::span<const std::byte> bytes, const std::string& source);

// The extents fit kCommandExtents.
std::vector<std::byte> write_binary(std::span<const std::byte> image, std::string_view metadata,
                                    const BinaryCommand& command);

}  // namespace svp::spyrecode
