// SPDX-License-Identifier: Apache-2.0
// Directories that this process has read: their jobs, by canonical path. A directory whose files are the same (device,
// inode, size, times of content and inode) is not read again. What is kept is on the host only: images and jobs that
// are not loaded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <list>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "host_driver/runtime/job.hpp"
#include "host_driver/spyrecode/directory.hpp"

namespace svp {

// Thread-safe.
class PlanCache {
 public:
  // What is kept; the directory that was not asked for the longest goes first.
  static constexpr std::size_t kMostDirectories = 64;

  static PlanCache& of_process();

  // Reads the directory, or knows it. Throws InvalidPlan (docs/spyrecode.md); nothing is kept then.
  std::vector<Job> jobs(const std::filesystem::path& directory);

  struct Statistics {
    std::uint64_t read = 0;   // directories that were read
    std::uint64_t known = 0;  // requests that needed no read
    std::size_t kept = 0;
  };
  Statistics statistics() const;

 private:
  struct Entry {
    std::string path;
    std::vector<std::pair<std::string, spyrecode::FileIdentity>> files;
    std::vector<Job> jobs;
  };
  static Entry read(const spyrecode::Directory& directory);
  static bool unchanged(const Entry& entry, const spyrecode::Directory& directory);

  mutable std::mutex mutex_;
  std::list<Entry> entries_;  // the last one that was asked for in front
  Statistics statistics_;
};

}  // namespace svp
