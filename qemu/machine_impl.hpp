// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "qemu/io_loop.hpp"
#include "qemu/machine.hpp"
#include "qemu/qmp.hpp"
#include "qemu/slot.hpp"
#include "qemu/spawn.hpp"
#include "qemu/text_tail.hpp"

namespace qemu {

/// State and threads of one machine. machine_start.cpp brings it up, machine_watch.cpp serves it, machine.cpp is what
/// callers use.
class Machine::Impl {
 public:
  explicit Impl(MachineOptions options);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  // machine_start.cpp
  [[nodiscard]] Result<void> start();

  // machine_watch.cpp
  [[nodiscard]] std::optional<ExitStatus> exit_status() const;
  [[nodiscard]] std::optional<ExitStatus> wait_exit(Timeouts::Duration timeout) const;
  [[nodiscard]] Result<ExitStatus> kill();
  [[nodiscard]] bool owned_by_this_process() const;

  // machine_renewal.cpp
  [[nodiscard]] Result<PluggedWindow> plug_window(unsigned port, std::uint64_t bytes);
  [[nodiscard]] Result<bool> window_gone(std::uint32_t serial);
  [[nodiscard]] Result<DoorbellPeer> connect_peer(unsigned slot);
  [[nodiscard]] Result<void> disconnect_peer(unsigned slot, std::uint16_t id);

  const MachineOptions options;
  StartTimes times;
  Version version;
  std::vector<Slot> slots;
  Guarded guarded;
  std::optional<QmpSession> qmp;
  std::atomic<bool> stopped{true};  ///< begins so (-S); as the emulator's events said last
  std::atomic<bool> debugger_offered;
  TextTail console;
  TextTail error_output;

 private:
  // machine_start.cpp
  [[nodiscard]] Result<void> prepare();
  [[nodiscard]] Result<void> spawn();
  [[nodiscard]] Result<void> handshake();
  [[nodiscard]] Result<void> await_slots(std::chrono::steady_clock::time_point deadline);
  [[nodiscard]] MachineError explain_start_failure(MachineError error) const;
  [[nodiscard]] StartTimes::Duration since_begin() const;

  // machine_renewal.cpp
  [[nodiscard]] Result<void> disconnect_unread(unsigned slot, std::uint16_t id);
  [[nodiscard]] Result<void> await_read(const Slot& slot);

  // machine_watch.cpp
  [[nodiscard]] Result<void> start_thread();
  void serve();
  void publish_exit();
  [[nodiscard]] std::unexpected<MachineError> not_ended() const;
  [[nodiscard]] bool on_link();
  [[nodiscard]] bool on_text(int fd, TextTail& tail, int tee, bool& ended);
  [[nodiscard]] std::optional<IoLoop::Clock::time_point> drain_deadline() const;
  [[nodiscard]] bool status_is_final() const;
  [[nodiscard]] bool exit_is_complete() const;

  const pid_t owner_;
  const std::chrono::steady_clock::time_point begin_;
  std::string emulator_path_;

  svp::UniqueFd console_end_;
  svp::UniqueFd error_end_;
  svp::UniqueFd console_file_;
  svp::UniqueFd emulator_qmp_end_;
  svp::UniqueFd emulator_console_end_;
  svp::UniqueFd emulator_error_end_;

  std::mutex renewal_mutex_;
  std::uint32_t last_serial_ = 0;
  std::vector<unsigned> next_peers_;  ///< by slot; above kLastPeer: used up

  std::unique_ptr<IoLoop> loop_;
  std::thread thread_;
  std::atomic<bool> stopping_{false};

  /// Only the service thread: what is known of the end so far.
  struct Ending {
    std::optional<ExitStatus> status;
    std::optional<IoLoop::Clock::time_point> first_sign;
    bool link_ended = false;
    bool process_ended = false;
    bool console_ended = false;
    bool error_ended = false;
    bool qmp_ended = false;
  } ending_;

  mutable std::mutex exit_mutex_;
  mutable std::condition_variable exit_changed_;
  std::optional<ExitStatus> exit_;
};

}  // namespace qemu
