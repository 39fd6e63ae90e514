// SPDX-License-Identifier: Apache-2.0
// The broker's UNIX sockets (SOCK_SEQPACKET: messages keep their bounds) in a card's folder, and its messages with
// descriptors. Sockets made here never block, except connect_in() within its bound.
//
// There are two. Whoever may connect to the tenant socket may take a function; whoever may connect to the management
// socket may do anything to the card. Who may connect is the file's owner, group and mode: the kernel checks it.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/base/unique_fd.hpp"

namespace svp {

inline constexpr const char* kSocketName = "socket";
inline constexpr const char* kManagementSocketName = "management";

// Both reach the socket through the folder's descriptor (/proc/self/fd), because a socket's path is limited to 107
// bytes and a folder's is not. With a group its members may connect (mode 0660), else the user alone (0600).
Expected<UniqueFd> listen_in(int folder, const char* name, std::optional<gid_t> group = std::nullopt);
// Waits at most `bound` for a place in the broker's queue. Refused when nobody listens: errno ECONNREFUSED or ENOENT is
// `absent`.
struct ConnectFailure {
  bool absent = false;
  bool forbidden = false;  // EACCES
  std::string reason{};
};
std::expected<UniqueFd, ConnectFailure> connect_in(int folder, const char* name, std::chrono::nanoseconds bound);

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
  std::vector<UniqueFd> descriptors{};  // close-on-exec
  // The process that sent it, as the kernel says (SCM_CREDENTIALS): only after ask_for_senders() on this socket or its
  // listener.
  std::optional<pid_t> sender{};
};
// Messages that are sent to this socket from now on tell who sent them. False: the system refuses.
bool ask_for_senders(int socket);
// Never waits. Takes at most `max_descriptors` (up to 8); if more come, all are closed.
Received receive_message(int socket, std::size_t max_bytes, std::size_t max_descriptors);

}  // namespace svp
