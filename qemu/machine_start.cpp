// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "qemu/command_line.hpp"
#include "qemu/descriptor_limit.hpp"
#include "qemu/emulator.hpp"
#include "qemu/errors.hpp"
#include "qemu/machine_impl.hpp"

namespace qemu {

namespace {

using Clock = std::chrono::steady_clock;

struct Pipe {
  svp::UniqueFd read_end;
  svp::UniqueFd write_end;
};

/// The reading end never blocks, the emulator's end is as usual (the emulator changes the flag itself where it wants).
Result<Pipe> create_pipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return system_failure("pipe2", errno);
  Pipe pipe{svp::UniqueFd{ends[0]}, svp::UniqueFd{ends[1]}};
  if (::fcntl(ends[0], F_SETFL, O_NONBLOCK) != 0) return system_failure("F_SETFL", errno);
  return pipe;
}

template <typename T>
std::unexpected<MachineError> forward(Result<T>& result) {
  return std::unexpected(std::move(result.error()));
}

}  // namespace

StartTimes::Duration Machine::Impl::since_begin() const {
  return std::chrono::duration_cast<StartTimes::Duration>(Clock::now() - begin_);
}

Result<void> Machine::Impl::start() {
  auto path = find_emulator(options.emulator);
  if (!path) return forward(path);
  emulator_path_ = std::move(*path);
  if (auto firmware = check_firmware(options.firmware); !firmware) return firmware;
  if (auto prepared = prepare(); !prepared) return prepared;
  if (auto spawned = spawn(); !spawned) return spawned;
  if (auto shaken = handshake(); !shaken) return std::unexpected(explain_start_failure(std::move(shaken.error())));
  return {};
}

Result<void> Machine::Impl::prepare() {
  if (auto reserved = reserve_descriptors(options.slots.size()); !reserved) return reserved;
  slots.reserve(options.slots.size());
  for (unsigned i = 0; i < options.slots.size(); ++i) {
    auto slot = Slot::create(i, options.slots[i]);
    if (!slot) return forward(slot);
    slots.push_back(std::move(*slot));
  }

  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return system_failure("socketpair", errno);
  emulator_qmp_end_.reset(ends[1]);
  qmp.emplace(svp::UniqueFd{ends[0]}, [this](const MachineEvent& event) {
    if (event.kind == MachineEvent::Kind::kStop) stopped = true;
    if (event.kind == MachineEvent::Kind::kResume) stopped = false;
    if (options.on_event) options.on_event(event);
  });

  auto console_pipe = create_pipe();
  if (!console_pipe) return forward(console_pipe);
  console_end_ = std::move(console_pipe->read_end);
  emulator_console_end_ = std::move(console_pipe->write_end);
  auto error_pipe = create_pipe();
  if (!error_pipe) return forward(error_pipe);
  error_end_ = std::move(error_pipe->read_end);
  emulator_error_end_ = std::move(error_pipe->write_end);

  if (options.console_file.empty()) return {};
  console_file_.reset(::open(options.console_file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  if (console_file_.valid()) return {};
  return failure(
      MachineError::Kind::kInvalidOption,
      fmt::format("the console file '{}' can not be opened: {}.", options.console_file.string(), std::strerror(errno)),
      "Create its folder, or choose another path.");
}

Result<void> Machine::Impl::spawn() {
  std::vector<int> inherited;
  InheritedDescriptors numbers;
  const auto inherit = [&](int fd) {
    inherited.push_back(fd);
    return first_inherited_descriptor() + static_cast<int>(inherited.size()) - 1;
  };
  numbers.qmp = inherit(emulator_qmp_end_.get());
  numbers.console = inherit(emulator_console_end_.get());
  for (const Slot& slot : slots) numbers.slots.push_back(inherit(slot.emulator_end()));

  auto spawned = spawn_guarded(emulator_path_, command_line(options, numbers), inherited, emulator_error_end_.get(),
                               options.timeouts.spawn);
  if (!spawned) return forward(spawned);
  guarded = std::move(*spawned);
  times.spawned = since_begin();

  // Whoever else holds the emulator's ends would keep them from ending with it.
  for (Slot& slot : slots) slot.drop_emulator_end();
  emulator_qmp_end_.reset();
  emulator_console_end_.reset();
  emulator_error_end_.reset();
  return start_thread();
}

Result<void> Machine::Impl::handshake() {
  auto greeted = qmp->wait_greeting(options.timeouts.greeting);
  if (!greeted) return forward(greeted);
  version = *greeted;
  times.greeted = since_begin();
  if (version < kMinimumVersion) return std::unexpected(too_old(emulator_path_, version));

  const auto deadline = Clock::now() + options.timeouts.handshake;
  if (auto ready = qmp->execute("qmp_capabilities", {}, options.timeouts.handshake); !ready) return forward(ready);
  if (auto connected = await_slots(deadline); !connected) return connected;
  times.handshaken = since_begin();

  if (!options.start_paused) {
    if (auto running = qmp->execute("cont", {}, options.timeouts.request); !running) return forward(running);
  }
  times.running = since_begin();
  return {};
}

/// The emulator reads the doorbells in its main loop, which also answers QMP: each answered request is one more
/// iteration of it, and an answer that was requested after the last byte had been read proves that the last doorbell
/// has been connected.
Result<void> Machine::Impl::await_slots(Clock::time_point deadline) {
  std::size_t first_unread = 0;
  for (bool last_round = false;;) {
    while (first_unread < slots.size() && slots[first_unread].handshake_read()) ++first_unread;
    if (last_round) return {};
    last_round = first_unread == slots.size();
    if (Clock::now() >= deadline) {
      return failure(MachineError::Kind::kHandshakeTimeout,
                     fmt::format("slot {} of {} was not connected within {} ms.", first_unread, slots.size(),
                                 options.timeouts.handshake.count()),
                     "Check the load of this machine; a slow one needs larger Timeouts (scaled()).");
    }
    if (auto turned = qmp->execute("query-status", {}, options.timeouts.request); !turned) return forward(turned);
  }
}

MachineError Machine::Impl::explain_start_failure(MachineError error) const {
  if (error.kind != MachineError::Kind::kDied) return error;
  // An old emulator does not know some option and ends with a message that would puzzle whoever reads it.
  if (const auto found = probe_version(emulator_path_, options.timeouts.version_probe);
      found && *found < kMinimumVersion) {
    return too_old(emulator_path_, *found);
  }
  return MachineError{
      MachineError::Kind::kStartFailed,
      fmt::format("the emulator ended while starting ({}); its output: {}", to_string(error.exit), error_output.text()),
      "Correct what the output names; most often memory, an extra argument or a missing file.", error.exit};
}

}  // namespace qemu
