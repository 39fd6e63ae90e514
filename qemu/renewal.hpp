// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "qemu/unique_fd.hpp"

namespace qemu {

/// A window that was plugged into a port while the emulator runs. Its memory file is like a slot's: sealed, zeroed.
struct PluggedWindow {
  unsigned port = 0;
  /// Counts the windows that a machine has plugged, from 1; none comes twice.
  std::uint32_t serial = 0;
  std::uint64_t bytes = 0;
  UniqueFd memory{};
};

/// A peer of a slot's doorbell device, for one owner. Both ends are non-blocking and file descriptions of their own.
struct DoorbellPeer {
  unsigned slot = 0;
  std::uint16_t id = 0;
  UniqueFd to_card{};    ///< write end; the pipe is the slot's and stays the same for all owners
  UniqueFd from_card{};  ///< read end of a pipe of its own
};

}  // namespace qemu
