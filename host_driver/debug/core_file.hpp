// SPDX-License-Identifier: Apache-2.0
// ELF core files of the firmware (ET_CORE, EM_RISCV), as gdb-multiarch opens them: a thread per hart, whose number is
// the hart's plus one. A core also carries the fatal record that it was made of, in a note of ours.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/debug/elf_image.hpp"
#include "shared/fatal_record.hpp"

namespace svp {

struct HartRegisters {
  unsigned hart = 0;
  std::uint64_t pc = 0;
  std::array<std::uint64_t, 32> x{};  // x[0] is zero
};

struct MemoryBlock {
  std::uint64_t address = 0;
  std::vector<std::byte> bytes;
  std::uint32_t flags = 0;  // PF_R, PF_W, PF_X
};

struct CoreFile {
  std::vector<HartRegisters> harts;  // a debugger begins at the first
  std::vector<MemoryBlock> memory;
  std::optional<wire::FatalRecord> record;
};

// Of a record: the harts that left registers (the source first), the image as it was loaded, and the source's stack.
// Variables are not in it: the boot that they belonged to is gone.
CoreFile core_of(const wire::FatalRecord& record, const ElfImage& image);

// Overwrites `path`. Error: what the file system says.
Expected<void> write_core(const CoreFile& core, const std::filesystem::path& path);

// The record of a core file, or of a file that holds a record alone. Errors: as parse_record(), and a core without one.
Expected<wire::FatalRecord> read_record(const std::filesystem::path& path);

}  // namespace svp
