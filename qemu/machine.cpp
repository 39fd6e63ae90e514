// SPDX-License-Identifier: Apache-2.0
#include "qemu/machine.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <nlohmann/json.hpp>

#include "qemu/errors.hpp"
#include "qemu/machine_impl.hpp"

namespace qemu {

namespace {

Result<void> without_value(Result<nlohmann::json> answer) {
  if (!answer) return std::unexpected(std::move(answer.error()));
  return {};
}

}  // namespace

Result<Machine> Machine::start(MachineOptions options) {
  if (auto valid = validate(options); !valid) return std::unexpected(std::move(valid.error()));
  auto impl = std::make_unique<Impl>(std::move(options));
  if (auto started = impl->start(); !started) return std::unexpected(std::move(started.error()));
  return Machine{std::move(impl)};
}

Machine::Machine(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Machine::Machine(Machine&&) noexcept = default;

Machine& Machine::operator=(Machine&& other) noexcept {
  if (this == &other) return *this;
  Machine old{std::move(impl_)};
  impl_ = std::move(other.impl_);
  return *this;
}

Machine::~Machine() {
  // A child that the owner forked has neither the thread nor the right to end the card. Its copy of the memory ends
  // with it; the reaper watches the owner itself, so the descriptors that live on here do not matter.
  if (impl_ && !impl_->owned_by_this_process()) [[maybe_unused]]
    auto* leaked = impl_.release();
}

const MachineOptions& Machine::options() const { return impl_->options; }
pid_t Machine::pid() const { return impl_->guarded.emulator; }
Version Machine::version() const { return impl_->version; }
const StartTimes& Machine::start_times() const { return impl_->times; }
unsigned Machine::slot_count() const { return static_cast<unsigned>(impl_->slots.size()); }

Result<svp::SlotHandle> Machine::slot(unsigned index) const {
  if (index < impl_->slots.size()) return impl_->slots[index].handle();
  return failure(MachineError::Kind::kInvalidOption,
                 fmt::format("slot {} was asked for, the card has {}.", index, impl_->slots.size()),
                 "Boot with more slots (MachineOptions::slots).");
}

Result<nlohmann::json> Machine::execute(std::string_view command, const nlohmann::json& arguments) {
  return impl_->qmp->execute(command, arguments, impl_->options.timeouts.request);
}
Result<bool> Machine::running() {
  const auto status = execute("query-status", {});
  if (!status) return std::unexpected(status.error());
  return status->value("running", true);
}
Result<void> Machine::stop() { return without_value(execute("stop", {})); }
Result<void> Machine::cont() { return without_value(execute("cont", {})); }
Result<void> Machine::system_reset() { return without_value(execute("system_reset", {})); }
Result<void> Machine::quit() { return without_value(execute("quit", {})); }

void Machine::cut_control() { ::shutdown(impl_->qmp->fd(), SHUT_RDWR); }
Result<std::string> Machine::monitor(std::string_view line) {
  auto answer = execute("human-monitor-command", {{"command-line", line}});
  if (!answer) return std::unexpected(std::move(answer.error()));
  if (!answer->is_string()) {
    return failure(MachineError::Kind::kQmpError, "human-monitor-command was not answered with text.",
                   "Check the emulator's version; this answer is unknown.");
  }
  return answer->get<std::string>();
}

Result<std::vector<std::byte>> Machine::read_memory(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0 || bytes > kGiB) {
    return failure(MachineError::Kind::kInvalidOption, fmt::format("{} bytes of guest memory were asked for.", bytes),
                   "Ask for 1 byte to 1 GiB.");
  }
  // The emulator writes files only: one that has no name, opened by the name of our descriptor.
  const svp::UniqueFd file{::memfd_create("spyre-guest-memory", MFD_CLOEXEC)};
  if (!file.valid()) return system_failure("memfd_create", errno);
  const nlohmann::json arguments{
      {"val", address}, {"size", bytes}, {"filename", fmt::format("/proc/{}/fd/{}", ::getpid(), file.get())}};
  if (auto saved = execute("pmemsave", arguments); !saved) return std::unexpected(std::move(saved.error()));
  std::vector<std::byte> memory(bytes);
  for (std::size_t done = 0; done < memory.size();) {
    const ssize_t got = ::pread(file.get(), memory.data() + done, memory.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return system_failure("pread", errno);
    if (got == 0) {
      return failure(MachineError::Kind::kQmpError,
                     fmt::format("the emulator saved {} of {} bytes of guest memory.", done, bytes),
                     "Check that the range lies in the card's memory.");
    }
    done += static_cast<std::size_t>(got);
  }
  return memory;
}

Result<void> Machine::offer_debugger(std::string_view endpoint) {
  // A debugger may attach before the answer comes.
  const bool before = impl_->debugger_offered.exchange(endpoint != "none");
  const auto answer = monitor(fmt::format("gdbserver {}", endpoint));
  if (!answer) return std::unexpected(answer.error());
  if (answer->starts_with("Waiting for gdb connection") || answer->starts_with("Disabled gdbserver")) return {};
  impl_->debugger_offered = before;
  return failure(MachineError::Kind::kQmpError,
                 fmt::format("the emulator offers no debugger at {}: {}", endpoint, *answer),
                 "Name an endpoint that is free, such as \"unix:<path>,server=on,wait=off\".");
}

bool Machine::held_by_debugger() const { return impl_->debugger_offered && impl_->stopped; }

Result<std::vector<HartThread>> Machine::hart_threads() {
  auto answer = execute("query-cpus-fast", {});
  if (!answer) return std::unexpected(std::move(answer.error()));
  std::vector<HartThread> harts;
  for (const auto& entry : *answer) {
    const auto hart = entry.find("cpu-index");
    const auto thread = entry.find("thread-id");
    if (hart == entry.end() || thread == entry.end() || !hart->is_number() || !thread->is_number()) {
      return failure(MachineError::Kind::kQmpError, "query-cpus-fast was answered without cpu-index or thread-id.",
                     "Check the emulator's version; this layout is unknown.");
    }
    harts.push_back({hart->get<unsigned>(), thread->get<pid_t>()});
  }
  return harts;
}

std::string Machine::console() const { return impl_->console.text(); }
bool Machine::wait_console(std::string_view text, std::chrono::milliseconds timeout) const {
  return impl_->console.wait_for(text, timeout);
}
std::string Machine::error_output() const { return impl_->error_output.text(); }

std::optional<ExitStatus> Machine::exit_status() const { return impl_->exit_status(); }

Result<ExitStatus> Machine::wait_exit(std::chrono::milliseconds timeout) const {
  if (const auto status = impl_->wait_exit(timeout)) return *status;
  return failure(MachineError::Kind::kTimeout, fmt::format("the emulator has not ended within {} ms.", timeout.count()),
                 "Wait longer, or end it with quit() or kill().");
}

Result<svp::UniqueFd> Machine::exit_fd() const {
  svp::UniqueFd duplicate = impl_->guarded.emulator_pidfd.duplicate();
  if (!duplicate.valid()) return system_failure("F_DUPFD_CLOEXEC", errno);
  return duplicate;
}

Result<ExitStatus> Machine::kill() { return impl_->kill(); }

}  // namespace qemu
