// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/usable_cpus.hpp"

#include <dirent.h>
#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

namespace svp {

namespace {

// The file's text; empty when it cannot be read. A stream takes an allocation that fails for bad input, unless it is
// told to throw what it caught.
std::istringstream text_of(const std::string& file) {
  std::string text;
  try {
    std::ifstream in(file);
    in.exceptions(std::ios::badbit);
    std::getline(in, text, '\0');
  } catch (const std::ios::failure&) {
    text.clear();
  }
  std::istringstream words(std::move(text));
  words.exceptions(std::ios::badbit);
  return words;
}

// Paths are strings here: std::filesystem::path does not survive an allocation that fails (libstdc++ 12).
std::optional<double> first_number(const std::string& file) {
  auto in = text_of(file);
  double value = 0;
  if (!(in >> value)) return std::nullopt;
  return value;
}

std::optional<double> quota_v2(const std::string& group) {
  auto in = text_of(group + "/cpu.max");
  std::string quota;  // or "max"
  double period = 0;
  if (!(in >> quota >> period) || period <= 0) return std::nullopt;
  double microseconds = 0;
  const auto parsed = std::from_chars(quota.data(), quota.data() + quota.size(), microseconds);
  if (parsed.ec != std::errc{}) return std::nullopt;
  return microseconds / period;
}

std::optional<double> quota_v1(const std::string& group) {
  const auto quota = first_number(group + "/cpu.cfs_quota_us");
  const auto period = first_number(group + "/cpu.cfs_period_us");
  if (!quota || !period || *quota <= 0 || *period <= 0) return std::nullopt;  // -1: none
  return *quota / *period;
}

// The smallest limit of the group and of those above it. In a container the group's path may lie above what is mounted:
// what is not there limits nothing, and the top is asked in any case.
template <typename Quota>
std::optional<double> smallest(const std::string& mount, std::string group, Quota&& quota_of) {
  std::optional<double> least;
  for (;;) {  // bounded: one iteration per part of the path
    if (const auto quota = quota_of(mount + group)) least = std::min(least.value_or(*quota), *quota);
    if (group.empty()) return least;
    const std::size_t parent = group.rfind('/');
    group.resize(parent == std::string::npos ? 0 : parent);
  }
}

bool lists(std::string_view controllers, std::string_view wanted) {
  for (std::size_t at = 0; at <= controllers.size();) {
    const std::size_t end = std::min(controllers.find(',', at), controllers.size());
    if (controllers.substr(at, end - at) == wanted) return true;
    at = end + 1;
  }
  return false;
}

int cpus_of_all_threads() {
  cpu_set_t all;
  CPU_ZERO(&all);
  // Not std::filesystem: its iterator ends the process when it finds no memory.
  struct Close {
    void operator()(DIR* folder) const { ::closedir(folder); }
  };
  const std::unique_ptr<DIR, Close> folder(::opendir("/proc/self/task"));
  while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr) {
    cpu_set_t one;
    CPU_ZERO(&one);
    const auto thread = static_cast<pid_t>(std::atol(entry->d_name));
    if (thread == 0) continue;  // "." and ".."
    if (::sched_getaffinity(thread, sizeof one, &one) == 0) CPU_OR(&all, &all, &one);
  }
  const int count = CPU_COUNT(&all);
  return count > 0 ? count : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace

std::optional<double> cpu_quota(const std::string& proc_cgroup, const std::string& mounts) {
  std::optional<double> least;
  const auto note = [&](std::optional<double> quota) {
    if (quota) least = std::min(least.value_or(*quota), *quota);
  };
  auto in = text_of(proc_cgroup);
  for (std::string line; std::getline(in, line);) {  // "0::/path" or "4:cpu,cpuacct:/path"
    const std::size_t first = line.find(':');
    const std::size_t second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string path = line.substr(second + 1);
    if (controllers.empty()) {
      note(smallest(mounts, path, quota_v2));
      note(smallest(mounts + "/unified", path, quota_v2));
    } else if (lists(controllers, "cpu")) {
      note(smallest(mounts + "/" + controllers, path, quota_v1));
      note(smallest(mounts + "/cpu", path, quota_v1));
    }
  }
  return least;
}

int usable_cpus() {
  const int cpus = cpus_of_all_threads();
  const auto quota = cpu_quota("/proc/self/cgroup", "/sys/fs/cgroup");
  if (!quota) return cpus;
  return std::clamp(static_cast<int>(std::min(*quota, 1e6)), 1, cpus);
}

}  // namespace svp
