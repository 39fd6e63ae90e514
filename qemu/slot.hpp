// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/transport/slot_handle.hpp"
#include "qemu/machine_error.hpp"
#include "qemu/machine_options.hpp"
#include "qemu/renewal.hpp"

namespace qemu {

/// An empty memory file of a fixed size.
[[nodiscard]] Result<svp::UniqueFd> create_window(unsigned number, std::uint64_t bytes);

/// The machine's side of one ivshmem-doorbell device: memory file, doorbells and the server's end of its socket.
///
/// The machine keeps both tenant ends of the doorbells until the emulator has ended, whatever tenants do with theirs: a
/// pipe whose last writer is gone makes QEMU's main loop spin, one whose last reader is gone makes its writes fail.
class Slot {
 public:
  /// Also puts the whole server side of the handshake into the socket, before the emulator even exists: the client
  /// never sends, so nobody has to serve it later (docs/specs/ivshmem-spec of QEMU, "Client-Server protocol").
  [[nodiscard]] static Result<Slot> create(unsigned index, const SlotOptions& options);

  /// The end that the emulator inherits; to be dropped after the spawn, so that the socket ends with the emulator.
  [[nodiscard]] int emulator_end() const { return emulator_end_.get(); }
  void drop_emulator_end() { emulator_end_.reset(); }

  /// Whether the emulator has read every handshake message.
  [[nodiscard]] bool handshake_read() const;

  [[nodiscard]] Result<svp::SlotHandle> handle() const;

  /// Announces peer `id`, which was never announced before, with a pipe of its own. The emulator knows it when it has
  /// read the message: see handshake_read(). Not at the same time as another of these two on the same slot.
  [[nodiscard]] Result<DoorbellPeer> connect_peer(std::uint16_t id) const;
  /// Once for each id.
  [[nodiscard]] Result<void> disconnect_peer(std::uint16_t id) const;

 private:
  Slot() = default;
  [[nodiscard]] Result<void> send_handshake(int doorbell_read_by_card, int doorbell_written_by_card) const;

  unsigned index_ = 0;
  std::uint64_t window_bytes_ = 0;
  svp::UniqueFd window_;
  svp::UniqueFd doorbell_to_card_;    ///< write end
  svp::UniqueFd doorbell_from_card_;  ///< read end
  svp::UniqueFd server_end_;
  svp::UniqueFd emulator_end_;
};

}  // namespace qemu
