// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "qemu/machine_error.hpp"
#include "qemu/renewal.hpp"
#include "qemu/timeouts.hpp"

namespace qemu {

inline constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
inline constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

/// One ivshmem-doorbell device.
struct SlotOptions {
  /// Bytes of the shared window (BAR2): a power of two, at least 4096 (QEMU aborts on anything else).
  std::uint64_t window_bytes = 256 * kMiB;
};

/// Root ports begin a bus each, and bus 0 is the slots'.
inline constexpr unsigned kMaxPorts = 255;
/// The limits that MachineOptions is checked against.
inline constexpr unsigned kMaxHarts = 512;  ///< -M virt
inline constexpr unsigned kMaxSlots = 248;  ///< 31 PCI device numbers (0 is the host bridge) of 8 functions
inline constexpr unsigned kMaxSingleFunctionSlots = 31;

/// An asynchronous message of the emulator (QMP event).
struct MachineEvent {
  enum class Kind { kShutdown, kReset, kGuestPanicked, kStop, kResume, kOther };
  Kind kind = Kind::kOther;
  std::string name{};    ///< QMP name, e.g. "SHUTDOWN"
  std::string reason{};  ///< SHUTDOWN and RESET: QMP reason, e.g. "guest-shutdown", "host-qmp-system-reset"
  bool caused_by_guest = false;
};

/// Everything that decides how a card is emulated. Plain data: build it, hand it to Machine::start().
///
/// The callbacks run on the machine's own thread, one at a time. They must return quickly, must not throw and must not
/// destroy the machine; a QMP request or a waiting call made from there is refused at once (kQmpError, kTimeout).
struct MachineOptions {
  /// Path of the emulator; a name without '/' is looked up in PATH.
  std::string emulator = "qemu-system-riscv64";
  /// The firmware's ELF file, entered in M-mode by all harts at once.
  std::filesystem::path firmware{};
  /// A plugin of the emulator's translator, the card's compute array. Empty: none.
  std::filesystem::path array{};
  unsigned harts = 1;
  /// Guest memory in bytes, whole MiB. Sparse: only touched pages cost host memory.
  std::uint64_t memory_bytes = 98 * kGiB;
  /// In the order of their PCI devfn, which is how both sides number them. See slot_address().
  std::vector<SlotOptions> slots = std::vector<SlotOptions>(3);
  /// Root ports behind the slots, empty at first, for windows that are plugged while the card runs.
  unsigned ports = 0;
  /// For tests of the ids' end: the id of the first peer that connect_peer() gives.
  std::uint16_t first_renewed_peer = kFirstRenewedPeer;
  /// Handed to the firmware as /chosen/bootargs.
  std::string boot_arguments{};
  /// Size of the translation buffer in MiB. QEMU's own default of 1 GiB is too much for many cards on one machine.
  unsigned translation_buffer_mib = 64;
  /// Do not run the first guest instruction before cont(). (Otherwise start() lets the harts go after the handshake.)
  bool start_paused = false;
  /// Where a debugger may attach, in the emulator's own notation: "tcp:127.0.0.1:1234" or
  /// "unix:<path>,server=on,wait=off". Empty: no debugger. A UNIX socket that is named here belongs to the
  /// caller, who also removes it.
  std::string gdb_endpoint{};
  /// Appended to the command line as they are. For experiments: they can break every promise made here.
  std::vector<std::string> extra_arguments{};

  /// Also append the console to this file (created if absent). Empty: no file.
  std::filesystem::path console_file{};
  /// A whole console line without its newline.
  std::function<void(std::string_view line)> on_console_line{};
  std::function<void(const MachineEvent&)> on_event{};
  /// Called exactly once, also for an end that the owner caused by kill() or quit().
  std::function<void(const ExitStatus&)> on_exit{};

  Timeouts timeouts{};
};

/// PCI address of a slot or port (those come behind the slots) as QEMU spells it, "DD.F". Up to 31 slots stand at
/// devices 1, 2, … function 0. More are packed as eight functions per device, and all devices are then announced as
/// multifunction. Ascending devfn is ascending slot number in both layouts, so a scan in devfn order numbers them
/// alike.
[[nodiscard]] std::string slot_address(unsigned slot, unsigned slot_count);

/// Checks ranges only; touches nothing outside the options.
[[nodiscard]] Result<void> validate(const MachineOptions& options);

}  // namespace qemu
