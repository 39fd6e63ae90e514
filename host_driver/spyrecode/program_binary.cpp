// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/program_binary.hpp"

#include <algorithm>
#include <cstring>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/spyrecode/binary.hpp"
#include "host_driver/spyrecode/file_archive.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {
namespace {

using Header = ProgramBinaryHeader;

[[noreturn]] void refuse(const std::string& source, const std::string& what) {
  throw InvalidPlan(source, source + ": " + what, "write the binary again (docs/spyrecode.md)");
}

Header read_header(std::span<const std::byte> bytes, const std::string& source) {
  Header header;
  if (bytes.size() < sizeof header) {
    refuse(source, std::to_string(bytes.size()) + " bytes are less than the header of a binary");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (!is_program_binary(bytes)) refuse(source, "is no binary of a device program");
  if (header.bytes < sizeof header || header.bytes > kMostProgramBinaryBytes ||
      !wire::is_aligned(header.bytes, wire::kStickBytes)) {
    refuse(source, "says that it has " + std::to_string(header.bytes) + " bytes; a binary has whole sticks, up to " +
                       std::to_string(kMostProgramBinaryBytes));
  }
  if (header.bytes > bytes.size()) {
    refuse(source, "is cut off: " + std::to_string(bytes.size()) + " of " + std::to_string(header.bytes) + " bytes");
  }
  return header;
}

void check_checksum(Header header, std::span<const std::byte> bytes, const std::string& source) {
  const std::uint32_t expected = header.crc32c;
  header.crc32c = 0;
  const std::uint32_t front = crc32c(0, std::as_bytes(std::span(&header, 1)));
  if (crc32c(front, bytes.subspan(sizeof header)) != expected) refuse(source, "has another checksum than it says");
}

bool is_printable(char c) { return c >= ' ' && c <= '~'; }

std::size_t name_bytes(const Header& header) {
  return static_cast<std::size_t>(std::ranges::find(header.name, '\0') - header.name);
}

bool is_part(const Header& header, std::uint64_t offset, std::uint64_t bytes) {
  return bytes != 0 && offset >= sizeof header && wire::is_aligned(offset | bytes, wire::kStickBytes) &&
         wire::range_inside(offset, bytes, header.bytes);
}

void check_archive(const Header& header, const std::string& source) {
  if (header.version == kProgramBinaryVersion) {
    if (header.archive_bytes == 0 && header.archive_offset == 0) return;
    refuse(source, "the header names an archive, which version 2 has not");
  }
  const bool apart = header.archive_offset >= header.program_offset + header.program_bytes ||
                     header.program_offset >= header.archive_offset + header.archive_bytes;
  if (!is_part(header, header.archive_offset, header.archive_bytes) || header.archive_bytes > kMostArchiveBytes ||
      !apart) {
    refuse(source, "the archive does not lie in at most " + std::to_string(kMostArchiveBytes) +
                       " bytes of whole sticks between the header and the end, apart from the program");
  }
}

void check_fields(const Header& header, const std::string& source) {
  if (header.kind != BinaryKind::Program) {
    refuse(source, "has the unknown kind " + std::to_string(static_cast<std::uint32_t>(header.kind)));
  }
  if (!is_part(header, header.program_offset, header.program_bytes)) {
    refuse(source, "the program does not lie in whole sticks between the header and the end");
  }
  check_archive(header, source);
  if (std::ranges::any_of(std::span(header.name).first(name_bytes(header)), [](char c) { return !is_printable(c); })) {
    refuse(source, "the name of the program has a character that is not printable");
  }
  const auto rest = std::span(header.name).subspan(name_bytes(header));
  if (rest.size() == sizeof header.name || std::ranges::any_of(rest, [](char c) { return c != '\0'; })) {
    refuse(source, "the name of the program is empty, or something stands behind its end");
  }
}

}  // namespace

bool is_program_binary(std::span<const std::byte> bytes) {
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  return header.magic == kBinaryMagic &&
         (header.version == kProgramBinaryVersion || header.version == kBundleBinaryVersion);
}

ProgramBinary read_program_binary(std::span<const std::byte> bytes, const std::string& source) {
  const Header header = read_header(bytes, source);
  bytes = bytes.first(header.bytes);
  check_checksum(header, bytes, source);
  check_fields(header, source);
  const auto* name = reinterpret_cast<const char*>(bytes.data()) + offsetof(Header, name);
  return {.program = bytes.subspan(header.program_offset, header.program_bytes),
          .name = {name, name_bytes(header)},
          .core_mask = header.core_mask,
          .budget_slices = header.budget_slices,
          .archive = bytes.subspan(header.archive_offset, header.archive_bytes)};
}

std::vector<std::byte> write_program_binary(const ProgramBinary& binary) {
  Header header{};
  header.magic = kBinaryMagic;
  header.version = binary.archive.empty() ? kProgramBinaryVersion : kBundleBinaryVersion;
  header.kind = BinaryKind::Program;
  header.program_offset = sizeof header;
  header.program_bytes = binary.program.size();
  const std::uint64_t end = sizeof header + wire::align_up(binary.program.size(), wire::kStickBytes);
  header.archive_offset = binary.archive.empty() ? 0 : end;
  header.archive_bytes = static_cast<std::uint32_t>(binary.archive.size());
  header.bytes = end + binary.archive.size();
  header.core_mask = binary.core_mask;
  header.budget_slices = binary.budget_slices;
  const std::string_view name = binary.name.empty() ? "program" : binary.name.substr(0, kMostProgramName);
  std::ranges::transform(name, header.name, [](char c) { return is_printable(c) ? c : '_'; });
  std::vector<std::byte> bytes(header.bytes);
  std::ranges::copy(binary.program, bytes.begin() + sizeof header);
  std::ranges::copy(binary.archive, bytes.begin() + static_cast<std::ptrdiff_t>(end));
  std::memcpy(bytes.data(), &header, sizeof header);
  header.crc32c = crc32c(0, bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace svp::spyrecode
