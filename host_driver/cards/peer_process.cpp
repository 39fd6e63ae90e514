// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cards/peer_process.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <system_error>

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; Debian 12's headers are older
#endif

namespace flex {

namespace {

ErrorInfo no_peer(std::string message) {
  return {.layer = Layer::Driver,
          .culprit = "client",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "connect from a living process of the broker's pid namespace",
          .message = std::move(message)};
}

ErrorInfo no_peer(const char* call, int error) {
  return no_peer(std::string("cannot tell which process the client is: ") + call + ": " +
                 std::generic_category().message(error));
}

}  // namespace

Expected<qemu::UniqueFd> open_peer_by_number(int socket, pid_t pid) {
  qemu::UniqueFd pidfd{static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))};
  if (!pidfd.valid()) return std::unexpected(no_peer("pidfd_open", errno));
  struct stat process{};
  if (::stat(("/proc/" + std::to_string(pid)).c_str(), &process) != 0 || process.st_uid != ::geteuid()) {
    return std::unexpected(no_peer("process " + std::to_string(pid) + " is not the one that connected"));
  }
  pollfd event{socket, 0, 0};
  if (::poll(&event, 1, 0) != 0) {
    return std::unexpected(no_peer("process " + std::to_string(pid) + " has ended"));
  }
  return pidfd;
}

Expected<PeerProcess> identify_peer(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return std::unexpected(no_peer("SO_PEERCRED", errno));
  }
  PeerProcess peer{credentials.pid, credentials.uid, {}};
  if (peer.pid <= 0) return std::unexpected(no_peer("the client lives in another pid namespace"));
  int pidfd = -1;
  size = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
    peer.pidfd.reset(pidfd);
    return peer;
  }
  if (errno != ENOPROTOOPT) return std::unexpected(no_peer("SO_PEERPIDFD", errno));
  auto by_number = open_peer_by_number(socket, peer.pid);
  if (!by_number) return std::unexpected(std::move(by_number.error()));
  peer.pidfd = *std::move(by_number);
  return peer;
}

}  // namespace flex
