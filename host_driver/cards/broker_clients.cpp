// SPDX-License-Identifier: Apache-2.0
// Connections of the broker: who may connect, what they may say, and when they have said or waited too long.
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "host_driver/cards/broker_impl.hpp"
#include "host_driver/cards/local_socket.hpp"
#include "shared/timeouts.hpp"

namespace flex {

namespace {

bool out_of_resources(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

}  // namespace

void Broker::Impl::accept_all() {
  while (listener.valid()) {
    // bounded: the listener does not block
    qemu::UniqueFd socket{::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (socket.valid()) {
      admit(std::move(socket));
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (out_of_resources(errno)) (void)loop->run_at(Clock::now() + kAcceptAgain, [this] { accept_all(); });
    return;
  }
}

void Broker::Impl::admit(qemu::UniqueFd socket) {
  const auto refuse = [&](const ErrorInfo& error) {
    record(error);
    (void)send_message(socket.get(), encode(BrokerReply(error)));
  };
  auto peer = identify_peer(socket.get());
  if (!peer) return refuse(peer.error());
  if (peer->uid != ::geteuid()) {
    return refuse(refusal("client", "the card " + options.name + " belongs to user " + std::to_string(::geteuid()),
                          "boot a card of your own"));
  }
  if (waiting_clients() >= kMaxWaitingClients) hear_the_silent();
  if (const auto waiting = waiting_clients(); waiting >= kMaxWaitingClients) {
    return refuse(refusal("client", std::to_string(waiting) + " clients are being served already", "try again"));
  }
  const ClientId id = next_client++;
  Client& client = clients[id];
  client.peer = *std::move(peer);
  client.socket = std::move(socket);
  client.socket_watch = loop->watch(client.socket.get(), [this, id](unsigned) { hear(id); });
  client.process_watch =
      loop->watch(client.peer.pidfd.get(), [this, id](unsigned) { end_client(id, "its process ended"); });
  client.hello_timer = loop->run_at(Clock::now() + timeouts().hello, [this, id] {
    const auto found = clients.find(id);
    if (found == clients.end() || found->second.stage != Client::Stage::Silent) return;
    reply_and_close(id, refusal("client", "the client did not say in time what it wants", "connect again"));
  });
}

std::size_t Broker::Impl::waiting_clients() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(clients, [](const auto& entry) { return entry.second.stage != Client::Stage::Owner; }));
}

// Those that have closed, or said something, need not be counted: their events may only not have come yet.
void Broker::Impl::hear_the_silent() {
  std::vector<ClientId> silent;
  for (const auto& [id, client] : clients) {
    if (client.stage == Client::Stage::Silent) silent.push_back(id);
  }
  for (const ClientId id : silent) hear(id);
}

void Broker::Impl::hear(ClientId id) {
  for (auto found = clients.find(id); found != clients.end(); found = clients.find(id)) {
    const Received received = receive_message(found->second.socket.get(), kMaxBrokerMessage, 0);
    if (received.kind == Received::Kind::Nothing) return;
    hear_message(id, received);
  }
}

void Broker::Impl::hear_message(ClientId id, const Received& received) {
  const Client::Stage stage = clients.at(id).stage;
  if (received.kind == Received::Kind::End) return end_client(id, "it closed its connection");
  if (stage == Client::Stage::Owner) return end_client(id, "it sent a message, which owners do not");
  if (stage != Client::Stage::Silent) {
    return reply_and_close(id, refusal("request", "a second request came before the first was answered",
                                       "use a connection for each request"));
  }
  if (received.kind == Received::Kind::Refused) {
    return reply_and_close(id, refusal("request",
                                       "the request is longer than " + std::to_string(kMaxBrokerMessage) +
                                           " bytes or comes with descriptors",
                                       "use the same version of the program for broker and tenant"));
  }
  const auto request = parse_broker_request(received.text);
  if (!request) return reply_and_close(id, request.error());
  obey(id, *request);
}

void Broker::Impl::obey(ClientId id, const BrokerRequest& request) {
  Client& client = clients.at(id);
  loop->cancel(std::exchange(client.hello_timer, EventLoop::TimerId::None));
  client.stage = Client::Stage::Served;
  if (const auto* hello = std::get_if<HelloRequest>(&request)) {
    client.stage = Client::Stage::Waiting;
    client.want = hello->want;
    serve(id);
  } else if (const auto* reset = std::get_if<ResetRequest>(&request)) {
    command_reset(id, reset->target);
  } else if (const auto* raise = std::get_if<RaiseRequest>(&request)) {
    if (state != CardState::Running && state != CardState::Dead) return reply_and_close(id, refusal_by_state());
    begin_climb(id, raise->rung, std::string(name(raise->rung)) + ", as asked for", {});
  } else if (std::holds_alternative<PowerCycleRequest>(request)) {
    begin_power_cycle(id);
  } else if (std::holds_alternative<StopRequest>(request)) {
    begin_stop(id);
  } else if (const auto* collect = std::get_if<CollectRequest>(&request)) {
    command_collect(id, *collect);
  } else if (const auto* debug = std::get_if<DebugRequest>(&request)) {
    command_debug(id, debug->offer);
  } else {
    note_events();
    reply_and_close(id, describe());
  }
}

void Broker::Impl::command_reset(ClientId id, wire::Target target) {
  if (target - wire::kTargetPhysical >= functions.size()) return reply_and_close(id, no_such_function(target));
  if (state != CardState::Running) return reply_and_close(id, refusal_by_state());
  const bool begun = tasks->run([this, id, target, of = life, epoch = session->boot_epoch(),
                                 card = session]() mutable -> EventLoop::Closure {
    const auto begin = Clock::now();
    auto reset = card->reset(target);
    card.reset();
    RungAttempt attempt{Rung::Function, Clock::now() - begin, std::nullopt};
    if (!reset) attempt.error = reset.error();
    return [this, id, target, of, epoch, attempt = std::move(attempt), reset = std::move(reset)] {
      look();
      // A restart meanwhile has reset the function as well.
      const bool same_life = state == CardState::Running && session->boot_epoch() == epoch;
      if (!reset && of == life && same_life && unanswered(reset.error())) {
        return begin_climb(id, Rung::Firmware, "the reset of " + function_name(target) + " does not end", {attempt});
      }
      if (!reset) return reply_and_close(id, reset.error());
      if (of == life && function(target).binding.slot == reset->slot) function(target).binding = *reset;
      describe_changes(function_name(target) + ": reset");
      reply_and_close(id, Done{flex::describe(RecoveryReport{.attempts = {attempt}})});
    };
  });
  if (!begun) reply_and_close(id, no_thread());
}

// A card whose emulator has ended still has M's window, and the record in it.
void Broker::Impl::command_collect(ClientId id, const CollectRequest& request) {
  if (session == nullptr) return reply_and_close(id, refusal_by_state());
  const bool begun = tasks->run([this, id, request, card = session]() mutable -> EventLoop::Closure {
    auto collected = card->collect(request.now ? CoreOf::Now : CoreOf::RecordOrNow, request.file);
    card.reset();
    return [this, id, collected = std::move(collected)] {
      if (!collected) return reply_and_close(id, collected.error());
      reply_and_close(id, Done{});
    };
  });
  if (!begun) reply_and_close(id, no_thread());
}

void Broker::Impl::command_debug(ClientId id, bool offer) {
  // A debugger may be withdrawn from a card that is being brought back: it may be what the card restarted under.
  const bool withdrawable = !offer && session != nullptr && emulator != 0;
  if (state != CardState::Running && !withdrawable) return reply_and_close(id, refusal_by_state());
  const std::filesystem::path socket = folder_path / kDebuggerName;
  const bool begun = tasks->run([this, id, offer, socket, card = session]() mutable -> EventLoop::Closure {
    // One that was offered before is in the way of its own socket.
    (void)card->offer_debugger({});
    (void)::unlink(socket.c_str());
    Expected<void> done;
    if (offer) done = card->offer_debugger(socket);
    card.reset();
    return [this, id, offer, done = std::move(done)] {
      if (!done) return reply_and_close(id, done.error());
      describe_changes(offer ? "a debugger may attach" : "no debugger may attach");
      reply_and_close(id, Done{});
    };
  });
  if (!begun) reply_and_close(id, no_thread());
}

void Broker::Impl::reply_and_close(ClientId id, const BrokerReply& reply) {
  if (const auto* error = std::get_if<ErrorInfo>(&reply)) record(*error);
  // Whoever does not read has no room left in its socket: it gets nothing, and nobody waits for it.
  if (const auto client = remove_client(id)) (void)send_message(client->socket.get(), encode(reply));
}

void Broker::Impl::refuse_waiting(const ErrorInfo& error) {
  std::vector<ClientId> waiting;
  for (const auto& [id, client] : clients) {
    if (client.stage == Client::Stage::Waiting) waiting.push_back(id);
  }
  for (const ClientId id : waiting) reply_and_close(id, error);
}

void Broker::Impl::stop_watching(Client& client) {
  loop->unwatch(std::exchange(client.socket_watch, EventLoop::WatchId::None));
  loop->unwatch(std::exchange(client.process_watch, EventLoop::WatchId::None));
}

std::optional<Broker::Impl::Client> Broker::Impl::remove_client(ClientId id) {
  const auto found = clients.find(id);
  if (found == clients.end()) return std::nullopt;
  Client client = std::move(found->second);
  clients.erase(found);
  stop_watching(client);
  loop->cancel(client.hello_timer);
  return client;
}

void Broker::Impl::end_client(ClientId id, const char* how) {
  const auto client = remove_client(id);
  if (!client || client->stage != Client::Stage::Owner) return;
  Function& owned = function(client->target);
  owned.owner = 0;
  retire(owned, "its owner, pid " + std::to_string(client->peer.pid) + ", is gone: " + how);
}

}  // namespace flex
