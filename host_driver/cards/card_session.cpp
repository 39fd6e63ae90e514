// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cards/card_session.hpp"

#include <fcntl.h>

#include <cerrno>
#include <system_error>
#include <utility>

#include "host_driver/cards/function_choice.hpp"

namespace flex {

namespace {

ErrorInfo refused_by_card(wire::AdminCommand command, wire::Target target, const wire::AdminReply& reply) {
  std::string message = std::string(wire::name(command)) + " of " + function_name(target) + " ended " +
                        std::string(wire::name(reply.outcome)) + ": " + std::string(wire::name(reply.status));
  if (reply.field != wire::Field::None) message += " in " + std::string(wire::name(reply.field));
  return {.layer = Layer::Firmware,
          .culprit = function_name(target),
          .outcome = reply.outcome,
          .recoverable = false,
          .next_step = "power-cycle the card",
          .message = std::move(message),
          .status = reply.status};
}

}  // namespace

Expected<std::shared_ptr<CardSession>> CardSession::boot(CardOptions options,
                                                         std::function<void(std::string how)> on_end) {
  options.machine.on_exit = [on_end = std::move(on_end)](const qemu::ExitStatus& status) {
    on_end(qemu::to_string(status));
  };
  auto card = Card::boot(std::move(options));
  if (!card) return std::unexpected(std::move(card.error()));
  const std::shared_ptr<CardSession> session(new CardSession);
  session->card_ = *std::move(card);
  auto management = session->card_->open_management({.records_death = false});
  if (!management) return std::unexpected(std::move(management.error()));
  session->management_ = *std::move(management);
  for (unsigned n = 0; n <= session->options().virtual_functions; ++n) {
    auto binding = session->query(wire::target_of_virtual(n));
    if (!binding) return std::unexpected(std::move(binding.error()));
    session->bindings_.push_back(*binding);
  }
  return session;
}

Expected<Binding> CardSession::command(wire::AdminCommand command, wire::Target target, unsigned slot) {
  wire::AdminRequest request{};
  request.command = command;
  request.arguments.function.target = target;
  request.arguments.function.slot = slot;
  const auto reply = management()->admin(request);
  if (!reply) return std::unexpected(reply.error());
  if (reply->outcome != wire::Outcome::Ok) return std::unexpected(refused_by_card(command, target, *reply));
  const auto& values = reply->values.function;
  const std::chrono::microseconds stop_time(values.stop_ticks / wire::kTicksPerMicrosecond);
  return Binding{target, values.slot, values.generation, values.quota_bytes, values.violations, stop_time};
}

bool CardSession::restarted() {
  const auto device = management();
  device->check();
  return device->health() == Health::NeedsReset;
}

Expected<std::vector<Binding>> CardSession::attach_again(const std::vector<Binding>& known) {
  management()->close();
  auto opened = card_->open_management({.records_death = false});
  if (!opened) return std::unexpected(std::move(opened.error()));
  {
    const std::lock_guard lock(mutex_);
    management_ = *std::move(opened);
  }
  std::vector<Binding> now;
  for (const Binding& binding : known) {
    auto bound = bind(binding.target, binding.slot);
    if (!bound) return std::unexpected(std::move(bound.error()));
    now.push_back(*bound);
  }
  return now;
}

Expected<void> CardSession::raise(Rung rung) {
  if (rung == Rung::Firmware) return card_->restart_firmware(management().get());
  return card_->reset();
}

std::optional<std::string> CardSession::ended() const {
  const auto status = card_->machine().exit_status();
  if (!status) return std::nullopt;
  return qemu::to_string(*status);
}

Expected<void> CardSession::empty_window(unsigned slot) const {
  const auto handle = card_->slot(slot);
  if (!handle) return std::unexpected(handle.error());
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (::fallocate(handle->window_fd(), kPunch, 0, static_cast<off_t>(handle->window_bytes())) == 0) return {};
  return std::unexpected(ErrorInfo{
      .layer = Layer::Memory,
      .culprit = "slot " + std::to_string(slot),
      .outcome = wire::Outcome::Rejected,
      .recoverable = true,
      .next_step = "stop the card when memory runs short: its end frees the window",
      .message = "the pages of a retired window stay allocated: fallocate: " + std::generic_category().message(errno)});
}

Expected<void> CardSession::collect(CoreOf what, const std::filesystem::path& file) const {
  const auto collected = collect_core(*card_, what, file);
  if (!collected) return std::unexpected(collected.error());
  return {};
}

Expected<void> CardSession::offer_debugger(const std::filesystem::path& socket) const {
  const std::string endpoint = socket.empty() ? "none" : "unix:" + socket.string() + ",server=on,wait=off";
  const auto offered = card_->machine().offer_debugger(endpoint);
  if (offered) return {};
  return std::unexpected(ErrorInfo{.layer = Layer::Emulator,
                                   .culprit = "debugger",
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = offered.error().next_step,
                                   .message = offered.error().message});
}

}  // namespace flex
