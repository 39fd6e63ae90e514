// SPDX-License-Identifier: Apache-2.0
#include "qemu/qmp.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "qemu/errors.hpp"

namespace qemu {

namespace {

using nlohmann::json;
using Clock = std::chrono::steady_clock;

/// Longer messages than any that are asked for here (query-qmp-schema is 0.2 MB): a broken peer must not fill memory.
constexpr std::size_t kMaximumMessage = 4 * 1024 * 1024;

std::unexpected<MachineError> qmp_failure(std::string message, std::string next_step) {
  return failure(MachineError::Kind::kQmpError, std::move(message), std::move(next_step));
}

std::string string_member(const json& object, const char* name) {
  const auto it = object.find(name);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string{};
}

MachineEvent::Kind event_kind(std::string_view name) {
  using enum MachineEvent::Kind;
  if (name == "SHUTDOWN") return kShutdown;
  if (name == "RESET") return kReset;
  if (name == "GUEST_PANICKED") return kGuestPanicked;
  if (name == "STOP") return kStop;
  if (name == "RESUME") return kResume;
  return kOther;
}

}  // namespace

std::unexpected<MachineError> died(const ExitStatus& exit) {
  return failure(MachineError::Kind::kDied, fmt::format("the emulator has ended ({}).", to_string(exit)),
                 "Read console() and error_output(), then start a new machine (power cycle).", exit);
}

std::optional<MachineEvent> parse_event(const json& message) {
  if (!message.is_object()) return std::nullopt;
  MachineEvent event;
  event.name = string_member(message, "event");
  if (event.name.empty()) return std::nullopt;
  event.kind = event_kind(event.name);
  if (const auto data = message.find("data"); data != message.end() && data->is_object()) {
    event.reason = string_member(*data, "reason");
    const auto guest = data->find("guest");
    event.caused_by_guest = guest != data->end() && guest->is_boolean() && guest->get<bool>();
  }
  return event;
}

std::optional<Version> parse_greeting(const json& message) {
  static const json::json_pointer kPath{"/QMP/version/qemu"};
  if (!message.is_object() || !message.contains(kPath)) return std::nullopt;
  const json& numbers = message.at(kPath);
  Version version;
  const auto read = [&](const char* name, int& into) {
    const auto it = numbers.is_object() ? numbers.find(name) : numbers.end();
    if (it == numbers.end() || !it->is_number_integer()) return false;
    into = it->get<int>();
    return true;
  };
  if (!read("major", version.major) || !read("minor", version.minor) || !read("micro", version.micro)) {
    return std::nullopt;
  }
  return version;
}

QmpSession::QmpSession(svp::UniqueFd socket, EventCallback on_event)
    : socket_(std::move(socket)), on_event_(std::move(on_event)) {}

bool QmpSession::on_readable() {
  std::array<char, 4096> chunk;
  for (;;) {
    const ssize_t got = ::recv(socket_.get(), chunk.data(), chunk.size(), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    received_.append(chunk.data(), static_cast<std::size_t>(got));
    std::size_t begin = 0;
    for (std::size_t end; (end = received_.find('\n', begin)) != std::string::npos; begin = end + 1) {
      handle_line(std::string_view{received_}.substr(begin, end - begin));
    }
    received_.erase(0, begin);
    if (received_.size() > kMaximumMessage) return false;
  }
}

void QmpSession::handle_line(std::string_view line) {
  json message = json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (const auto event = parse_event(message)) {
    if (on_event_) on_event_(*event);
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (const auto version = parse_greeting(message)) {
    greeting_ = version;
  } else if (message.is_object() && message.contains("id") && message["id"].is_number_unsigned()) {
    // An unknown id is the late answer to a request whose caller has given up.
    if (const auto it = requests_.find(message["id"].get<std::uint64_t>()); it != requests_.end()) {
      it->second = std::move(message);
    }
  }
  changed_.notify_all();
}

void QmpSession::close(const ExitStatus& exit) {
  {
    const std::scoped_lock lock(mutex_);
    if (exit_) return;
    exit_ = exit;
  }
  changed_.notify_all();
}

std::unexpected<MachineError> QmpSession::ended() const { return died(*exit_); }

Result<Version> QmpSession::wait_greeting(Timeouts::Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, Clock::now() + timeout, [&] { return greeting_ || exit_; });
  if (greeting_) return *greeting_;
  if (exit_) return ended();
  return failure(MachineError::Kind::kHandshakeTimeout,
                 fmt::format("the emulator did not greet on QMP within {} ms.", timeout.count()),
                 "Check the load of this machine; a slow one needs larger Timeouts (scaled()).");
}

Result<void> QmpSession::send(std::string_view text, Timeouts::Duration timeout) {
  const std::scoped_lock lock(send_mutex_);
  while (!text.empty()) {
    const ssize_t sent = ::send(socket_.get(), text.data(), text.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent >= 0) {
      text.remove_prefix(static_cast<std::size_t>(sent));
      continue;
    }
    if (errno == EINTR) continue;
    pollfd event{socket_.get(), POLLOUT, 0};
    if (errno != EAGAIN || ::poll(&event, 1, static_cast<int>(timeout.count())) <= 0) {
      return qmp_failure("the emulator does not read its QMP connection.",
                         "See whether it has ended (exit_status()) or is stopped by a debugger or SIGSTOP.");
    }
  }
  return {};
}

Result<json> QmpSession::execute(std::string_view command, const json& arguments, Timeouts::Duration timeout) {
  if (std::this_thread::get_id() == service_thread_.load()) {
    return qmp_failure(fmt::format("'{}' was requested from a callback of the machine.", command),
                       "Issue QMP requests from another thread.");
  }
  const auto deadline = Clock::now() + timeout;
  std::unique_lock lock(mutex_);
  if (exit_) return ended();
  const std::uint64_t id = next_id_++;
  requests_[id];
  lock.unlock();

  json message{{"execute", command}, {"id", id}};
  if (arguments.is_object() && !arguments.empty()) message["arguments"] = arguments;
  auto sent = send(message.dump() + '\n', timeout);

  lock.lock();
  const auto it = requests_.find(id);
  // A failed send is most often the first sign of a death whose report is on its way: the exit explains more.
  changed_.wait_until(lock, deadline, [&] { return it->second || exit_; });
  const std::optional<json> answer = std::move(it->second);
  requests_.erase(it);
  if (!answer) {
    if (exit_) return ended();
    if (!sent) return std::unexpected(std::move(sent.error()));
    return qmp_failure(fmt::format("'{}' was not answered within {} ms.", command, timeout.count()),
                       "See whether the emulator is stopped by SIGSTOP or the machine is overloaded.");
  }
  if (const auto error = answer->find("error"); error != answer->end()) {
    return qmp_failure(fmt::format("'{}' was refused: {}", command, string_member(*error, "desc")),
                       "Check the command and its arguments against the emulator's QMP reference.");
  }
  const auto result = answer->find("return");
  return result != answer->end() ? *result : json(nullptr);
}

}  // namespace qemu
