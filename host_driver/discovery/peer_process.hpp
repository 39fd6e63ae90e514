// SPDX-License-Identifier: Apache-2.0
// Which process is at the other end of a UNIX socket, in a way that a recycled process number cannot confuse.
#pragma once

#include <sys/types.h>

#include "host_driver/base/error.hpp"
#include "host_driver/base/unique_fd.hpp"

namespace svp {

struct PeerProcess {
  pid_t pid = 0;  // 0: of a pid namespace that this one does not contain; only with a descriptor from the socket
  uid_t uid = 0;
  UniqueFd pidfd{};  // readable when the process has ended; children that it forked do not matter
  // The descriptor was opened by number and may be of a later process of that number, until the peer has proved that it
  // is not: after the descriptor was open, it sends a message whose sender (Received::sender) has that number. While
  // the descriptor's process exists nobody else has the number, so the sender is that process.
  bool needs_proof = false;

  // The process has not ended.
  bool alive() const;
};

// The process that connected the socket. Errors: it has ended already; on a kernel before 6.5, it is in a pid namespace
// that this one does not contain.
Expected<PeerProcess> identify_peer(int socket);

// For kernels without SO_PEERPIDFD (before 6.5): by number, with needs_proof.
Expected<PeerProcess> identify_peer_by_number(int socket);

}  // namespace svp
