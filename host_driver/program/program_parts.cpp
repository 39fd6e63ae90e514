// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/program_parts.hpp"

#include <cstring>

#include "host_driver/base/crc32c.hpp"
#include "shared/units.hpp"

namespace svp {

namespace {

template <typename T>
void append_part(std::vector<std::byte>& bytes, const std::vector<T>& part) {
  const auto begin = reinterpret_cast<const std::byte*>(part.data());
  bytes.insert(bytes.end(), begin, begin + part.size() * sizeof(T));
  bytes.resize(wire::align_up(bytes.size(), wire::kStickBytes));
}

}  // namespace

std::uint64_t ProgramParts::add_data(std::span<const std::byte> bytes) {
  const std::uint64_t offset = data.size();
  data.insert(data.end(), bytes.begin(), bytes.end());
  data.resize(wire::align_up(data.size(), wire::kStickBytes));
  return offset;
}

std::vector<std::byte> assemble(const ProgramParts& parts) {
  wire::program::Header header{};
  header.magic = wire::program::kMagic;
  header.version = wire::program::kVersion;
  header.argument_count = static_cast<std::uint32_t>(parts.arguments.size());
  header.operation_count = static_cast<std::uint32_t>(parts.operations.size());
  header.pool_bytes = parts.pool_bytes;
  header.slices = parts.slices;
  header.scratchpad_bytes = parts.scratchpad_bytes;
  header.flags = parts.flags;
  std::vector<std::byte> bytes(sizeof header);
  header.arguments_offset = bytes.size();
  append_part(bytes, parts.arguments);
  header.operations_offset = bytes.size();
  append_part(bytes, parts.operations);
  header.data_offset = bytes.size();
  header.data_bytes = parts.data.size();
  append_part(bytes, parts.data);
  header.program_bytes = bytes.size();
  std::memcpy(bytes.data(), &header, sizeof header);
  header.crc32c = crc32c(0, bytes);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

}  // namespace svp
