// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/machine_waits.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

#include "tests/bench/card/measurement_error.hpp"

namespace bench {

namespace {

int open_schedstat(pid_t process, pid_t thread) {
  const std::string path = "/proc/" + std::to_string(process) + "/task/" + std::to_string(thread) + "/schedstat";
  return ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
}

// The second of three numbers: time on the CPU, time in the queue, slices.
double queued(int file) {
  if (file < 0) return 0;
  std::array<char, 80> text{};
  require(::pread(file, text.data(), text.size() - 1, 0) > 0, "schedstat of a thread could not be read");
  char* rest = nullptr;
  (void)std::strtoull(text.data(), &rest, 10);
  return static_cast<double>(std::strtoull(rest, nullptr, 10));
}

}  // namespace

MachineWaits::MachineWaits(flex::Card& card, Wire wire) {
  const auto harts = card.machine().hart_threads();
  require(harts && !harts->empty(), "the emulator does not name hart 0's thread");
  files_[0] = open_schedstat(card.machine().pid(), harts->front().host_thread);
  files_[1] = open_schedstat(::getpid(), ::gettid());
  if (wire == Wire::LeftIn) return;
  files_[2] = open_schedstat(card.machine().pid(), card.machine().pid());  // its first thread: the loop
}

MachineWaits::~MachineWaits() {
  for (const int file : files_) {
    if (file >= 0) ::close(file);
  }
}

double MachineWaits::total() const {
  double total = 0;
  for (const int file : files_) total += queued(file);
  return total;
}

}  // namespace bench
