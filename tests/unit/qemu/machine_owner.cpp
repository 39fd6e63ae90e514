// SPDX-License-Identifier: Apache-2.0
//
// A process that owns a machine and ends, or does not end, in the way its last argument names. It prints one line,
// "emulator <pid>[ child <pid>]", as soon as the machine runs. The tests watch from outside what is left of it.
//
//   machine_owner <emulator> <firmware> <ending>
#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "qemu/machine.hpp"

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

// From now on the kernel refuses every signal that this thread sends to a process, as it does to a daemon that was
// started as root and has changed its user. Works without privileges.
void forbid_signals() {
  std::array<sock_filter, 5> program{
      sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_send_signal, 1, 0),
      sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kill, 0, 1),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog filter{program.size(), program.data()};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    std::exit(4);
  }
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
    forbid_signals();
    if (!machine->kill()) return 3;
    machine.reset();
    hold();
  }
  if (ending == "unprivileged-close") {
    forbid_signals();
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
