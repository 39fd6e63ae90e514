// SPDX-License-Identifier: Apache-2.0
#include "tests/device/card/left_overs.hpp"
#include "tests/bounds.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <ostream>
#include <string>
#include <thread>

namespace svp::test {

namespace {

constexpr std::string_view kMemoryFile = "/memfd:";

std::size_t memory_file_descriptors() {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;  // the iterator's own descriptor is one of them
    if (std::filesystem::read_symlink(entry.path(), gone).native().starts_with(kMemoryFile)) ++count;
  }
  return count;
}

std::size_t memory_file_mappings() {
  std::ifstream maps("/proc/self/maps");
  std::size_t count = 0;
  for (std::string line; std::getline(maps, line);) count += line.contains(kMemoryFile) ? 1 : 0;
  return count;
}

std::size_t threads() {
  const std::filesystem::directory_iterator all("/proc/self/task");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

}  // namespace

std::ostream& operator<<(std::ostream& out, const LeftOvers& left) {
  return out << left.processes << " processes" << (left.uncollected ? " (uncollected children)" : "") << ", "
             << left.descriptors << " descriptors, " << left.memory_files << " memory files, " << left.threads
             << " threads";
}

LeftOvers count_left_overs() {
  const auto process = qemu::test::count_left_overs();
  return {process.processes, process.children, process.descriptors, memory_file_descriptors() + memory_file_mappings(),
          threads()};
}

LeftOvers settled_left_overs(const LeftOvers& before, std::chrono::milliseconds bound) {
  const auto end = std::chrono::steady_clock::now() + bound;
  LeftOvers now = count_left_overs();
  while (now != before && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(test_bounds::kRareLook);  // bounded: a pause of the loop above
    now = count_left_overs();
  }
  return now;
}

}  // namespace svp::test
