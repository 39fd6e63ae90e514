// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "qemu/machine.hpp"

namespace qemu {

/// The client side of one QMP connection (QEMU's docs/interop/qmp-spec).
///
/// Any thread may execute(); exactly one thread (the service thread) calls on_readable() and close(). Requests of
/// several threads overlap; answers are matched by id.
class QmpSession {
 public:
  using EventCallback = std::function<void(const MachineEvent&)>;

  QmpSession(svp::UniqueFd socket, EventCallback on_event);

  [[nodiscard]] int fd() const { return socket_.get(); }

  /// Reads what is there; false when the connection has ended or is unusable.
  bool on_readable();
  /// The emulator has ended: every request, now and later, ends with kDied.
  void close(const ExitStatus& exit);
  /// Requests from this thread are refused: it is the one that would have to read their answers.
  void set_service_thread(std::thread::id id) { service_thread_ = id; }

  /// The version in the greeting. Errors: kHandshakeTimeout, kDied.
  [[nodiscard]] Result<Version> wait_greeting(Timeouts::Duration timeout);
  /// Errors: kQmpError, kDied.
  [[nodiscard]] Result<nlohmann::json> execute(std::string_view command, const nlohmann::json& arguments,
                                               Timeouts::Duration timeout);

 private:
  void handle_line(std::string_view line);
  [[nodiscard]] Result<void> send(std::string_view text, Timeouts::Duration timeout);
  [[nodiscard]] std::unexpected<MachineError> ended() const;

  svp::UniqueFd socket_;
  const EventCallback on_event_;
  std::string received_;  ///< only the service thread
  std::atomic<std::thread::id> service_thread_{};

  std::mutex send_mutex_;  ///< keeps two requests from interleaving
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Version> greeting_;
  std::optional<ExitStatus> exit_;
  std::uint64_t next_id_ = 1;
  std::map<std::uint64_t, std::optional<nlohmann::json>> requests_;  ///< empty until answered
};

/// A QMP event message as a MachineEvent; empty when `message` is not an event.
[[nodiscard]] std::optional<MachineEvent> parse_event(const nlohmann::json& message);
/// The version in a QMP greeting.
[[nodiscard]] std::optional<Version> parse_greeting(const nlohmann::json& message);

/// kDied.
[[nodiscard]] std::unexpected<MachineError> died(const ExitStatus& exit);

}  // namespace qemu
