// SPDX-License-Identifier: Apache-2.0
#include "host_driver/debug/elf_image.hpp"

#include <cxxabi.h>
#include <elf.h>
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>

#include "shared/units.hpp"

namespace svp {

namespace {

std::unexpected<ErrorInfo> unusable(const std::filesystem::path& path, const std::string& why) {
  return std::unexpected(ErrorInfo{.layer = Layer::Driver,
                                   .source = path.string(),
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = "name the firmware's ELF file that the card was booted with",
                                   .message = path.string() + ": " + why});
}

std::string demangled(const char* name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(abi::__cxa_demangle(name, nullptr, nullptr, &status),
                                                         &std::free);
  return status == 0 ? text.get() : name;
}

// Whole structures out of a file whose offsets are only data.
class Reader {
 public:
  explicit Reader(std::span<const std::byte> file) : file_(file) {}

  [[nodiscard]] std::span<const std::byte> bytes(std::uint64_t offset, std::uint64_t count) const {
    return wire::range_inside(offset, count, file_.size()) ? file_.subspan(offset, count)
                                                           : std::span<const std::byte>{};
  }
  template <typename T>
  bool get(std::uint64_t offset, T& value) const {
    const auto from = bytes(offset, sizeof value);
    if (from.empty()) return false;
    std::memcpy(&value, from.data(), sizeof value);
    return true;
  }
  // A string that ends inside the file; empty otherwise.
  [[nodiscard]] const char* text(std::uint64_t offset) const {
    if (offset >= file_.size()) return "";
    const auto* begin = reinterpret_cast<const char*>(file_.data()) + offset;
    return std::memchr(begin, 0, file_.size() - offset) == nullptr ? "" : begin;
  }

 private:
  std::span<const std::byte> file_;
};

}  // namespace

Expected<ElfImage> ElfImage::open(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return unusable(path, "can not be opened");
  const std::vector<char> text{std::istreambuf_iterator<char>(stream), {}};
  ElfImage image;
  image.path_ = path;
  image.file_.resize(text.size());
  if (!text.empty()) std::memcpy(image.file_.data(), text.data(), text.size());
  if (auto done = image.read(); !done) return std::unexpected(std::move(done.error()));
  return image;
}

Expected<void> ElfImage::read() {
  const Reader reader(file_);
  Elf64_Ehdr header;
  if (!reader.get(0, header) || std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0)
    return unusable(path_, "is no ELF file");
  if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_ident[EI_DATA] != ELFDATA2LSB ||
      header.e_machine != EM_RISCV || (header.e_type != ET_EXEC && header.e_type != ET_DYN)) {
    return unusable(path_, "is no RISC-V executable of 64 bits");
  }
  for (unsigned i = 0; i < header.e_phnum; ++i) {
    Elf64_Phdr program;
    if (!reader.get(header.e_phoff + i * sizeof program, program))
      return unusable(path_, "its program headers are cut off");
    if (program.p_type != PT_LOAD) continue;
    const auto bytes = reader.bytes(program.p_offset, program.p_filesz);
    if (bytes.size() != program.p_filesz) return unusable(path_, "a segment is cut off");
    segments_.push_back({program.p_vaddr, program.p_memsz, bytes, program.p_flags});
  }
  return read_sections();
}

Expected<void> ElfImage::read_sections() {
  const Reader reader(file_);
  Elf64_Ehdr header;
  reader.get(0, header);
  const auto section = [&](std::uint64_t index, Elf64_Shdr& out) {
    return index < header.e_shnum && reader.get(header.e_shoff + index * sizeof out, out);
  };
  for (unsigned i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr table;
    if (!section(i, table)) return unusable(path_, "its section headers are cut off");
    constexpr std::uint64_t kNoteHeader = sizeof(Elf64_Nhdr) + 4;  // and the name "GNU"
    if (table.sh_type == SHT_NOTE && table.sh_size > kNoteHeader) {
      Elf64_Nhdr note;
      if (reader.get(table.sh_offset, note) && note.n_type == NT_GNU_BUILD_ID) {
        build_id_ = reader.bytes(table.sh_offset + kNoteHeader, note.n_descsz);
      }
    }
    Elf64_Shdr strings;
    if (table.sh_type != SHT_SYMTAB || !section(table.sh_link, strings)) continue;
    for (std::uint64_t at = 0; at + sizeof(Elf64_Sym) <= table.sh_size; at += sizeof(Elf64_Sym)) {
      Elf64_Sym symbol;
      if (!reader.get(table.sh_offset + at, symbol)) return unusable(path_, "its symbols are cut off");
      const char* name = reader.text(strings.sh_offset + symbol.st_name);
      if (*name == '\0' || symbol.st_shndx == SHN_UNDEF) continue;
      addresses_.try_emplace(name, symbol.st_value);
      // Labels of assembly have neither type nor size; those of the assembler itself begin with '.', '$' or 'L'.
      const unsigned type = ELF64_ST_TYPE(symbol.st_info);
      const bool label = type == STT_NOTYPE && std::string_view(".$L").find(*name) == std::string_view::npos;
      if (type != STT_FUNC && !label) continue;
      const auto [place, fresh] = functions_.try_emplace(symbol.st_value, Symbol{{}, symbol.st_value, symbol.st_size});
      if (fresh || place->second.bytes == 0) place->second = {demangled(name), symbol.st_value, symbol.st_size};
    }
  }
  return {};
}

const Symbol* ElfImage::function_at(std::uint64_t address) const {
  bool code = false;
  for (const Segment& segment : segments_) {
    code |= (segment.flags & PF_X) != 0 && wire::range_inside(address - segment.address, 1, segment.memory_bytes);
  }
  auto at = functions_.upper_bound(address);
  if (!code || at == functions_.begin()) return nullptr;
  --at;
  const Symbol& symbol = at->second;
  return symbol.bytes == 0 || address - symbol.address < symbol.bytes ? &symbol : nullptr;
}

std::string ElfImage::describe(std::uint64_t address) const {
  const Symbol* symbol = function_at(address);
  if (symbol == nullptr) return fmt::format("{:#x}", address);
  return fmt::format("{}+{:#x}", symbol->name, address - symbol->address);
}

std::optional<std::uint64_t> ElfImage::address_of(std::string_view name) const {
  const auto at = addresses_.find(name);
  if (at == addresses_.end()) return std::nullopt;
  return at->second;
}

std::string hex_digits(std::span<const std::byte> bytes) {
  std::string digits;
  for (const std::byte byte : bytes) digits += fmt::format("{:02x}", std::to_integer<unsigned>(byte));
  return digits;
}

}  // namespace svp
