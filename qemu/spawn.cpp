// SPDX-License-Identifier: Apache-2.0
#include "qemu/spawn.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <utility>

#include "host_driver/base/file_size_signal.hpp"
#include "qemu/child_process.hpp"
#include "qemu/emulator_environment.hpp"
#include "qemu/errors.hpp"
#include "qemu/reaper_image.hpp"
#include "qemu/reaper_protocol.hpp"

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U  // Linux 6.3; Debian 12's headers are older
#endif

namespace qemu {

namespace {

svp::UniqueFd open_pidfd(pid_t pid) { return svp::UniqueFd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))}; }

/// The reaper's program as an anonymous executable file.
Result<svp::UniqueFd> create_reaper_file() {
  constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  svp::UniqueFd file{::memfd_create("spyre-reaper", kFlags | MFD_EXEC)};
  if (!file.valid() && errno == EINVAL) file.reset(::memfd_create("spyre-reaper", kFlags));
  if (!file.valid() && errno == EACCES) {
    return failure(MachineError::Kind::kStartFailed, "This machine forbids executable memory files.",
                   "Set sysctl vm.memfd_noexec to 0 or 1.");
  }
  if (!file.valid()) return system_failure("memfd_create", errno);
  const auto image = reaper_image();
  const svp::FileSizeSignalHeld held;
  if (::write(file.get(), image.data(), image.size()) != static_cast<ssize_t>(image.size())) {
    return system_failure("write(reaper)", errno);
  }
  return file;
}

/// RAII around the two C objects of posix_spawn.
class SpawnPlan {
 public:
  SpawnPlan() {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none;
    sigset_t all;
    ::sigemptyset(&none);
    // A dump of the card's memory that is too large for RLIMIT_FSIZE is an answer, not the emulator's end.
    ::sigaddset(&none, SIGXFSZ);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    // Also SIGCHLD: an owner that ignores it would otherwise take the emulator's exit status from the reaper.
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    // A process group of its own keeps the terminal's signals away. Not a session of its own: Linux schedules each
    // session as one group (autogroup), and beside a busy session the emulator's threads got almost no CPU
    // (docs/notes/2026-11-22-autogroup.md).
    ::posix_spawnattr_setpgroup(&attributes_, 0);
    ::posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  }
  SpawnPlan(const SpawnPlan&) = delete;
  SpawnPlan& operator=(const SpawnPlan&) = delete;
  ~SpawnPlan() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }

  /// The child sees `source` as `target`. Sources are first copied above all targets, so that no assignment of a target
  /// overwrites a source that is still needed.
  [[nodiscard]] bool map(int source, int target, int above) {
    svp::UniqueFd copy{::fcntl(source, F_DUPFD_CLOEXEC, above)};
    if (!copy.valid()) return false;
    const bool added = ::posix_spawn_file_actions_adddup2(&actions_, copy.get(), target) == 0;
    copies_.push_back(std::move(copy));
    return added;
  }

  [[nodiscard]] int run(const char* path, std::vector<std::string>& arguments, int first_closed, pid_t& child) {
    if (const int error = ::posix_spawn_file_actions_addclosefrom_np(&actions_, first_closed); error != 0) return error;
    std::vector<std::string> variables = emulator_environment();  // the reaper has no dynamic linker that would look
    return ::posix_spawn(&child, path, &actions_, &attributes_, pointers_to(arguments).data(),
                         pointers_to(variables).data());
  }

 private:
  // To each of them, and the null pointer that ends such a list.
  static std::vector<char*> pointers_to(std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    pointers.reserve(strings.size() + 1);
    for (std::string& string : strings) pointers.push_back(string.data());
    pointers.push_back(nullptr);
    return pointers;
  }

  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
  std::vector<svp::UniqueFd> copies_;
};

struct Received {
  reaper::Report report;
  svp::UniqueFd descriptor;
};

/// The reaper's first report, or the reason why there is none.
Result<Received> receive_report(int link, Timeouts::Duration timeout) {
  pollfd event{link, POLLIN, 0};
  int ready;
  do ready = ::poll(&event, 1, static_cast<int>(timeout.count()));
  while (ready < 0 && errno == EINTR);
  if (ready == 0) {
    return failure(MachineError::Kind::kStartFailed,
                   fmt::format("the emulator was not executed within {} ms.", timeout.count()),
                   "Check whether this machine is out of memory or its file system hangs.");
  }
  Received received{};
  iovec part{&received.report, sizeof received.report};
  alignas(cmsghdr) unsigned char control[CMSG_SPACE(sizeof(int))];
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control;
  message.msg_controllen = sizeof control;
  if (::recvmsg(link, &message, MSG_CMSG_CLOEXEC | MSG_DONTWAIT) != static_cast<ssize_t>(sizeof received.report)) {
    return failure(MachineError::Kind::kStartFailed, "the reaper ended before it could start the emulator.",
                   "Check the limits of this machine or container (memory, processes, seccomp profile).");
  }
  if (const cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr && header->cmsg_type == SCM_RIGHTS) {
    int descriptor;
    std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
    received.descriptor.reset(descriptor);
  }
  return received;
}

Result<void> start_reaper(Guarded& guarded, svp::UniqueFd reaper_link, const std::string& emulator,
                          const std::vector<std::string>& arguments, std::span<const int> inherited, int error_output) {
  auto file = create_reaper_file();
  if (!file) return std::unexpected(std::move(file.error()));
  const svp::UniqueFd null{::open("/dev/null", O_RDWR | O_CLOEXEC)};
  if (!null.valid()) return system_failure("open(/dev/null)", errno);
  svp::UniqueFd self = open_pidfd(::getpid());
  if (!self.valid()) return system_failure("pidfd_open", errno);

  const int above = reaper::kFirstInherited + static_cast<int>(inherited.size());
  SpawnPlan plan;
  bool mapped = plan.map(null.get(), reaper::kNull, above) && plan.map(error_output, STDOUT_FILENO, above) &&
                plan.map(error_output, STDERR_FILENO, above) && plan.map(reaper_link.get(), reaper::kLink, above) &&
                plan.map(self.get(), reaper::kOwner, above) && plan.map(file->get(), reaper::kImage, above);
  for (std::size_t i = 0; mapped && i < inherited.size(); ++i) {
    mapped = plan.map(inherited[i], reaper::kFirstInherited + static_cast<int>(i), above);
  }
  if (!mapped) return system_failure("F_DUPFD_CLOEXEC", errno);

  std::vector<std::string> all{"spyre-reaper", fmt::format("{}", inherited.size()), emulator};
  all.insert(all.end(), arguments.begin(), arguments.end());
  const std::string path = fmt::format("/proc/self/fd/{}", static_cast<int>(reaper::kImage));
  if (const int error = plan.run(path.c_str(), all, above, guarded.reaper); error != 0) {
    return system_failure("posix_spawn(reaper)", error);
  }
  self.reset();  // the next call finds a free number, also at the limit of descriptors
  svp::UniqueFd pidfd = open_pidfd(guarded.reaper);
  const int error = pidfd.valid() ? 0 : errno;
  if (error != 0 && error != ESRCH) return system_failure("pidfd_open(reaper)", error);
  // ESRCH: the emulator has ended at once, and the owner ignores SIGCHLD, so that the kernel has collected the reaper.
  // What it had to say stands in the link.
  if (error != 0) guarded.reaper = -1;
  guarded.reaper_pidfd = std::move(pidfd);
  return {};
}

}  // namespace

int first_inherited_descriptor() { return reaper::kFirstInherited; }

Result<Guarded> spawn_guarded(const std::string& emulator, const std::vector<std::string>& arguments,
                              std::span<const int> inherited, int error_output, Timeouts::Duration timeout) {
  collect_late_children();
  int link[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, link) != 0) return system_failure("socketpair", errno);
  Guarded guarded;
  guarded.link.reset(link[0]);
  auto started = start_reaper(guarded, svp::UniqueFd{link[1]}, emulator, arguments, inherited, error_output);
  auto received = started ? receive_report(guarded.link.get(), timeout) : std::unexpected(std::move(started.error()));
  if (received && received->report.kind == reaper::ReportKind::kStarted && received->descriptor.valid()) {
    guarded.emulator = received->report.value;
    guarded.emulator_pidfd = std::move(received->descriptor);
    return guarded;
  }
  // Also ends a reaper that hangs half-way. What is told is why the start failed.
  [[maybe_unused]] const auto ignored = end_reaper(guarded, timeout);
  if (!received) return std::unexpected(std::move(received.error()));
  return failure(MachineError::Kind::kStartFailed,
                 fmt::format("'{}' could not be executed: {}.", emulator, std::strerror(received->report.value)),
                 "Check that the emulator is an executable for this machine; scripts/bootstrap installs one.");
}

Result<void> request_end(const Guarded& guarded) {
  const bool sent = ::syscall(SYS_pidfd_send_signal, guarded.emulator_pidfd.get(), SIGKILL, nullptr, 0) == 0;
  const int error = sent ? 0 : errno;
  if (sent || error == ESRCH) return {};
  // The link takes an order that nobody reads.
  pollfd reaper{guarded.reaper_pidfd.get(), POLLIN, 0};
  const bool reads = guarded.reaper_pidfd.valid() && ::poll(&reaper, 1, 0) == 0;
  if (reads && guarded.link.valid() && ::shutdown(guarded.link.get(), SHUT_WR) == 0) return {};
  return failure(MachineError::Kind::kNotPermitted,
                 fmt::format("the emulator (pid {}) cannot be ended: {}, and its reaper is gone.", guarded.emulator,
                             std::strerror(error)),
                 fmt::format("End it as the user who started it: kill -9 {}.", guarded.emulator));
}

Result<void> end_reaper(Guarded& guarded, Timeouts::Duration timeout) {
  // Not only closed: a poll of io_uring or a forked child may hold the link open.
  if (guarded.link.valid()) ::shutdown(guarded.link.get(), SHUT_RDWR);
  guarded.link.reset();
  if (guarded.reaper < 0) return {};
  const pid_t reaper = std::exchange(guarded.reaper, -1);
  if (collect_child(reaper, std::move(guarded.reaper_pidfd), timeout)) return {};
  return failure(MachineError::Kind::kTimeout,
                 fmt::format("the reaper (pid {}) of the emulator (pid {}) has not ended within {} ms.", reaper,
                             guarded.emulator, timeout.count()),
                 fmt::format("Look at /proc/{}/stack, and end both as the user who started them.", reaper));
}

}  // namespace qemu
