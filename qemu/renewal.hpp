// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "host_driver/base/unique_fd.hpp"

namespace qemu {

/// ivshmem peer ids. Announcing an id twice corrupts QEMU's heap: the host is kHostPeer from the start, and each
/// further owner of the slot gets the next id from kFirstRenewedPeer on, which is never used again. The firmware
/// signals a peer by writing its id << 16 | kDoorbellVector to Doorbell.
inline constexpr std::uint16_t kHostPeer = 0;
inline constexpr std::uint16_t kCardPeer = 1;
inline constexpr std::uint16_t kFirstRenewedPeer = 2;
inline constexpr std::uint16_t kLastPeer = 65'535;
/// One vector per direction.
inline constexpr std::uint16_t kDoorbellVector = 0;

/// A window that was plugged into a port while the emulator runs. Its memory file is like a slot's: sealed, zeroed.
struct PluggedWindow {
  unsigned port = 0;
  /// Counts the windows that a machine has plugged, from 1; none comes twice.
  std::uint32_t serial = 0;
  std::uint64_t bytes = 0;
  svp::UniqueFd memory{};
};

/// A peer of a slot's doorbell device, for one owner. Both ends are non-blocking and file descriptions of their own.
struct DoorbellPeer {
  unsigned slot = 0;
  std::uint16_t id = 0;
  svp::UniqueFd to_card{};    ///< write end; the pipe is the slot's and stays the same for all owners
  svp::UniqueFd from_card{};  ///< read end of a pipe of its own
};

}  // namespace qemu
