// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/cpu_wait.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <cstdint>
#include <string>
#include <string_view>

namespace svp::soak {

CpuWait::CpuWait(pid_t process, pid_t thread)
    : statistics_(
          ::open(("/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/schedstat").c_str(),
                 O_RDONLY | O_CLOEXEC)) {}

std::chrono::nanoseconds CpuWait::total() const {
  char text[128];
  const ssize_t got = statistics_.valid() ? ::pread(statistics_.get(), text, sizeof text, 0) : -1;
  if (got <= 0) return {};
  // Nanoseconds on a CPU, nanoseconds of waiting for one, times that it ran.
  const std::string_view line(text, static_cast<std::size_t>(got));
  const std::size_t space = line.find(' ');
  std::uint64_t waited = 0;
  if (space != line.npos) std::from_chars(line.data() + space + 1, line.data() + line.size(), waited);
  return std::chrono::nanoseconds(waited);
}

}  // namespace svp::soak
