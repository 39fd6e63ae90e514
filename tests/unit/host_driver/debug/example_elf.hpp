// SPDX-License-Identifier: Apache-2.0
// A small RISC-V executable, made by hand: two functions, a label, a variable, a build identity.
#pragma once

#include <elf.h>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace svp::test {

inline constexpr std::uint64_t kTextAddress = 0x80000000;

inline std::vector<std::byte> example_elf() {
  std::vector<std::byte> file(sizeof(Elf64_Ehdr));
  const auto append = [&](const void* data, std::size_t bytes) {
    const std::size_t at = file.size();
    const auto* from = static_cast<const std::byte*>(data);
    file.insert(file.end(), from, from + bytes);
    return at;
  };
  const std::string names("\0_Z5firstv\0second\0label\0variable\0", 34);
  const unsigned char function = ELF64_ST_INFO(STB_GLOBAL, STT_FUNC);
  const Elf64_Sym symbols[] = {
      {},
      {1, function, 0, 1, kTextAddress, 16},
      {11, function, 0, 1, kTextAddress + 16, 16},
      {18, ELF64_ST_INFO(STB_GLOBAL, STT_NOTYPE), 0, 1, kTextAddress + 32, 0},
      {24, ELF64_ST_INFO(STB_GLOBAL, STT_OBJECT), 0, 1, 0x90000000, 8},
  };
  const std::vector<std::byte> text(64, std::byte{0x13});
  const struct {
    Elf64_Nhdr header;
    char name[4];
    unsigned char id[20];
  } note{{4, 20, NT_GNU_BUILD_ID}, {'G', 'N', 'U', 0}, {0xab, 0xcd}};
  const auto text_at = append(text.data(), text.size());
  const auto names_at = append(names.data(), names.size());
  const auto symbols_at = append(symbols, sizeof symbols);
  const auto note_at = append(&note, sizeof note);
  const Elf64_Phdr program{PT_LOAD, PF_R | PF_X, text_at, kTextAddress, kTextAddress, text.size(), text.size(), 1};
  const auto program_at = append(&program, sizeof program);
  Elf64_Shdr sections[4]{};
  sections[1].sh_type = SHT_STRTAB;
  sections[1].sh_offset = names_at;
  sections[1].sh_size = names.size();
  sections[2].sh_type = SHT_SYMTAB;
  sections[2].sh_offset = symbols_at;
  sections[2].sh_size = sizeof symbols;
  sections[2].sh_link = 1;
  sections[3].sh_type = SHT_NOTE;
  sections[3].sh_offset = note_at;
  sections[3].sh_size = sizeof note;
  const auto sections_at = append(sections, sizeof sections);
  Elf64_Ehdr header{};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_type = ET_EXEC;
  header.e_machine = EM_RISCV;
  header.e_phoff = program_at;
  header.e_phnum = 1;
  header.e_shoff = sections_at;
  header.e_shnum = 4;
  std::memcpy(file.data(), &header, sizeof header);
  return file;
}

}  // namespace svp::test
