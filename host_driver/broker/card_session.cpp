// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/card_session.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>
#include <type_traits>
#include <utility>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/broker/timeouts.hpp"
#include "host_driver/discovery/function_choice.hpp"

namespace svp {

namespace {

ErrorInfo refused_by_card(wire::AdminCommand command, wire::Target target, const wire::AdminReply& reply) {
  std::string message = std::string(wire::name(command)) + " of " + function_name(target) + " ended " +
                        std::string(wire::name(reply.outcome)) + ": " + std::string(wire::name(reply.status));
  if (reply.field != wire::Field::None) message += " in " + std::string(wire::name(reply.field));
  return {.layer = Layer::Firmware,
          .source = function_name(target),
          .outcome = reply.outcome,
          .recoverable = false,
          .next_step = "power-cycle the card",
          .message = std::move(message),
          .status = reply.status};
}

template <typename T>
Expected<T> from_emulator(const std::string& source, qemu::Result<T> result) {
  if (result) {
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return *std::move(result);
    }
  }
  const auto& error = result.error();
  return std::unexpected(ErrorInfo{
      .layer = Layer::Emulator,
      .source = source,
      .outcome = error.kind == qemu::MachineError::Kind::kDied ? wire::Outcome::Lost : wire::Outcome::Rejected,
      .recoverable = error.kind != qemu::MachineError::Kind::kPeersUsedUp,
      .next_step = error.next_step,
      .message = error.message});
}

// The card signals at the end of SLOT_BIND. What was signalled is taken away: the owner begins with an empty pipe.
Expected<void> check_first_doorbell(wire::Target target, const qemu::DoorbellPeer& peer) {
  pollfd event{peer.from_card.get(), POLLIN, 0};
  const auto bound = std::chrono::milliseconds(kFirstDoorbell).count();
  char bytes[64];
  // bounded: the pipe does not block
  if (::poll(&event, 1, static_cast<int>(bound)) == 1 && ::read(event.fd, bytes, sizeof bytes) > 0) return {};
  return std::unexpected(ErrorInfo{.layer = Layer::Emulator,
                                   .source = function_name(target),
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = false,
                                   .next_step = "power-cycle the card",
                                   .message = "the first doorbell of " + function_name(target) + "'s new peer, id " +
                                              std::to_string(peer.id) + ", did not arrive"});
}

}  // namespace

Expected<std::shared_ptr<CardSession>> CardSession::boot(CardOptions options,
                                                         std::function<void(std::string how)> on_end) {
  const auto told = std::make_shared<std::promise<void>>();
  options.emulator.on_exit = [told, on_end = std::move(on_end)](const std::string& how) {
    on_end(how);
    told->set_value();
  };
  auto card = Card::boot(std::move(options));
  if (!card) return std::unexpected(std::move(card.error()));
  const std::shared_ptr<CardSession> session(new CardSession);
  session->end_told_ = told->get_future().share();
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

Expected<Binding> CardSession::command(wire::AdminCommand command, wire::Target target, const Place& place) {
  wire::AdminRequest request{};
  request.command = command;
  request.arguments.bind = place;
  request.arguments.bind.target = target;
  const auto reply = management()->admin(request);
  if (!reply) return std::unexpected(reply.error());
  if (reply->outcome != wire::Outcome::Ok) return std::unexpected(refused_by_card(command, target, *reply));
  const auto& values = reply->values.function;
  const std::chrono::microseconds stop_time(values.stop_ticks / wire::kTicksPerMicrosecond);
  return Binding{target,   values.slot, values.serial, values.generation, values.quota_bytes, values.violations,
                 stop_time};
}

Expected<Binding> CardSession::bind(wire::Target target, const Lease& lease) {
  const Place place{target, fixed_slots() + lease.window.port, lease.window.serial, lease.peer.slot, lease.peer.id};
  auto bound = command(wire::AdminCommand::SlotBind, target, place);
  if (!bound) return bound;
  if (auto arrived = check_first_doorbell(target, lease.peer); !arrived)
    return std::unexpected(std::move(arrived.error()));
  const std::lock_guard lock(mutex_);
  places_[target] = place;
  return bound;
}

Expected<qemu::PluggedWindow> CardSession::plug_window(unsigned port) const {
  return from_emulator("port " + std::to_string(port), card_->machine().plug_window(port, options().window_bytes));
}
Expected<bool> CardSession::window_gone(std::uint32_t serial) const {
  return from_emulator("window " + std::to_string(serial), card_->machine().window_gone(serial));
}
Expected<qemu::DoorbellPeer> CardSession::connect_peer(wire::Target target) const {
  return from_emulator(function_name(target), card_->machine().connect_peer(target));
}
Expected<void> CardSession::disconnect_peer(unsigned slot, std::uint16_t id) const {
  return from_emulator("slot " + std::to_string(slot), card_->machine().disconnect_peer(slot, id));
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
    auto bound = command(wire::AdminCommand::SlotBind, binding.target, place_of(binding.target));
    if (!bound) return std::unexpected(std::move(bound.error()));
    now.push_back(*bound);
  }
  return now;
}

// The function's fixed slot, or what was bound since.
CardSession::Place CardSession::place_of(wire::Target target) const {
  const std::lock_guard lock(mutex_);
  const auto found = places_.find(target);
  return found != places_.end() ? found->second : Place{target, target, 0, 0, 0};
}

Expected<FunctionStatistics> CardSession::statistics(wire::Target target) const {
  const auto m = management();
  const auto ask = [&](wire::AdminCommand command) -> Expected<wire::AdminReply> {
    wire::AdminRequest request{};
    request.command = command;
    if (command != wire::AdminCommand::Query) request.arguments.function.target = target;
    auto reply = m->admin(request);
    if (reply && reply->outcome != wire::Outcome::Ok) return std::unexpected(refused_by_card(command, target, *reply));
    return reply;
  };
  const auto counted = ask(wire::AdminCommand::Stats);
  if (!counted) return std::unexpected(counted.error());
  const auto state = ask(wire::AdminCommand::FunctionQuery);
  if (!state) return std::unexpected(state.error());
  const auto card = ask(wire::AdminCommand::Query);
  if (!card) return std::unexpected(card.error());
  const auto& stats = counted->values.stats;
  const auto& function = state->values.function;
  return FunctionStatistics{.target = target,
                            .time_ticks = card->values.region.time,
                            .cores = m->config().cores,
                            .card_free_bytes = card->values.region.free_bytes,
                            .card_total_bytes = card->values.region.total_bytes,
                            .granted_bytes = function.granted_bytes,
                            .quota_bytes = function.quota_bytes,
                            .completed = stats.completed,
                            .rejected = stats.rejected,
                            .failed = stats.failed,
                            .aborted = stats.aborted,
                            .launches = stats.launches,
                            .kernel_ticks = stats.kernel_ticks,
                            .bytes_to_device = stats.bytes_to_device,
                            .bytes_from_device = stats.bytes_from_device,
                            .bytes_on_device = stats.bytes_on_device,
                            .doorbells_signalled = stats.doorbells_signalled,
                            .ring_violations = stats.ring_violations,
                            .violations = function.violations,
                            .resets = function.resets};
}

Expected<void> CardSession::raise(ResetLevel level) {
  if (level == ResetLevel::Firmware) return card_->restart_firmware(management().get());
  return card_->reset();
}

Expected<void> CardSession::shutdown() {
  auto ended = card_->shutdown();
  // The emulator's end is known a moment before its watch has told it.
  if (ended) end_told_.wait_for(kExitIsKnown);
  return ended;
}

std::optional<std::string> CardSession::ended() const {
  const auto status = card_->machine().exit_status();
  if (!status) return std::nullopt;
  return qemu::to_string(*status);
}

Expected<void> CardSession::empty_window(unsigned slot) const {
  const auto handle = card_->slot(slot);
  if (!handle) return std::unexpected(handle.error());
  return empty_window(slot, handle->window_fd(), handle->window_bytes());
}

Expected<void> CardSession::empty_window(unsigned slot, int window, std::uint64_t bytes) {
  constexpr int kPunch = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE;
  if (::fallocate(window, kPunch, 0, static_cast<off_t>(bytes)) == 0) return {};
  return std::unexpected(ErrorInfo{
      .layer = Layer::Memory,
      .source = "slot " + std::to_string(slot),
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
                                   .source = "debugger",
                                   .outcome = wire::Outcome::Rejected,
                                   .recoverable = true,
                                   .next_step = offered.error().next_step,
                                   .message = offered.error().message});
}

}  // namespace svp
