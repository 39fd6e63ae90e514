// SPDX-License-Identifier: Apache-2.0
// Small files in one run of bytes: what a binary brings of the bundle that it was made from (docs/spyrecode.md). It may
// come from anybody.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "shared/units.hpp"

namespace svp::spyrecode {

// Content by name. A name is plain: no folder in it, printable ASCII.
using NamedFiles = std::map<std::string, std::string>;

inline constexpr std::uint32_t kMostArchiveFiles = 4097;  // bundle.mlir, and one for each operation of a program
inline constexpr std::uint64_t kMostArchiveBytes = 16 * wire::kMiB;
inline constexpr std::size_t kMostArchiveName = 255;
inline constexpr std::uint64_t kArchiveMagic = 0x31454C4946525053;  // "SPRFILE1"

// All numbers are little-endian. Behind the header, for each file: an entry, its name, its content.
struct ArchiveHeader {
  std::uint64_t magic;
  std::uint32_t files;
  std::uint32_t reserved;  // zero
};
struct ArchiveEntry {
  std::uint32_t name_bytes;  // 1 to 255
  std::uint32_t content_bytes;
};
static_assert(sizeof(ArchiveHeader) == 16 && sizeof(ArchiveEntry) == 8);

// Whole sticks; zeros behind the last file. Throws InvalidPlan ("archive"): more files, bytes or letters of a name than
// an archive holds.
std::vector<std::byte> write_archive(const NamedFiles& files);
// All of `bytes` is the archive. Throws InvalidPlan; `source` names the bytes in its message and is its field.
NamedFiles read_archive(std::span<const std::byte> bytes, const std::string& source);

}  // namespace svp::spyrecode
