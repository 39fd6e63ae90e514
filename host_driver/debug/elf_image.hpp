// SPDX-License-Identifier: Apache-2.0
// The firmware's ELF file as far as its dead need it: what was loaded where, the names of its functions, its build.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"

namespace svp {

struct Symbol {
  std::string name;  // demangled
  std::uint64_t address;
  std::uint64_t bytes;
};

class ElfImage {
 public:
  struct Segment {
    std::uint64_t address;
    std::uint64_t memory_bytes;        // with what starts as zero
    std::span<const std::byte> bytes;  // as in the file
    std::uint32_t flags;               // PF_R, PF_W, PF_X
  };

  // A 64-bit little-endian RISC-V executable. Errors: no such file, not one, or its tables leave the file.
  static Expected<ElfImage> open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  const std::vector<Segment>& segments() const { return segments_; }
  // Of .note.gnu.build-id; empty when it was linked without.
  std::span<const std::byte> build_id() const { return build_id_; }

  // The function that the address lies in.
  const Symbol* function_at(std::uint64_t address) const;
  // "fw::run_iteration(fw::Card&)+0x24"; the number alone when no function is there.
  std::string describe(std::uint64_t address) const;
  // Address of a symbol by its name in the file (not demangled), such as "__bss_end".
  std::optional<std::uint64_t> address_of(std::string_view name) const;

 private:
  Expected<void> read();
  Expected<void> read_sections();

  std::filesystem::path path_;
  std::vector<std::byte> file_;
  std::vector<Segment> segments_;
  std::span<const std::byte> build_id_;
  std::map<std::uint64_t, Symbol> functions_;
  std::map<std::string, std::uint64_t, std::less<>> addresses_;
};

// "533a2495…", all digits.
std::string hex_digits(std::span<const std::byte> bytes);

}  // namespace svp
