// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/placement.hpp"

#include <unistd.h>

namespace bench {

Apart::Apart(svp::Card& card) {
  cpu_set_t allowed;
  if (::sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE && cpus.size() < 2; ++cpu) {
    if (CPU_ISSET(cpu, &allowed)) cpus.push_back(cpu);
  }
  const auto harts = card.machine().hart_threads();
  if (cpus.size() < 2 || !harts || harts->empty()) return;
  move(::gettid(), cpus[0]);
  move(card.machine().pid(), cpus[0]);  // its first thread: the loop
  move(harts->front().host_thread, cpus[1]);
}

void Apart::move(pid_t thread, int cpu) {
  Moved moved{.thread = thread, .before = {}};
  if (::sched_getaffinity(thread, sizeof moved.before, &moved.before) != 0) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(static_cast<std::size_t>(cpu), &one);
  if (::sched_setaffinity(thread, sizeof one, &one) == 0) moved_.push_back(moved);
}

Apart::~Apart() {
  for (const Moved& moved : moved_) ::sched_setaffinity(moved.thread, sizeof moved.before, &moved.before);
}

}  // namespace bench
