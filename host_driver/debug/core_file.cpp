// SPDX-License-Identifier: Apache-2.0
#include "host_driver/debug/core_file.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <iterator>
#include <ostream>
#include <string_view>

#include "host_driver/base/output_file.hpp"
#include "host_driver/debug/fatal_report.hpp"
#include "shared/units.hpp"

namespace svp {

namespace {

// struct elf_prstatus of 64-bit RISC-V, as BFD reads it (bfd/elfnn-riscv.c, PRSTATUS_*): the rest is of no use here.
struct Prstatus {
  std::uint8_t before_signal[12];
  std::uint16_t signal;
  std::uint8_t before_pid[18];
  std::uint32_t pid;
  std::uint8_t before_registers[76];
  std::uint64_t registers[32];  // pc, x1 … x31
  std::uint8_t behind[8];
};
static_assert(offsetof(Prstatus, signal) == 12 && offsetof(Prstatus, pid) == 32 &&
              offsetof(Prstatus, registers) == 112 && sizeof(Prstatus) == 376);

constexpr std::string_view kCoreName = "CORE";
constexpr std::string_view kOurName = "SPYRE";
constexpr std::uint32_t kRecordNote = 1;

using Bytes = std::vector<std::byte>;

void append(Bytes& to, const void* from, std::size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(from);
  to.insert(to.end(), begin, begin + bytes);
}
void pad(Bytes& bytes) { bytes.resize((bytes.size() + 3) / 4 * 4); }

void append_note(Bytes& notes, std::string_view name, std::uint32_t type, const void* data, std::size_t bytes) {
  const Elf64_Nhdr header{.n_namesz = static_cast<std::uint32_t>(name.size() + 1),
                          .n_descsz = static_cast<std::uint32_t>(bytes),
                          .n_type = type};
  append(notes, &header, sizeof header);
  append(notes, name.data(), name.size());
  notes.push_back(std::byte{0});
  pad(notes);
  append(notes, data, bytes);
  pad(notes);
}

Bytes notes_of(const CoreFile& core) {
  Bytes notes;
  for (const HartRegisters& hart : core.harts) {
    Prstatus status{};
    status.signal = SIGTRAP;
    status.pid = hart.hart + 1;
    status.registers[0] = hart.pc;
    std::copy(hart.x.begin() + 1, hart.x.end(), status.registers + 1);
    append_note(notes, kCoreName, NT_PRSTATUS, &status, sizeof status);
  }
  if (core.record) append_note(notes, kOurName, kRecordNote, &*core.record, sizeof *core.record);
  return notes;
}

Elf64_Ehdr file_header(std::size_t programs) {
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_CORE;
  header.e_machine = EM_RISCV;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = static_cast<std::uint16_t>(programs);
  return header;
}

ErrorInfo file_error(const std::filesystem::path& path, const std::string& what, std::string next) {
  return {.layer = Layer::Driver,
          .source = path.string(),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next),
          .message = path.string() + ": " + what};
}

// The first note of ours among `notes`.
std::span<const std::byte> our_note(std::span<const std::byte> notes) {
  const auto rounded = [](std::uint64_t bytes) { return (bytes + 3) / 4 * 4; };
  while (notes.size() >= sizeof(Elf64_Nhdr)) {
    Elf64_Nhdr header;
    std::memcpy(&header, notes.data(), sizeof header);
    notes = notes.subspan(sizeof header);
    const std::uint64_t name_bytes = rounded(header.n_namesz), data_bytes = rounded(header.n_descsz);
    if (name_bytes + data_bytes > notes.size()) return {};
    const std::string_view name(reinterpret_cast<const char*>(notes.data()), header.n_namesz);
    if (name == std::string_view("SPYRE\0", 6) && header.n_type == kRecordNote) {
      return notes.subspan(name_bytes, header.n_descsz);
    }
    notes = notes.subspan(name_bytes + data_bytes);
  }
  return {};
}

HartRegisters registers_of(const wire::FatalRecord& record, unsigned hart) {
  HartRegisters registers{.hart = hart, .pc = record.harts[hart].pc};
  std::copy(std::begin(record.harts[hart].x), std::end(record.harts[hart].x), registers.x.begin());
  return registers;
}

}  // namespace

CoreFile core_of(const wire::FatalRecord& record, const ElfImage& image) {
  CoreFile core;
  core.record = record;
  const auto known = [&](unsigned hart) {
    const auto state = record.harts[hart].state;
    return state != wire::HartState::Unknown && state != wire::HartState::Absent;
  };
  if (known(record.source)) core.harts.push_back(registers_of(record, record.source));
  for (unsigned hart = 0; hart < record.hart_count; ++hart) {
    if (hart != record.source && known(hart)) core.harts.push_back(registers_of(record, hart));
  }
  for (const ElfImage::Segment& segment : image.segments()) {
    core.memory.push_back({segment.address, {segment.bytes.begin(), segment.bytes.end()}, segment.flags});
  }
  if (const std::uint64_t sp = record.harts[record.source].x[2]; sp != 0) {
    Bytes words(sizeof record.source_stack);
    std::memcpy(words.data(), record.source_stack, words.size());
    core.memory.push_back({sp, std::move(words), PF_R | PF_W});
  }
  return core;
}

Expected<void> write_core(const CoreFile& core, const std::filesystem::path& path) {
  const Bytes notes = notes_of(core);
  const std::size_t programs = 1 + core.memory.size();
  Bytes file;
  const Elf64_Ehdr header = file_header(programs);
  append(file, &header, sizeof header);
  std::uint64_t at = sizeof header + programs * sizeof(Elf64_Phdr);
  Elf64_Phdr program{};
  program.p_type = PT_NOTE;
  program.p_flags = PF_R;
  program.p_offset = at;
  program.p_filesz = notes.size();
  program.p_align = 4;
  append(file, &program, sizeof program);
  at += notes.size();
  for (const MemoryBlock& block : core.memory) {
    program = {.p_type = PT_LOAD,
               .p_flags = block.flags,
               .p_offset = at,
               .p_vaddr = block.address,
               .p_paddr = block.address,
               .p_filesz = block.bytes.size(),
               .p_memsz = block.bytes.size(),
               .p_align = 1};
    append(file, &program, sizeof program);
    at += block.bytes.size();
  }
  append(file, notes.data(), notes.size());
  for (const MemoryBlock& block : core.memory) append(file, block.bytes.data(), block.bytes.size());
  return write_output_file(path, [&](std::ostream& out) {
    out.write(reinterpret_cast<const char*>(file.data()), static_cast<std::streamsize>(file.size()));
  });
}

Expected<wire::FatalRecord> read_record(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return std::unexpected(file_error(path, "can not be opened", "name a core file or a record"));
  const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
  const std::span<const std::byte> file = std::as_bytes(std::span(text));
  Elf64_Ehdr header{};
  if (file.size() >= sizeof header) std::memcpy(&header, file.data(), sizeof header);
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) return parse_record(file);
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    const std::uint64_t at = header.e_phoff + i * sizeof program;
    if (!wire::range_inside(at, sizeof program, file.size())) break;
    std::memcpy(&program, file.data() + at, sizeof program);
    if (program.p_type != PT_NOTE || !wire::range_inside(program.p_offset, program.p_filesz, file.size())) continue;
    const auto note = our_note(file.subspan(program.p_offset, program.p_filesz));
    if (!note.empty()) return parse_record(note);
  }
  return std::unexpected(file_error(path, "is a core without a fatal record", "open it with gdb-multiarch"));
}

}  // namespace svp
