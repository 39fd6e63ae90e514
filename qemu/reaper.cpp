// SPDX-License-Identifier: Apache-2.0
//
// The reaper: a few kilobytes that stand between the owner and the emulator, so that no emulator survives its owner.
// It is the emulator's parent, waits for the owner's end and kills the emulator then; it reports the emulator's end.
//
// Why an own program: a fork of the owner without exec would keep the owner's memory (copy-on-write faults on every
// later write of a big process) and every window mapped. Why freestanding: it starts in a fraction of a millisecond,
// holds almost no memory, and needs no file of an installation (its image is embedded in the library).
//
// Second line: the emulator asks for SIGKILL at its parent's death. The parent is this single-threaded program, so the
// rule "the signal follows the parent *thread*" can not misfire as it would with a thread of the owner.

#include <fcntl.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cerrno>
#include <csignal>

#include "qemu/reaper_protocol.hpp"

namespace {

using namespace qemu::reaper;

/// Linux system call: a result, or -errno.
long invoke(long number, long a = 0, long b = 0, long c = 0, long d = 0, long e = 0, long f = 0) {
#if defined(__x86_64__)
  long result;
  register long r10 asm("r10") = d;
  register long r8 asm("r8") = e;
  register long r9 asm("r9") = f;
  asm volatile("syscall"
               : "=a"(result)
               : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
               : "rcx", "r11", "memory");
  return result;
#elif defined(__aarch64__)
  register long x8 asm("x8") = number;
  register long x0 asm("x0") = a;
  register long x1 asm("x1") = b;
  register long x2 asm("x2") = c;
  register long x3 asm("x3") = d;
  register long x4 asm("x4") = e;
  register long x5 asm("x5") = f;
  asm volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
#else
#error "the reaper knows the system call convention of x86-64 and AArch64 only"
#endif
}

long address(const void* pointer) { return reinterpret_cast<long>(pointer); }

[[noreturn]] void leave(int code) {
  for (;;) invoke(SYS_exit_group, code);  // bounded: the system call does not return
}

int parse_count(const char* text) {
  int value = 0;
  for (; *text >= '0' && *text <= '9'; ++text) value = value * 10 + (*text - '0');
  return value;
}

/// Never blocks: the link has room for the three reports of an emulator; when the owner is gone nobody wants them.
void report(ReportKind kind, int value, int descriptor = -1) {
  Report body{kind, value};
  iovec part{&body, sizeof body};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))];
  msghdr message;
  message.msg_name = nullptr;
  message.msg_namelen = 0;
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = nullptr;
  message.msg_controllen = 0;
  message.msg_flags = 0;
  if (descriptor >= 0) {
    auto* header = reinterpret_cast<cmsghdr*>(control);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    *reinterpret_cast<int*>(CMSG_DATA(header)) = descriptor;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  invoke(SYS_sendmsg, kLink, address(&message), MSG_DONTWAIT | MSG_NOSIGNAL);
}

/// In the new process: becomes the emulator, or leaves errno in the pipe.
[[noreturn]] void become_emulator(char** argv, char** environment, long reaper_pid, int error_pipe) {
  invoke(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
  if (invoke(SYS_getppid) != reaper_pid) leave(1);  // it died before the request above took effect
  int error = static_cast<int>(-invoke(SYS_execve, address(argv[0]), address(argv), address(environment)));
  invoke(SYS_write, error_pipe, address(&error), sizeof error);
  leave(1);
}

struct Child {
  int pid;
  int pidfd;
};

/// Starts the emulator; reports the failure and leaves if that is impossible.
Child start(char** argv, char** environment) {
  int error_pipe[2];
  if (const long result = invoke(SYS_pipe2, address(error_pipe), O_CLOEXEC); result < 0) {
    report(ReportKind::kFailed, static_cast<int>(-result));
    leave(1);
  }
  const long self = invoke(SYS_getpid);
  int pidfd = -1;
  const long pid = invoke(SYS_clone, CLONE_PIDFD | SIGCHLD, 0, address(&pidfd));
  if (pid == 0) become_emulator(argv, environment, self, error_pipe[1]);
  if (pid < 0) {
    report(ReportKind::kFailed, static_cast<int>(-pid));
    leave(1);
  }
  invoke(SYS_close, error_pipe[1]);
  int error = 0;
  long got;
  // bounded: the child's execve or its exit closes the pipe
  do got = invoke(SYS_read, error_pipe[0], address(&error), sizeof error);
  while (got == -EINTR);
  invoke(SYS_close, error_pipe[0]);
  if (got == static_cast<long>(sizeof error)) {
    invoke(SYS_waitid, P_PID, pid, 0, WEXITED);  // bounded: the child said that it could not be executed, and leaves
    report(ReportKind::kFailed, error);
    leave(1);
  }
  return {static_cast<int>(pid), pidfd};
}

/// Until the emulator has ended: kills it as soon as the owner is gone.
void watch(const Child& child) {
  pollfd events[3] = {{child.pidfd, POLLIN, 0}, {kLink, POLLIN, 0}, {kOwner, POLLIN, 0}};
  unsigned long watched = 3;
  for (;;) {  // bounded: the lifetime of the emulator, which is what the reaper watches
    // bounded: the emulator's, the owner's or the link's end
    const long ready = invoke(SYS_ppoll, address(events), static_cast<long>(watched));
    if (ready == -EINTR) continue;
    if (ready >= 0 && events[0].revents != 0) return;
    // The owner never sends: readable means the end of the link. An unexpected poll error ends the card as well.
    if (ready < 0 || events[1].revents != 0 || events[2].revents != 0) {
      const long sent = invoke(SYS_pidfd_send_signal, child.pidfd, SIGKILL);
      // It asked for SIGKILL at its parent's death, which needs nobody's right.
      if (sent < 0 && sent != -ESRCH) leave(1);
      watched = 1;
    }
  }
}

void report_end(const Child& child) {
  siginfo_t status;
  long result;
  // bounded: its pidfd said that it has ended
  do result = invoke(SYS_waitid, P_PID, child.pid, address(&status), WEXITED);
  while (result == -EINTR);
  if (result < 0) return;
  report(status.si_code == CLD_EXITED ? ReportKind::kExited : ReportKind::kSignaled, status.si_status);
}

}  // namespace

extern "C" [[noreturn]] void reaper_main(long* stack) {
  const long argc = stack[0];
  auto** argv = reinterpret_cast<char**>(stack + 1);
  char** environment = argv + argc + 1;
  if (argc <= kEmulatorArgument) leave(2);
  const int inherited = parse_count(argv[kInheritedCountArgument]);

  invoke(SYS_prctl, PR_SET_NAME, address("spyre-reaper"));
  invoke(SYS_close, kImage);
  invoke(SYS_fcntl, kLink, F_SETFD, FD_CLOEXEC);
  invoke(SYS_fcntl, kOwner, F_SETFD, FD_CLOEXEC);

  const Child child = start(argv + kEmulatorArgument, environment);
  // From here on only the emulator may hold its ends, otherwise the owner would never see them close.
  invoke(SYS_close_range, kFirstInherited, kFirstInherited + inherited - 1, 0);
  invoke(SYS_dup3, kNull, 1, 0);
  invoke(SYS_dup3, kNull, 2, 0);
  report(ReportKind::kStarted, child.pid, child.pidfd);
  watch(child);
  report_end(child);
  leave(0);
}

#if defined(__x86_64__)
asm(".globl _start\n_start:\n  xor %ebp, %ebp\n  mov %rsp, %rdi\n  and $-16, %rsp\n  call reaper_main\n");
#elif defined(__aarch64__)
asm(".globl _start\n_start:\n  mov x29, xzr\n  mov x0, sp\n  bl reaper_main\n");
#endif
