// SPDX-License-Identifier: Apache-2.0
// How many CPUs this process may use at a time.
#pragma once

#include <optional>
#include <string>

namespace svp {

// CPUs on which any thread of the process may run, at most as many whole ones as the CPU quota of its control groups
// gives (v2: cpu.max, v1: cpu.cfs_quota_us, of the group and of all above it). What one thread has restricted itself to
// says nothing about the others. At least 1.
int usable_cpus();

// The quota alone, in CPUs. `proc_cgroup` is /proc/self/cgroup, `mounts` is /sys/fs/cgroup; other places in tests.
// Nothing: no limit.
std::optional<double> cpu_quota(const std::string& proc_cgroup, const std::string& mounts);

}  // namespace svp
