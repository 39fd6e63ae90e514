// SPDX-License-Identifier: Apache-2.0
// pack_image KERNEL.elf OUT.img OUT.json — runs on the host, as a step of the card's build.
//
// Makes of a linked kernel the image that goes into Program memory (shared/kernel_abi.hpp) and the metadata that the
// host plans with. Refuses a file that would not work as an image, naming what is wrong.
//
// Metadata: name, image sizes, operands {name, access, dtype, layout, shape: names of dimensions}, symbols in the order
// of the correction tensor {kind, operand, dimension}, functions {name, offset in text, bytes} to name a fault's pc.
#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "firmware/kernels/info.hpp"
#include "shared/crc32c.hpp"
#include "shared/kernel_abi.hpp"

// From the C++ runtime. Its header would name a namespace wire of its own.
extern "C" char* __cxa_demangle(const char* mangled, char* buffer, std::size_t* length, int* status);  // NOLINT

namespace {

using Bytes = std::vector<char>;

[[noreturn]] void fail(const std::string& what) { throw std::runtime_error(what); }

// The few things that are needed of a linked ELF file.
class ElfFile {
 public:
  explicit ElfFile(const char* path) {
    std::ifstream file(path, std::ios::binary);
    if (!file) fail("can not be opened");
    bytes_.assign(std::istreambuf_iterator<char>(file), {});
    const auto header = at<Elf64_Ehdr>(0);
    if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_machine != EM_RISCV)
      fail("is not a RISC-V ELF file");
    if (header.e_type != ET_DYN) fail("is not position independent (link with -pie)");
    for (unsigned i = 0; i < header.e_shnum; ++i) {
      sections_.push_back(at<Elf64_Shdr>(header.e_shoff + i * sizeof(Elf64_Shdr)));
    }
    names_ = sections_.at(header.e_shstrndx);
  }

  const Elf64_Shdr* find(std::string_view name) const {
    for (const Elf64_Shdr& section : sections_) {
      if (text(names_, section.sh_name) == name) return &section;
    }
    return nullptr;
  }

  const Elf64_Shdr& section(std::string_view name) const {
    const Elf64_Shdr* found = find(name);
    if (found == nullptr) fail("has no section " + std::string(name));
    return *found;
  }

  // Contents; a section that is all zero in memory need not be in the file.
  Bytes contents(const Elf64_Shdr& section) const {
    Bytes bytes(section.sh_size);
    if (section.sh_type == SHT_NOBITS) return bytes;
    if (section.sh_offset + section.sh_size > bytes_.size()) fail("is cut short");
    std::copy_n(bytes_.begin() + static_cast<std::ptrdiff_t>(section.sh_offset), section.sh_size, bytes.begin());
    return bytes;
  }

  struct Symbol {
    std::string name;
    std::uint64_t value;
    std::uint64_t size;
    bool function;
  };
  std::vector<Symbol> symbols() const {
    const Elf64_Shdr& table = section(".symtab");
    const Elf64_Shdr& strings = sections_.at(table.sh_link);
    std::vector<Symbol> all;
    for (std::uint64_t i = 0; i < table.sh_size; i += sizeof(Elf64_Sym)) {
      const auto symbol = at<Elf64_Sym>(table.sh_offset + i);
      all.push_back(
          {text(strings, symbol.st_name), symbol.st_value, symbol.st_size, ELF64_ST_TYPE(symbol.st_info) == STT_FUNC});
    }
    return all;
  }

  void refuse_relocations() const {
    for (const Elf64_Shdr& section : sections_) {
      if ((section.sh_type == SHT_RELA || section.sh_type == SHT_REL) && section.sh_size != 0) {
        fail("still has relocations (" + text(names_, section.sh_name) + "); nobody would apply them");
      }
    }
  }

 private:
  template <typename T>
  T at(std::uint64_t offset) const {
    if (offset + sizeof(T) > bytes_.size()) fail("is cut short");
    T value;
    std::memcpy(&value, bytes_.data() + offset, sizeof value);
    return value;
  }
  std::string text(const Elf64_Shdr& strings, std::uint64_t offset) const {
    const std::uint64_t begin = strings.sh_offset + offset;
    if (begin >= bytes_.size()) fail("is cut short");
    return std::string(bytes_.data() + begin, strnlen(bytes_.data() + begin, bytes_.size() - begin));
  }

  Bytes bytes_;
  std::vector<Elf64_Shdr> sections_;
  Elf64_Shdr names_{};
};

kernel::KernelInfo read_info(const ElfFile& elf) {
  const Bytes bytes = elf.contents(elf.section(".kernel_info"));
  kernel::KernelInfo info;
  if (bytes.size() != sizeof info) fail("needs exactly one SPYRE_KERNEL description");
  std::memcpy(&info, bytes.data(), sizeof info);
  return info;
}

std::uint64_t entry(const ElfFile& elf, std::string_view name) {
  for (const auto& symbol : elf.symbols()) {
    if (symbol.name == name) return symbol.value;
  }
  fail("has no " + std::string(name));
}

std::uint64_t max_correction_bytes(const kernel::KernelInfo& info) {
  if (info.any_symbols) return wire::kMaxCorrectionBytes;
  if (info.symbol_count() == 0) {
    if (info.table_bytes != 0) fail("has a table and no symbols to put it behind");
    return 0;
  }
  const std::uint64_t bytes =
      wire::align_up(wire::correction_bytes(info.symbol_count()) + info.table_bytes, wire::kStickBytes);
  if (info.table_bytes > wire::kMaxCorrectionBytes || bytes > wire::kMaxCorrectionBytes) {
    fail("symbols and table are more than wire::kMaxCorrectionBytes");
  }
  return bytes;
}

Bytes build_image(const ElfFile& elf, const kernel::KernelInfo& info, wire::ImageHeader& header) {
  elf.refuse_relocations();
  if (elf.section(".text").sh_addr != 0) fail("text is not at 0");
  const Bytes text = elf.contents(elf.section(".text"));
  Bytes pool;
  if (const Elf64_Shdr* section = elf.find(".pool")) {
    if (section->sh_addr != wire::kPoolOffset) fail("literal pool is not at wire::kPoolOffset");
    pool = elf.contents(*section);
  }
  if (text.empty() || text.size() > wire::kMaxTextBytes) fail("text is empty or larger than wire::kMaxTextBytes");
  if (pool.size() > wire::kMaxPoolBytes) fail("literal pool is larger than wire::kMaxPoolBytes");
  if (info.scratchpad_bytes > wire::kScratchpadBytes) fail("needs more scratchpad than a core has");

  header = {};
  header.magic = wire::kImageMagic;
  header.abi_version = wire::kImageAbiVersion;
  header.text_offset = sizeof header;
  header.text_bytes = text.size();
  header.pool_offset = wire::align_up(header.text_offset + text.size(), wire::kStickBytes);
  header.pool_bytes = pool.size();
  header.image_bytes = wire::align_up(header.pool_offset + pool.size(), wire::kStickBytes);
  header.correction_entry = entry(elf, "correction_entry");
  header.compute_entry = entry(elf, "compute_entry");
  header.scratchpad_bytes = info.scratchpad_bytes;
  header.max_correction_bytes = max_correction_bytes(info);

  Bytes image(header.image_bytes);
  std::copy(text.begin(), text.end(), image.begin() + static_cast<std::ptrdiff_t>(header.text_offset));
  std::copy(pool.begin(), pool.end(), image.begin() + static_cast<std::ptrdiff_t>(header.pool_offset));
  std::memcpy(image.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, image.data(), image.size());
  std::memcpy(image.data(), &header, sizeof header);
  return image;
}

template <std::size_t kSize>
std::string quoted(const kernel::Text<kSize>& name) {
  return '"' + std::string(name.characters, strnlen(name.characters, kSize)) + '"';
}

const char* access_name(kernel::Access access) {
  switch (access) {
    case kernel::Access::None: return "none";
    case kernel::Access::Read: return "read";
    case kernel::Access::Write: return "write";
    case kernel::Access::ReadWrite: return "read_write";
  }
  fail("description: unknown access");
}

const char* kind_name(wire::SymbolKind kind) {
  switch (kind) {
    case wire::SymbolKind::Address: return "address";
    case wire::SymbolKind::Stride: return "stride";
    case wire::SymbolKind::Dimension: return "dimension";
    case wire::SymbolKind::Partials: return "partials";
    case wire::SymbolKind::Pass: return "pass";
  }
  fail("description: unknown symbol kind");
}

const char* format_name(kernel::Format format) {
  const auto index = static_cast<std::size_t>(format);
  if (index >= std::size(kernel::kFormatNames)) fail("description: unknown format");
  return kernel::kFormatNames[index];
}

std::string operand_list(const kernel::KernelInfo& info) {
  std::ostringstream out;
  const char* comma = "";
  for (const kernel::OperandInfo& operand : info.operands) {
    if (operand.name.empty()) break;
    out << comma << "\n    {\"name\": " << quoted(operand.name) << ", \"access\": \"" << access_name(operand.access)
        << "\", \"dtype\": \"" << format_name(operand.format) << "\", \"layout\": \"stick\", \"shape\": [";
    const char* inner = "";
    for (const kernel::DimensionName& dimension : operand.shape) {
      if (dimension.empty()) break;
      out << inner << quoted(dimension);
      inner = ", ";
    }
    out << "]}";
    comma = ",";
  }
  return out.str();
}

std::string symbol_list(const kernel::KernelInfo& info) {
  std::ostringstream out;
  for (std::uint32_t i = 0; i < info.symbol_count(); ++i) {
    const kernel::SymbolInfo& symbol = info.symbols[i];
    out << (i == 0 ? "" : ",") << "\n    {\"kind\": \"" << kind_name(symbol.kind)
        << "\", \"operand\": " << symbol.operand;
    if (!symbol.dimension.empty()) out << ", \"dimension\": " << quoted(symbol.dimension);
    out << "}";
  }
  return out.str();
}

std::string readable(const std::string& name) {
  const std::unique_ptr<char, decltype(&std::free)> text(__cxa_demangle(name.c_str(), nullptr, nullptr, nullptr),
                                                         &std::free);
  return text ? text.get() : name;
}

std::string function_list(const ElfFile& elf) {
  auto functions = elf.symbols();
  std::erase_if(functions, [](const ElfFile::Symbol& symbol) { return !symbol.function; });
  std::sort(functions.begin(), functions.end(), [](const auto& a, const auto& b) { return a.value < b.value; });
  std::ostringstream out;
  const char* comma = "";
  for (const ElfFile::Symbol& function : functions) {
    out << comma << "\n    {\"name\": \"" << readable(function.name) << "\", \"offset\": " << function.value
        << ", \"bytes\": " << function.size << "}";
    comma = ",";
  }
  return out.str();
}

std::string metadata(const ElfFile& elf, const kernel::KernelInfo& info, const wire::ImageHeader& header) {
  std::ostringstream out;
  out << "{\n  \"format\": 1,\n  \"name\": " << quoted(info.name) << ",\n  \"image_bytes\": " << header.image_bytes
      << ",\n  \"image_crc32c\": " << header.crc32c << ",\n  \"scratchpad_bytes\": " << header.scratchpad_bytes
      << ",\n  \"correction_bytes\": " << header.max_correction_bytes << ",\n  \"operands\": [" << operand_list(info)
      << "],\n  \"symbols\": [" << symbol_list(info) << "],\n  \"functions\": [" << function_list(elf) << "]\n}\n";
  return out.str();
}

void write(const char* path, std::string_view contents) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(contents.data(), static_cast<std::streamsize>(contents.size()));
  if (!file.flush()) fail(std::string("can not write ") + path);
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) {
    std::fprintf(stderr, "usage: pack_image KERNEL.elf OUT.img OUT.json\n");
    return 2;
  }
  try {
    const ElfFile elf(arguments[1]);
    const kernel::KernelInfo info = read_info(elf);
    wire::ImageHeader header;
    const Bytes image = build_image(elf, info, header);
    write(arguments[2], {image.data(), image.size()});
    write(arguments[3], metadata(elf, info, header));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "pack_image: %s: %s\n", arguments[1], error.what());
    return 1;
  }
}
