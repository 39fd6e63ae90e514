// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/peer_process.hpp"

#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <string>
#include <system_error>

#include "host_driver/discovery/local_socket.hpp"

#ifndef SO_PEERPIDFD
#define SO_PEERPIDFD 77  // Linux 6.5; Debian 12's headers are older
#endif

namespace svp {

namespace {

ErrorInfo no_peer(std::string message) {
  return {.layer = Layer::Driver,
          .source = "client",
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

namespace {

Expected<ucred> credentials_of(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return std::unexpected(no_peer("SO_PEERCRED", errno));
  }
  return credentials;
}

}  // namespace

bool PeerProcess::alive() const {
  pollfd event{pidfd.get(), POLLIN, 0};
  return pidfd.valid() && ::poll(&event, 1, 0) == 0;
}

Expected<PeerProcess> identify_peer_by_number(int socket) {
  const auto credentials = credentials_of(socket);
  if (!credentials) return std::unexpected(credentials.error());
  if (credentials->pid <= 0) return std::unexpected(no_peer("the client is in another pid namespace"));
  PeerProcess peer{credentials->pid, credentials->uid, {}, true};
  peer.pidfd.reset(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
  if (!peer.pidfd.valid()) return std::unexpected(no_peer("pidfd_open", errno));
  if (!ask_for_senders(socket)) return std::unexpected(no_peer("SO_PASSCRED", errno));
  return peer;
}

Expected<PeerProcess> identify_peer(int socket) {
  const auto credentials = credentials_of(socket);
  if (!credentials) return std::unexpected(credentials.error());
  PeerProcess peer{std::max(credentials->pid, 0), credentials->uid, {}, false};
  int pidfd = -1;
  socklen_t size = sizeof pidfd;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERPIDFD, &pidfd, &size) == 0) {
    peer.pidfd.reset(pidfd);
    return peer;
  }
  if (errno != ENOPROTOOPT) return std::unexpected(no_peer("SO_PEERPIDFD", errno));
  return identify_peer_by_number(socket);
}

}  // namespace svp
