// SPDX-License-Identifier: Apache-2.0
// Which process is at the other end of a UNIX socket, in a way that a recycled process number cannot confuse.
#pragma once

#include <sys/types.h>

#include "host_driver/error.hpp"
#include "qemu/unique_fd.hpp"

namespace flex {

struct PeerProcess {
  pid_t pid = 0;
  uid_t uid = 0;
  qemu::UniqueFd pidfd{};  // readable when the process has ended; children that it forked do not matter
};

// The process that connected the socket. Errors: it has ended already; it lives in another pid namespace.
Expected<PeerProcess> identify_peer(int socket);

// For kernels without SO_PEERPIDFD (before 6.5): by number. The number may have been recycled since connect(), which
// needs the peer to have ended. Refused when its end of the socket is closed (or the process belongs to somebody else).
// What is left is a peer that connected, forked, and ended while all process numbers went round, before the broker
// accepted: then only the socket tells of its end.
Expected<qemu::UniqueFd> open_peer_by_number(int socket, pid_t pid);

}  // namespace flex
