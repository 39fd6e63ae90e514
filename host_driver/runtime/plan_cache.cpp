// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/plan_cache.hpp"

#include <algorithm>

#include "host_driver/runtime/plan_directory.hpp"

namespace svp {

PlanCache& PlanCache::of_process() {
  static PlanCache cache;
  return cache;
}

PlanCache::Entry PlanCache::read(const spyrecode::Directory& directory) {
  Entry entry{.path = directory.path().string(), .files = {}, .jobs = {}};
  const auto file = directory.read_all(spyrecode::kFileName, spyrecode::kMostFileBytes);
  entry.files.emplace_back(spyrecode::kFileName, file.identity);
  const auto code = spyrecode::parse({reinterpret_cast<const char*>(file.bytes.data()), file.bytes.size()});
  entry.jobs = jobs_of(code, [&](const spyrecode::InitTransfer& init) {
    auto content = directory.read(init.file, init.size);
    entry.files.emplace_back(init.file, content.identity);
    return std::move(content.bytes);
  });
  return entry;
}

// A file that is gone, or is no file any more, is a change: reading it again says so.
bool PlanCache::unchanged(const Entry& entry, const spyrecode::Directory& directory) {
  return std::ranges::all_of(entry.files, [&](const auto& file) {
    try {
      return directory.identity(file.first) == file.second;
    } catch (const InvalidPlan&) {
      return false;
    }
  });
}

std::vector<Job> PlanCache::jobs(const std::filesystem::path& path) {
  const spyrecode::Directory directory(path);
  const std::scoped_lock lock(mutex_);
  const auto known = std::ranges::find(entries_, directory.path().string(), &Entry::path);
  if (known != entries_.end() && unchanged(*known, directory)) {
    entries_.splice(entries_.begin(), entries_, known);
    ++statistics_.known;
    return entries_.front().jobs;
  }
  if (known != entries_.end()) entries_.erase(known);
  Entry entry = read(directory);
  ++statistics_.read;
  entries_.push_front(std::move(entry));
  if (entries_.size() > kMostDirectories) entries_.pop_back();
  return entries_.front().jobs;
}

PlanCache::Statistics PlanCache::statistics() const {
  const std::scoped_lock lock(mutex_);
  Statistics statistics = statistics_;
  statistics.kept = entries_.size();
  return statistics;
}

}  // namespace svp
