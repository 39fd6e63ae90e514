// SPDX-License-Identifier: Apache-2.0
#include "tests/support/process_resources.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <ostream>
#include <sstream>
#include <thread>

#include "qemu/child_process.hpp"

namespace svp::test {

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// In the environment of everything that this process starts. Its name has the process's number in it: a program of ours
// that this one starts marks its own children likewise, and they count for both.
const std::string& mark() {
  static const std::string text = [] {
    const std::string name = "SPYRE_STARTED_BY_" + std::to_string(::getpid());
    ::setenv(name.c_str(), "1", 1);
    return name + "=1";
  }();
  return text;
}
// Before anything can have been started.
[[maybe_unused]] const std::string& mark_at_start = mark();

fs::path folder_of(pid_t pid) { return fs::path("/proc") / std::to_string(pid); }

std::string contents(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::size_t entries(const fs::path& folder) {
  return static_cast<std::size_t>(std::distance(fs::directory_iterator(folder), {}));
}

std::size_t started_processes() {
  std::size_t count = 0;
  std::error_code gone;
  for (const auto& entry : fs::directory_iterator("/proc", gone)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid <= 0 || pid == ::getpid()) continue;
    if (contents(entry.path() / "environ").contains(mark())) ++count;
  }
  return count;
}

std::size_t memory_files() {
  const auto kinds = descriptors_of(::getpid());
  const auto open = kinds.find("/memfd");
  std::size_t count = open == kinds.end() ? 0 : open->second;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) count += line.contains("/memfd:") ? 1 : 0;
  return count;
}

std::string kinds_of_descriptors() {
  std::string text;
  for (const auto& [kind, number] : descriptors_of(::getpid())) {
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + kind;
  }
  return text;
}

bool has_children() {
  siginfo_t child{};
  return ::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) == 0;
}

// Of a child that has ended and that nobody has collected: its name and id.
std::string uncollected_child() {
  siginfo_t child{};
  if (::waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) != 0 || child.si_pid == 0) return "none has ended";
  std::string name;
  std::ifstream file("/proc/" + std::to_string(child.si_pid) + "/comm");
  std::getline(file, name);
  return name + ", pid " + std::to_string(child.si_pid);
}

}  // namespace

OwnResources count_own_resources() { return {entries("/proc/self/fd"), memory_files(), entries("/proc/self/task")}; }

ProcessResources count_process_resources() { return {started_processes(), has_children(), count_own_resources()}; }

ProcessResources count_resources_without_threads() {
  ProcessResources found = count_process_resources();
  found.own.threads = 0;
  return found;
}

void append_difference(std::string& text, std::uint64_t before, std::uint64_t now, const char* what) {
  if (before == now) return;
  const bool more = now > before;
  text += (text.empty() ? "" : ", ") + std::to_string(more ? now - before : before - now) + " " + what +
          (more ? " more" : " less");
}

std::string difference(const ProcessResources& before, const ProcessResources& now) {
  std::string text;
  append_difference(text, before.processes, std::max(before.processes, now.processes), "processes");
  append_difference(text, before.own.descriptors, now.own.descriptors, "descriptors");
  if (before.own.descriptors != now.own.descriptors) text += " (now " + kinds_of_descriptors() + ")";
  append_difference(text, before.own.memory_files, now.own.memory_files, "handles of windows");
  append_difference(text, before.own.threads, std::max(before.own.threads, now.own.threads), "threads");
  if (now.children && !before.children) text += std::string(text.empty() ? "" : ", ") + "children left uncollected";
  return text;
}

std::string left_over(const ProcessResources& before, std::chrono::milliseconds bound) {
  const auto limit = Clock::now() + bound;
  std::string left = difference(before, count_process_resources());
  while (!left.empty() && Clock::now() < limit) {
    std::this_thread::sleep_for(support_bounds::kLook);  // bounded: by `bound` of the loop
    qemu::collect_late_children();
    left = difference(before, count_process_resources());
  }
  if (left.contains("uncollected")) left += " (" + uncollected_child() + ")";
  return left;
}

std::ostream& operator<<(std::ostream& out, const ProcessResources& resources) {
  return out << resources.processes << " processes" << (resources.children ? " (uncollected children)" : "") << ", "
             << resources.own.descriptors << " descriptors, " << resources.own.memory_files << " handles of windows, "
             << resources.own.threads << " threads";
}

std::map<std::string, std::size_t> descriptors_of(pid_t pid) {
  std::map<std::string, std::size_t> kinds;
  std::error_code gone;  // the iterator's own descriptor, when it is this process
  for (const auto& entry : fs::directory_iterator(folder_of(pid) / "fd")) {
    const std::string name = fs::read_symlink(entry.path(), gone).string();
    ++kinds[name.substr(0, name.find(':'))];
  }
  return kinds;
}

std::size_t threads_of(pid_t pid) { return entries(folder_of(pid) / "task"); }

std::uint64_t cpu_ticks(pid_t pid) {
  // The name in front may contain anything; from the state on, the times are the twelfth and thirteenth field.
  const std::string text = contents(folder_of(pid) / "stat");
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 12; ++i) fields >> skipped;
  std::uint64_t user = 0;
  std::uint64_t system = 0;
  fields >> user >> system;
  return user + system;
}

}  // namespace svp::test
