// SPDX-License-Identifier: Apache-2.0
// The broker's UNIX socket (SOCK_SEQPACKET: messages keep their bounds) in a card's folder, and its messages with
// descriptors. Sockets made here never block, except connect_in() within its bound.
#pragma once

#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/error.hpp"
#include "qemu/unique_fd.hpp"

namespace flex {

inline constexpr const char* kSocketName = "socket";

// Both reach the socket through the folder's descriptor (/proc/self/fd), because a socket's path is limited to 107
// bytes and a folder's is not.
Expected<qemu::UniqueFd> listen_in(int folder);
// Waits at most `bound` for a place in the broker's queue. Refused when nobody listens: errno ECONNREFUSED or ENOENT is
// `absent`.
struct ConnectFailure {
  bool absent = false;
  std::string reason{};
};
std::expected<qemu::UniqueFd, ConnectFailure> connect_in(int folder, std::chrono::nanoseconds bound);

// False when the other side is gone or does not take what it is sent: nothing waits for it. No SIGPIPE.
bool send_message(int socket, std::string_view text, std::span<const int> descriptors = {});

struct Received {
  enum class Kind {
    Message,
    Nothing,  // none is there now
    End,      // the other side closed, or the socket failed
    Refused,  // too long, or more descriptors than wanted: taken off the socket and thrown away
  };
  Kind kind = Kind::Nothing;
  std::string text{};
  std::vector<qemu::UniqueFd> descriptors{};  // close-on-exec
};
// Never waits. Takes at most `max_descriptors` (up to 8); if more come, all are closed.
Received receive_message(int socket, std::size_t max_bytes, std::size_t max_descriptors);

}  // namespace flex
