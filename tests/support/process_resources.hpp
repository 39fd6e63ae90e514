// SPDX-License-Identifier: Apache-2.0
// What this process holds and has started, counted before and after something that may leave nothing behind; and what
// Linux tells about another process.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iosfwd>
#include <map>
#include <string>

#include "tests/support/bounds.hpp"

namespace svp::test {

// Of this process alone: cheap enough for thousands of counts.
struct OwnResources {
  std::size_t descriptors = 0;
  std::size_t memory_files = 0;  // descriptors and mappings of memfds: windows
  std::size_t threads = 0;
  friend bool operator==(const OwnResources&, const OwnResources&) = default;
};
OwnResources count_own_resources();

struct ProcessResources {
  // Everything that was started by this process, also if it was re-parented since. Others on the machine do not count.
  std::size_t processes = 0;
  bool children = false;  // there are children that nobody has waited for
  OwnResources own;
  friend bool operator==(const ProcessResources&, const ProcessResources&) = default;
};
ProcessResources count_process_resources();
// The number of threads is left out: a thread that was joined stays in /proc for a moment, so that a count at once,
// without left_over(), would see it.
ProcessResources count_resources_without_threads();
// What differs from `before`; empty: nothing. "2 descriptors more (3 anon_inode, 9 pipe, …), 1 handles of windows
// less". Descriptors and handles are compared in both directions: one that is gone was closed by somebody else.
// Processes and threads only count when there are more: one that had just ended may have been in `before` still.
std::string difference(const ProcessResources& before, const ProcessResources& now);
// A reaper ends a moment after its emulator, a thread a moment after it was joined by others: looks again until there
// is no difference, for at most `bound`. The difference at the last look.
std::string left_over(const ProcessResources& before, std::chrono::milliseconds bound = support_bounds::kSettle);
std::ostream& operator<<(std::ostream& out, const ProcessResources& resources);
// The part of such a text that tells of one number. Nothing when it is the same.
void append_difference(std::string& text, std::uint64_t before, std::uint64_t now, const char* what);

// ---- any process of the machine that we may look at

// What its descriptors name, by kind: "pipe", "socket", "/memfd", …
std::map<std::string, std::size_t> descriptors_of(pid_t pid);
std::size_t threads_of(pid_t pid);
// User and system time so far, in clock ticks.
std::uint64_t cpu_ticks(pid_t pid);

}  // namespace svp::test
