// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/file_archive.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {
namespace {

[[noreturn]] void refuse_archive(const std::string& source, const std::string& what) {
  throw InvalidPlan(source, source + ": the archive of its bundle " + what,
                    "write the binary again (docs/spyrecode.md)");
}

bool is_plain(const std::string& name) {
  if (name.empty() || name.size() > kMostArchiveName || name == "." || name == "..") return false;
  return std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~' && c != '/' && c != '\\'; });
}

// Takes parts from the front, never beyond the end.
class Parts {
 public:
  Parts(std::span<const std::byte> bytes, const std::string& source) : bytes_(bytes), source_(source) {}

  template <typename T>
  T take() {
    T value;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  std::string text(std::size_t count) {
    const auto part = next(count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::span<const std::byte> rest() const { return bytes_; }

 private:
  std::span<const std::byte> next(std::size_t count) {
    if (count > bytes_.size()) refuse_archive(source_, "is cut off");
    const auto part = bytes_.first(count);
    bytes_ = bytes_.subspan(count);
    return part;
  }

  std::span<const std::byte> bytes_;
  const std::string& source_;
};

template <typename T>
void append_part(std::vector<std::byte>& bytes, const T& part) {
  const auto raw = std::as_bytes(std::span(part));
  bytes.insert(bytes.end(), raw.begin(), raw.end());
}

}  // namespace

std::vector<std::byte> write_archive(const NamedFiles& files) {
  const auto refuse_files = [](const std::string& what) {
    throw InvalidPlan("archive", "the files of the bundle " + what, "compile smaller graphs");
  };
  if (files.size() > kMostArchiveFiles) {
    refuse_files("are " + std::to_string(files.size()) + ", and an archive holds " + std::to_string(kMostArchiveFiles));
  }
  std::uint64_t needed = sizeof(ArchiveHeader);
  for (const auto& [name, content] : files) {
    if (!is_plain(name)) refuse_files("have a name that is not plain");
    needed += sizeof(ArchiveEntry) + name.size() + content.size();
  }
  if (needed > kMostArchiveBytes) {
    refuse_files("have " + std::to_string(needed) + " bytes, and an archive has at most " +
                 std::to_string(kMostArchiveBytes));
  }
  std::vector<std::byte> bytes;
  bytes.reserve(wire::align_up(needed, wire::kStickBytes));
  const ArchiveHeader header{.magic = kArchiveMagic, .files = static_cast<std::uint32_t>(files.size()), .reserved = 0};
  append_part(bytes, std::span(&header, 1));
  for (const auto& [name, content] : files) {
    const ArchiveEntry entry{.name_bytes = static_cast<std::uint32_t>(name.size()),
                             .content_bytes = static_cast<std::uint32_t>(content.size())};
    append_part(bytes, std::span(&entry, 1));
    append_part(bytes, name);
    append_part(bytes, content);
  }
  bytes.resize(wire::align_up(bytes.size(), wire::kStickBytes));
  return bytes;
}

NamedFiles read_archive(std::span<const std::byte> bytes, const std::string& source) {
  if (bytes.size() > kMostArchiveBytes) {
    refuse_archive(source,
                   "has " + std::to_string(bytes.size()) + " bytes, more than " + std::to_string(kMostArchiveBytes));
  }
  Parts parts(bytes, source);
  const auto header = parts.take<ArchiveHeader>();
  if (header.magic != kArchiveMagic || header.reserved != 0) refuse_archive(source, "is none");
  if (header.files > kMostArchiveFiles) {
    refuse_archive(source,
                   "has " + std::to_string(header.files) + " files, more than " + std::to_string(kMostArchiveFiles));
  }
  NamedFiles files;
  for (std::uint32_t i = 0; i < header.files; ++i) {
    const auto entry = parts.take<ArchiveEntry>();
    if (entry.name_bytes > kMostArchiveName) refuse_archive(source, "has a name of more than 255 bytes");
    std::string name = parts.text(entry.name_bytes);
    if (!is_plain(name)) refuse_archive(source, "has a name that is not plain, of file " + std::to_string(i));
    if (!files.try_emplace(name, parts.text(entry.content_bytes)).second)
      refuse_archive(source, "has the file " + name + " twice");
  }
  const auto rest = parts.rest();
  if (rest.size() >= wire::kStickBytes || std::ranges::any_of(rest, [](std::byte b) { return b != std::byte{0}; })) {
    refuse_archive(source, "goes on behind its last file");
  }
  return files;
}

}  // namespace svp::spyrecode
