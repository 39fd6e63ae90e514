// SPDX-License-Identifier: Apache-2.0
// Files of a plan on disk. A directory may come from anybody: names that lead out of it, symbolic links, and what is no
// regular file are refused, and no file is read beyond a bound.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/unique_fd.hpp"

namespace svp::spyrecode {

// Which file it was, and whether it has been changed since: a file that is written or replaced has another identity.
struct FileIdentity {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint64_t bytes = 0;
  std::int64_t modified_ns = 0;
  std::int64_t changed_ns = 0;
  friend bool operator==(const FileIdentity&, const FileIdentity&) = default;
};

struct FileContent {
  std::vector<std::byte> bytes;
  FileIdentity identity;
};

class Directory {
 public:
  // Throws InvalidPlan ("directory"): there is none, or it cannot be opened. A symbolic link to one is followed here.
  explicit Directory(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }  // canonical

  // The first `bytes` bytes of the file. Throws InvalidPlan (the name): it leads out of the directory, through a
  // symbolic link, to what is no regular file, does not exist, cannot be read, or is shorter.
  FileContent read(const std::string& name, std::uint64_t bytes) const;
  // All of it, at most `most` bytes. Throws likewise.
  FileContent read_all(const std::string& name, std::uint64_t most) const;
  // Throws likewise.
  FileIdentity identity(const std::string& name) const;

 private:
  UniqueFd open(const std::string& name, struct stat& status) const;

  std::filesystem::path path_;
  UniqueFd fd_;
};

// A file that a program names by its path: symbolic links are followed, everything else as Directory::read_all().
FileContent read_file(const std::filesystem::path& path, std::uint64_t most);

struct NamedBytes {
  std::string name;  // no folder in it
  std::span<const std::byte> bytes;
};

// Writes the files into the directory, which is made when it is not there, in their order. Each appears at once and
// complete, or not at all; files of the same name are replaced. Throws Error naming the path and the system's reason.
void write_files(const std::filesystem::path& directory, std::span<const NamedBytes> files);

}  // namespace svp::spyrecode
