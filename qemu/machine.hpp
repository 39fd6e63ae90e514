// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "host_driver/base/unique_fd.hpp"
#include "host_driver/transport/slot_handle.hpp"
#include "qemu/machine_error.hpp"
#include "qemu/machine_options.hpp"
#include "qemu/renewal.hpp"

namespace qemu {

struct Version {
  int major = 0;
  int minor = 0;
  int micro = 0;
  friend auto operator<=>(const Version&, const Version&) = default;
};
[[nodiscard]] std::string to_string(const Version& version);

/// Vector loads and stores became fast, and the IMSIC lost its race, in this release.
inline constexpr Version kMinimumVersion{9, 2, 0};

/// One emulated hart and the host thread that runs it (to pin or suspend it).
struct HartThread {
  unsigned hart = 0;
  pid_t host_thread = 0;
};

/// When things happened during start(), counted from its call.
struct StartTimes {
  using Duration = std::chrono::microseconds;
  Duration spawned{};     ///< the emulator was executed
  Duration greeted{};     ///< its QMP greeting arrived
  Duration handshaken{};  ///< every slot knows both peers and their doorbells
  Duration running{};     ///< harts were let go (with start_paused: equal to `handshaken`)
};

/// One stock QEMU that is a card: started, owned, watched and ended by this object.
///
/// Lifetime: the emulator ends when this object does, and also when the owning *process* ends in any way (return,
/// exception, _exit, SIGKILL, exec), even while children that it forked still hold its descriptors. The owning thread
/// is irrelevant. A child that the owner forks does not own the machine: the destructor does nothing there.
/// Nothing is left behind: no process, socket, file or shared memory object; sockets never had a name.
///
/// Threading: every member function may be called from any thread at any time, except start/move/destruction, which
/// must not overlap with others on the same object. One background thread (io_uring) serves process exit, QMP, console
/// and error output, whatever the number of slots.
class Machine {
 public:
  /// Starts the emulator and returns when every slot has been connected: from the first guest instruction on no
  /// doorbell is lost to a half-known peer. May raise the process's soft limit on descriptors. Errors: every kind but
  /// kTimeout.
  [[nodiscard]] static Result<Machine> start(MachineOptions options);

  Machine(Machine&&) noexcept;
  Machine& operator=(Machine&&) noexcept;
  ~Machine();

  [[nodiscard]] const MachineOptions& options() const;
  [[nodiscard]] pid_t pid() const;
  [[nodiscard]] Version version() const;
  [[nodiscard]] const StartTimes& start_times() const;

  // Slots ------------------------------------------------------------------------------------------------------------
  [[nodiscard]] unsigned slot_count() const;
  /// Fresh duplicates of slot `index`; any number of handles may exist. Errors: kInvalidOption, kDescriptorLimit.
  [[nodiscard]] Result<svp::SlotHandle> slot(unsigned index) const;

  // Renewal (machine_renewal.cpp); each waits at most Timeouts::request. Errors: kDied, kQmpError, kInvalidOption,
  // kDescriptorLimit, kStartFailed (a system call)
  // ---------------------------------------------------------------------
  /// Plugs a fresh window into a port, which is empty; the guest sees it when it has powered the port's slot on.
  [[nodiscard]] Result<PluggedWindow> plug_window(unsigned port, std::uint64_t bytes);
  /// Whether the emulator has let go of a window, mapping and descriptor: it does so a few milliseconds after the guest
  /// has switched off the power of the port's slot. Once true, the port is empty.
  [[nodiscard]] Result<bool> window_gone(std::uint32_t serial);
  /// Another owner's peer at a slot's doorbell device, known to the emulator when this returns. Error also:
  /// kPeersUsedUp.
  [[nodiscard]] Result<DoorbellPeer> connect_peer(unsigned slot);
  /// The emulator has let go of this peer when this returns; its id is used up. Once for each, kHostPeer included.
  [[nodiscard]] Result<void> disconnect_peer(unsigned slot, std::uint16_t id);

  // Control (QMP); each waits at most Timeouts::request. Errors: kDied, kQmpError -------------------------------------
  [[nodiscard]] Result<void> stop();
  [[nodiscard]] Result<void> cont();
  /// All harts and devices restart; windows, doorbells and guest memory survive, PCI configuration does not.
  [[nodiscard]] Result<void> system_reset();
  /// Asks the emulator to end by itself; the answer comes before the end, see wait_exit().
  [[nodiscard]] Result<void> quit();
  [[nodiscard]] Result<std::vector<HartThread>> hart_threads();
  /// What the human monitor answers to a line, such as "info registers -a".
  [[nodiscard]] Result<std::string> monitor(std::string_view line);
  /// Copies guest memory, as it is while the harts run, without the guest's help; at most 1 GiB. Errors
  /// also: kInvalidOption, kDescriptorLimit, kStartFailed (a system call).
  [[nodiscard]] Result<std::vector<std::byte>> read_memory(std::uint64_t address, std::uint64_t bytes);
  /// Whether the harts run: false when they are paused, also by a debugger.
  [[nodiscard]] Result<bool> running();
  /// Offers the harts to a debugger from now on, as MachineOptions::gdb_endpoint; "none" ends the offer.
  [[nodiscard]] Result<void> offer_debugger(std::string_view endpoint);
  /// Whether the harts stand still while a debugger may attach. As the emulator told last; does not ask it.
  [[nodiscard]] bool held_by_debugger() const;
  /// Any other QMP command; the result is the "return" member. Callers include <nlohmann/json.hpp>.
  [[nodiscard]] Result<nlohmann::json> execute(std::string_view command, const nlohmann::json& arguments);

  /// Fault injection: cuts the QMP connection. The card runs on; every request, now and later, fails within
  /// Timeouts::request (kQmpError). kill(), slots, console and the watch over its end are not touched.
  void cut_control();

  // Console -----------------------------------------------------------------------------------------------------------
  /// The last 256 KiB that the firmware wrote to its UART.
  [[nodiscard]] std::string console() const;
  /// Waits until the console contains `text`; false when `timeout` passed or the machine ended without it.
  [[nodiscard]] bool wait_console(std::string_view text, std::chrono::milliseconds timeout) const;
  /// The last 16 KiB of what the emulator itself wrote (warnings, errors).
  [[nodiscard]] std::string error_output() const;

  // End ---------------------------------------------------------------------------------------------------------------
  /// Empty while the emulator runs.
  [[nodiscard]] std::optional<ExitStatus> exit_status() const;
  [[nodiscard]] bool alive() const { return !exit_status(); }
  /// Waits for the end. Error: kTimeout.
  [[nodiscard]] Result<ExitStatus> wait_exit(std::chrono::milliseconds timeout) const;
  /// A new descriptor that becomes readable (POLLIN) when the emulator ends and stays so; never read from it. It is a
  /// duplicate: close it at will. Error: kDescriptorLimit.
  [[nodiscard]] Result<svp::UniqueFd> exit_fd() const;
  /// SIGKILL, then waits (Timeouts::kill). No-op when it is dead. A process that has given up the privileges with which
  /// it started the machine lets the reaper send it. Errors: kTimeout, kNotPermitted.
  Result<ExitStatus> kill();

 private:
  class Impl;
  explicit Machine(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace qemu
