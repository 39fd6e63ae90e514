// SPDX-License-Identifier: Apache-2.0
#include "host_driver/discovery/local_socket.hpp"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <system_error>
#include <utility>

namespace svp {

namespace {

constexpr int kBacklog = 64;
constexpr std::size_t kMaxDescriptors = 8;

sockaddr_un address_in(int folder, const char* name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", folder, name);
  return address;
}

ErrorInfo no_socket(const char* call) {
  return {.layer = Layer::Driver,
          .source = call,
          .outcome = wire::Outcome::Rejected,
          .recoverable = false,
          .next_step = "check that /proc is mounted and that the runtime folder's file system has sockets",
          .message =
              std::string("cannot make the broker's socket: ") + call + ": " + std::generic_category().message(errno)};
}

std::optional<pid_t> sender_of(msghdr& message) {
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS) continue;
    ucred credentials{};
    std::memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
    return credentials.pid;
  }
  return std::nullopt;
}

std::vector<UniqueFd> descriptors_of(msghdr& message) {
  std::vector<UniqueFd> descriptors;
  for (cmsghdr* header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (std::size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(header) + i * sizeof fd, sizeof fd);
      descriptors.emplace_back(fd);
    }
  }
  return descriptors;
}

}  // namespace

Expected<UniqueFd> listen_in(int folder, const char* name, std::optional<gid_t> group) {
  UniqueFd listener{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!listener.valid()) return std::unexpected(no_socket("socket"));
  const sockaddr_un address = address_in(folder, name);
  if (::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return std::unexpected(no_socket("bind"));
  }
  // Nobody can connect before listen(), so there is no moment in which the mode is wider than meant.
  if (group && ::fchownat(folder, name, static_cast<uid_t>(-1), *group, AT_SYMLINK_NOFOLLOW) != 0) {
    return std::unexpected(no_socket("fchownat"));
  }
  if (::fchmodat(folder, name, group ? 0660 : 0600, 0) != 0) return std::unexpected(no_socket("fchmodat"));
  // Connections inherit it: a request that comes right behind the accept has a sender as well.
  if (!ask_for_senders(listener.get())) return std::unexpected(no_socket("SO_PASSCRED"));
  if (::listen(listener.get(), kBacklog) != 0) return std::unexpected(no_socket("listen"));
  return listener;
}

std::expected<UniqueFd, ConnectFailure> connect_in(int folder, const char* name, std::chrono::nanoseconds bound) {
  const auto failed = [](const char* call) {
    const int error = errno;
    return std::unexpected(ConnectFailure{.absent = error == ECONNREFUSED || error == ENOENT,
                                          .forbidden = error == EACCES,
                                          .reason = std::string(call) + ": " + std::generic_category().message(error)});
  };
  UniqueFd socket{::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0)};
  if (!socket.valid()) return failed("socket");
  const auto us = std::chrono::duration_cast<std::chrono::microseconds>(bound).count();
  const timeval limit{us / 1'000'000, us % 1'000'000};
  if (::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit) != 0) return failed("setsockopt");
  const sockaddr_un address = address_in(folder, name);
  // bounded: SO_SNDTIMEO as set above
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    return failed("connect");
  }
  if (::fcntl(socket.get(), F_SETFL, O_NONBLOCK) != 0) return failed("fcntl");
  return socket;
}

bool ask_for_senders(int socket) {
  const int on = 1;
  return ::setsockopt(socket, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) == 0;
}

bool send_message(int socket, std::string_view text, std::span<const int> descriptors) {
  if (descriptors.size() > kMaxDescriptors) return false;
  iovec part{const_cast<char*>(text.data()), text.size()};
  alignas(cmsghdr) std::array<unsigned char, CMSG_SPACE(kMaxDescriptors * sizeof(int))> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  if (!descriptors.empty()) {
    message.msg_control = control.data();
    message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    cmsghdr* header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(header), descriptors.data(), descriptors.size_bytes());
  }
  return ::sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(text.size());
}

Received receive_message(int socket, std::size_t max_bytes, std::size_t max_descriptors) {
  Received received;
  std::string buffer(max_bytes, '\0');
  iovec part{buffer.data(), buffer.size()};
  constexpr std::size_t kControl = CMSG_SPACE(kMaxDescriptors * sizeof(int)) + CMSG_SPACE(sizeof(ucred));
  alignas(cmsghdr) std::array<unsigned char, kControl> control{};
  msghdr message{};
  message.msg_iov = &part;
  message.msg_iovlen = 1;
  message.msg_control = control.data();
  message.msg_controllen = control.size();
  ssize_t bytes = -1;
  // A side that closes without having read everything resets the other: that is told first, once, and then come the
  // messages that it had sent.
  bool was_reset = false;
  do {
    bytes = ::recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  } while (bytes < 0 && (errno == EINTR || (errno == ECONNRESET && !std::exchange(was_reset, true))));
  if (bytes < 0) {
    received.kind = errno == EAGAIN || errno == EWOULDBLOCK ? Received::Kind::Nothing : Received::Kind::End;
    return received;
  }
  received.descriptors = descriptors_of(message);
  received.sender = sender_of(message);
  if (bytes == 0) {  // an empty message counts as an end, too
    received.kind = Received::Kind::End;
  } else if ((message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0 || received.descriptors.size() > max_descriptors) {
    received.kind = Received::Kind::Refused;
  } else {
    received.kind = Received::Kind::Message;
    buffer.resize(static_cast<std::size_t>(bytes));
    received.text = std::move(buffer);
  }
  if (received.kind != Received::Kind::Message) received.descriptors.clear();
  return received;
}

}  // namespace svp
