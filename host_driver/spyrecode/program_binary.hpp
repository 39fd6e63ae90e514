// SPDX-License-Identifier: Apache-2.0
// The other kind of binary that a ComputeOnDevice names (docs/spyrecode.md): a device program, which the engine of the
// card executes. It has format version 2 in the place where that of a kernel (binary.hpp) has 1; version 3 when the
// program depends on lengths that only the launch knows, and the bundle that it was made from comes with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/units.hpp"

namespace svp::spyrecode {

inline constexpr std::uint32_t kProgramBinaryVersion = 2;
inline constexpr std::uint32_t kBundleBinaryVersion = 3;  // with an archive (file_archive.hpp)
inline constexpr std::uint64_t kMostProgramBinaryBytes = 49 * wire::kMiB;
inline constexpr std::size_t kMostProgramName = 56;

enum class BinaryKind : std::uint32_t { Program = 1 };

// All numbers are little-endian. The first 24 bytes are those of a BinaryHeader.
struct ProgramBinaryHeader {
  std::uint64_t magic;  // kBinaryMagic
  std::uint32_t version;
  std::uint32_t crc32c;  // over `bytes` bytes with this field zero
  std::uint64_t bytes;   // of the binary, a multiple of 128
  BinaryKind kind;
  std::uint32_t archive_bytes;   // a multiple of 128; version 2: zero
  std::uint64_t program_offset;  // behind the header, a multiple of 128
  std::uint64_t program_bytes;   // shared/device_program.hpp, a multiple of 128
  std::uint64_t core_mask;       // 0: chosen by the amount of work
  std::uint64_t budget_slices;   // of the watchdog; 0: the card's default
  char name[kMostProgramName];   // printable ASCII; behind its end zero
  std::uint64_t archive_offset;  // behind the header, a multiple of 128, apart from the program; version 2: zero
};
static_assert(sizeof(ProgramBinaryHeader) == wire::kStickBytes);

// A part of the bytes that were read; they outlive it.
struct ProgramBinary {
  std::span<const std::byte> program;
  std::string_view name;
  std::uint64_t core_mask = 0;
  std::uint64_t budget_slices = 0;
  std::span<const std::byte> archive{};  // of the bundle, whole sticks, not read; empty: version 2
};

// Whether a binary of one of these versions begins there.
bool is_program_binary(std::span<const std::byte> bytes);
// Reads the one at the front of `bytes`; what stands behind it is not looked at, nor is the program itself. Throws
// InvalidPlan; `source` names the bytes in its message and is its field.
ProgramBinary read_program_binary(std::span<const std::byte> bytes, const std::string& source);
// A longer name is cut off; characters that are not printable become '_'.
std::vector<std::byte> write_program_binary(const ProgramBinary& binary);

}  // namespace svp::spyrecode
