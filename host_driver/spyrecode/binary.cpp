// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/binary.hpp"

#include <algorithm>
#include <cstring>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/spyrecode/program_binary.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {

namespace {

struct Source {
  const std::string& name;
  [[noreturn]] void refuse(const std::string& what) const {
    throw InvalidPlan(name, name + ": " + what, "write the binary again (spyre spyrecode make, docs/spyrecode.md)");
  }
};

bool all_zero(std::span<const std::uint8_t> bytes) {
  return std::ranges::all_of(bytes, [](std::uint8_t byte) { return byte == 0; });
}

// A part stands on a stick, behind the header and inside of the binary.
void check_part(const Source& source, const BinaryHeader& header, const char* name, std::uint64_t offset,
                std::uint64_t bytes) {
  if (!wire::is_aligned(offset, wire::kStickBytes)) {
    source.refuse(std::string(name) + " begins at byte " + std::to_string(offset) + ", not a multiple of 128");
  }
  if (offset < sizeof header || !wire::range_inside(offset, bytes, header.bytes)) {
    source.refuse(std::string(name) + " does not lie between the header and the end");
  }
}

struct Part {
  const char* name;
  std::uint64_t offset;
  std::uint64_t bytes;
};

void check_parts(const Source& source, const BinaryHeader& header) {
  const Part parts[] = {
      {"the image", header.image_offset, header.image_bytes},
      {"the metadata", header.metadata_offset, header.metadata_bytes},
      {"the command list", header.commands_offset, std::uint64_t{header.command_count} * header.command_bytes}};
  for (const Part& part : parts) {
    check_part(source, header, part.name, part.offset, part.bytes);
    if (part.bytes == 0) source.refuse(std::string(part.name) + " is empty");
    for (const Part& other : parts) {
      if (&other == &part) break;
      if (part.offset < other.offset + other.bytes && other.offset < part.offset + part.bytes) {
        source.refuse(std::string(part.name) + " overlaps " + other.name);
      }
    }
  }
}

// A binary is read as it was written on a machine of either kind; its bytes need not be aligned.
BinaryHeader read_header(const Source& source, std::span<const std::byte> bytes) {
  BinaryHeader header;
  if (bytes.size() < sizeof header) {
    source.refuse(std::to_string(bytes.size()) + " bytes are less than the header of a binary");
  }
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != kBinaryMagic) source.refuse("is no binary of this card: it does not begin with SPYRBIN1");
  if (is_program_binary(bytes)) source.refuse("is a device program, where a kernel is expected");
  if (header.version != kBinaryVersion) {
    source.refuse("has format version " + std::to_string(header.version) + ", this driver reads " +
                  std::to_string(kBinaryVersion));
  }
  if (header.bytes < sizeof header || header.bytes > kMostBinaryBytes ||
      !wire::is_aligned(header.bytes, wire::kStickBytes)) {
    source.refuse("says that it has " + std::to_string(header.bytes) + " bytes; a binary has whole sticks, up to " +
                  std::to_string(kMostBinaryBytes));
  }
  if (header.bytes > bytes.size()) {
    source.refuse("is cut off: " + std::to_string(bytes.size()) + " of " + std::to_string(header.bytes) + " bytes");
  }
  return header;
}

void check_checksum(const Source& source, BinaryHeader header, std::span<const std::byte> bytes) {
  const std::uint32_t expected = header.crc32c;
  header.crc32c = 0;
  const std::uint32_t front = crc32c(0, std::as_bytes(std::span(&header, 1)));
  if (crc32c(front, bytes.subspan(sizeof header)) != expected) source.refuse("has another checksum than it says");
}

BinaryCommand read_command(const Source& source, const BinaryHeader& header, std::span<const std::byte> bytes) {
  BinaryCommand command;
  std::memcpy(&command, bytes.data() + header.commands_offset, sizeof command);
  if (command.code != CommandCode::Compute) {
    source.refuse("command 0 has the unknown code " + std::to_string(static_cast<std::uint32_t>(command.code)));
  }
  if (command.extent_count > kCommandExtents) {
    source.refuse("command 0 has " + std::to_string(command.extent_count) + " extents, more than " +
                  std::to_string(kCommandExtents));
  }
  for (std::size_t i = 0; i < kCommandExtents; ++i) {
    const bool used = i < command.extent_count;
    if (used ? command.extents[i] < 1 : command.extents[i] != 0) {
      source.refuse("command 0: extent " + std::to_string(i) + " is " + std::to_string(command.extents[i]));
    }
  }
  if (command.reserved0 != 0 || !all_zero(command.reserved1))
    source.refuse("command 0 has a reserved byte that is not 0");
  return command;
}

}  // namespace

Binary read_binary(std::span<const std::byte> bytes, const std::string& name) {
  const Source source{name};
  const BinaryHeader header = read_header(source, bytes);
  bytes = bytes.first(header.bytes);
  check_checksum(source, header, bytes);
  if (!all_zero(header.reserved)) source.refuse("the header has a reserved byte that is not 0");
  if (header.command_count != 1) {
    source.refuse("has " + std::to_string(header.command_count) + " commands; a binary of this version has one");
  }
  if (header.command_bytes != sizeof(BinaryCommand)) {
    source.refuse("has commands of " + std::to_string(header.command_bytes) + " bytes, not " +
                  std::to_string(sizeof(BinaryCommand)));
  }
  if (header.metadata_bytes > kMostMetadataBytes) {
    source.refuse("has " + std::to_string(header.metadata_bytes) + " bytes of metadata, more than " +
                  std::to_string(kMostMetadataBytes));
  }
  check_parts(source, header);
  const auto metadata = bytes.subspan(header.metadata_offset, header.metadata_bytes);
  return {.image = bytes.subspan(header.image_offset, header.image_bytes),
          .metadata = {reinterpret_cast<const char*>(metadata.data()), metadata.size()},
          .command = read_command(source, header, bytes)};
}

std::vector<std::byte> write_binary(std::span<const std::byte> image, std::string_view metadata,
                                    const BinaryCommand& command) {
  const auto sticks = [](std::uint64_t bytes) { return wire::align_up(bytes, wire::kStickBytes); };
  BinaryHeader header{};
  header.magic = kBinaryMagic;
  header.version = kBinaryVersion;
  header.commands_offset = sizeof header;
  header.command_count = 1;
  header.command_bytes = sizeof command;
  header.image_offset = header.commands_offset + sizeof command;
  header.image_bytes = image.size();
  header.metadata_offset = header.image_offset + sticks(image.size());
  header.metadata_bytes = metadata.size();
  header.bytes = header.metadata_offset + sticks(metadata.size());
  std::vector<std::byte> bytes(header.bytes);
  std::memcpy(bytes.data() + header.commands_offset, &command, sizeof command);
  std::ranges::copy(image, bytes.begin() + static_cast<std::ptrdiff_t>(header.image_offset));
  std::ranges::copy(std::as_bytes(std::span(metadata)),
                    bytes.begin() + static_cast<std::ptrdiff_t>(header.metadata_offset));
  std::memcpy(bytes.data(), &header, sizeof header);
  header.crc32c = crc32c(0, bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace svp::spyrecode
