// SPDX-License-Identifier: Apache-2.0
//
// A process that owns a machine and ends, or does not end, in the way its last argument names. It prints one line,
// "emulator <pid>[ child <pid>]", as soon as the machine runs. The tests watch from outside what is left of it.
//
//   machine_owner <emulator> <firmware> <ending>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "qemu/machine.hpp"
#include "tests/support/forbidden_signals.hpp"

namespace {

std::optional<qemu::Machine> machine;  // static: exit() of a forked child runs its destructor too

void start(const char* emulator, const char* firmware) {
  qemu::MachineOptions options;
  options.emulator = emulator;
  options.firmware = firmware;
  auto started = qemu::Machine::start(std::move(options));
  if (!started) {
    fmt::print(stderr, "{}\n", to_string(started.error()));
    std::exit(1);
  }
  machine.emplace(std::move(*started));
}

void announce(pid_t child = 0) {
  if (child != 0) {
    fmt::print("emulator {} child {}\n", machine->pid(), child);
  } else {
    fmt::print("emulator {}\n", machine->pid());
  }
  std::fflush(stdout);
}

[[noreturn]] void hold() {
  for (;;) pause();  // bounded: its parent test kills it
}

void throw_through_owner() {
  qemu::Machine local{std::move(*machine)};
  machine.reset();
  throw std::runtime_error("thrown while a machine runs");
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const std::string_view ending = argv[3];

  if (ending == "thread") {
    std::thread([&] { start(argv[1], argv[2]); }).join();  // bounded: start() is bounded by Timeouts
    announce();
    hold();
  }
  start(argv[1], argv[2]);

  if (ending == "fork-hold") {
    const pid_t child = fork();
    if (child == 0) hold();
    announce(child);
    hold();
  }
  if (ending == "fork-exit") {
    const pid_t child = fork();
    if (child == 0) std::exit(0);
    waitpid(child, nullptr, 0);  // bounded: the child leaves at once
    announce();
    hold();
  }
  announce();
  if (ending == "hold") hold();
  if (ending == "return") return 0;
  if (ending == "_exit") _exit(0);
  if (ending == "abort") std::abort();
  if (ending == "unprivileged") {
    svp::test::forbid_signals();
    if (!machine->kill()) return 3;
    machine.reset();
    hold();
  }
  if (ending == "unprivileged-close") {
    svp::test::forbid_signals();
    machine.reset();
    hold();
  }
  if (ending == "exec") execl("/bin/sleep", "sleep", "60", nullptr);
  if (ending == "exception") {
    try {
      throw_through_owner();
    } catch (const std::runtime_error&) {
      hold();  // alive, but the machine was unwound
    }
  }
  return 2;
}
