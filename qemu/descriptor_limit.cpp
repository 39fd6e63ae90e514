// SPDX-License-Identifier: Apache-2.0
#include "qemu/descriptor_limit.hpp"

#include <fmt/format.h>
#include <sys/resource.h>

#include <filesystem>
#include <iterator>

#include "qemu/errors.hpp"

namespace qemu {

namespace {

std::size_t open_descriptors() {
  std::error_code error;
  const std::filesystem::directory_iterator folder{"/proc/self/fd", error};
  if (error) return 0;
  return static_cast<std::size_t>(std::distance(begin(folder), end(folder)));
}

}  // namespace

Result<void> reserve_descriptors(std::size_t slots) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return system_failure("getrlimit", errno);
  const std::size_t needed = open_descriptors() + slots * kDescriptorsPerSlot + kDescriptorsPerMachine;
  if (needed <= limit.rlim_cur) return {};
  if (needed > limit.rlim_max) {
    return failure(MachineError::Kind::kDescriptorLimit,
                   fmt::format("{} slots need {} file descriptors in this process, its hard limit is {}.", slots,
                               needed, limit.rlim_max),
                   "Raise the hard limit (ulimit -Hn, LimitNOFILE=) or boot with fewer slots.");
  }
  limit.rlim_cur = limit.rlim_max;
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0) return system_failure("setrlimit(RLIMIT_NOFILE)", errno);
  return {};
}

}  // namespace qemu
