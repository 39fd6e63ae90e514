// SPDX-License-Identifier: Apache-2.0
// Connections of the broker: who may connect, what they may say, and when they have said or waited too long.
#include <unistd.h>

#include <algorithm>
#include <random>
#include <utility>

#include "host_driver/broker/broker_impl.hpp"
#include "host_driver/discovery/local_socket.hpp"

namespace svp {

void Broker::Impl::admit(UniqueFd socket, bool manages) {
  const auto refuse = [&](const ErrorInfo& error) {
    record(error);
    (void)send_message(socket.get(), encode(BrokerReply(error)));
  };
  auto peer = options.peers_by_number ? identify_peer_by_number(socket.get()) : identify_peer(socket.get());
  if (!peer) return refuse(peer.error());
  // The socket's mode says who may connect; another user gets no further than the group's socket.
  if ((manages || !options.tenant_group) && peer->uid != ::geteuid()) {
    return refuse(refusal("client", "the card " + options.name + " belongs to user " + std::to_string(::geteuid()),
                          "boot a card of your own"));
  }
  if (waiting_clients() >= kMaxWaitingClients) expire_idle_clients();
  if (const auto waiting = waiting_clients(); waiting >= kMaxWaitingClients) {
    return refuse(refusal("client", std::to_string(waiting) + " clients are being served already", "try again"));
  }
  if (!manages) renewal.schedule.attaching(Clock::now());
  const ClientId id = next_client++;
  Client& client = clients[id];
  client.manages = manages;
  client.peer = *std::move(peer);
  client.socket = std::move(socket);
  if (client.peer.needs_proof) {
    client.nonce = std::random_device{}() | std::uint64_t{1} << 32;  // never 0
    (void)send_message(client.socket.get(), encode(BrokerReply(Prove{client.nonce})));
  }
  client.socket_watch = loop->watch(client.socket.get(), [this, id](unsigned) { handle_request(id); });
  client.process_watch =
      loop->watch(client.peer.pidfd.get(), [this, id](unsigned) { end_client(id, "its process ended"); });
  client.hello_timer = loop->run_at(Clock::now() + timeouts().hello, [this, id] {
    handle_request(id);  // what it has said by now counts
    const auto found = clients.find(id);
    if (found == clients.end() || found->second.phase.get() != ClientPhase::Silent) return;
    record(refusal("client", "the client did not say in time what it wants", "connect again"));
    reply_and_close(id, Late{});
  });
}

void Broker::Impl::set_phase(ClientId id, Client& client, ClientPhase to) { ras::logged(id, client.phase.change(to)); }

std::size_t Broker::Impl::waiting_clients() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(clients, [](const auto& entry) { return entry.second.phase.get() != ClientPhase::Owner; }));
}

// Those that have closed, or said something, need not be counted: their events may only not have come yet.
void Broker::Impl::expire_idle_clients() {
  std::vector<ClientId> silent;
  for (const auto& [id, client] : clients) {
    if (client.phase.get() == ClientPhase::Silent) silent.push_back(id);
  }
  for (const ClientId id : silent) handle_request(id);
}

void Broker::Impl::handle_request(ClientId id) {
  for (auto found = clients.find(id); found != clients.end(); found = clients.find(id)) {
    const Received received = receive_message(found->second.socket.get(), kMaxBrokerMessage, 0);
    if (received.kind == Received::Kind::Nothing) return;
    handle_message(id, received);
  }
}

void Broker::Impl::handle_message(ClientId id, const Received& received) {
  const ClientPhase said = clients.at(id).phase.get();
  if (received.kind == Received::Kind::End) return end_client(id, "it closed its connection");
  if (said == ClientPhase::Owner) return end_client(id, "it sent a message, which owners do not");
  if (said != ClientPhase::Silent) {
    return reply_and_close(id, refusal("request", "a second request came before the first was answered",
                                       "use a connection for each request"));
  }
  if (received.kind == Received::Kind::Refused) {
    return reply_and_close(id, refusal("request",
                                       "the request is longer than " + std::to_string(kMaxBrokerMessage) +
                                           " bytes or comes with descriptors",
                                       "use the same version of the program for broker and tenant"));
  }
  if (clients.at(id).nonce != 0) return check_proof(id, received);
  const auto request = parse_broker_request(received.text);
  if (!request) return reply_and_close(id, request.error());
  if (const auto error = forbidden(clients.at(id), *request)) return reply_and_close(id, *error);
  handle_request(id, *request);
}

// The first message is the request, the second the proof that the process of our descriptor sent it. It was sent after
// the descriptor was open (the nonce is younger), so while that process exists, the sender's number can only be its
// own.
void Broker::Impl::check_proof(ClientId id, const Received& received) {
  Client& client = clients.at(id);
  const bool of_peer = received.sender == client.peer.pid && client.peer.alive();
  if (!of_peer) {
    return reply_and_close(id, refusal("client", "the client is not the process that connected", "connect again"));
  }
  const auto request = parse_broker_request(received.text);
  const auto* proof = request ? std::get_if<ProofRequest>(&*request) : nullptr;
  if (proof == nullptr && client.held.empty()) {
    client.held = received.text;
    return;
  }
  if (proof == nullptr || proof->nonce != client.nonce || client.held.empty()) {
    return reply_and_close(id, refusal("proof", "the client did not prove who it is", "connect again"));
  }
  client.nonce = 0;
  handle_message(id, {.kind = Received::Kind::Message, .text = std::exchange(client.held, {})});
}

bool Broker::Impl::owns(const Client& client, wire::Target target) const {
  const std::size_t index = target - wire::kTargetPhysical;
  if (index >= functions.size() || functions[index].phase.get() != FunctionPhase::Owned) return false;
  const auto owner = clients.find(functions[index].owner);
  // Both are alive (their descriptors say so), so one number is one process.
  return owner != clients.end() && client.peer.pid != 0 && owner->second.peer.pid == client.peer.pid &&
         owner->second.peer.alive() && client.peer.alive();
}

std::optional<wire::Target> Broker::Impl::owned_target(const BrokerRequest& request) {
  if (const auto* reset = std::get_if<ResetRequest>(&request)) return reset->target;
  if (const auto* offer = std::get_if<OfferTimelineRequest>(&request)) return offer->timeline.function;
  if (const auto* redeem = std::get_if<RedeemTimelineRequest>(&request)) return redeem->target;
  return std::nullopt;
}

std::optional<ErrorInfo> Broker::Impl::forbidden(const Client& client, const BrokerRequest& request) const {
  if (client.manages || std::holds_alternative<HelloRequest>(request) ||
      std::holds_alternative<DescribeRequest>(request) || std::holds_alternative<HeldRequest>(request)) {
    return std::nullopt;
  }
  if (const auto target = owned_target(request)) {
    if (owns(client, *target)) return std::nullopt;
    return refusal("request.target", function_name(*target) + " is not owned by the process that asks",
                   "name your own function, or use the management socket");
  }
  return refusal("request.type", "a tenant may not manage the card", "use the management socket");
}

void Broker::Impl::run_command(ClientId id, Tasks::Work work) {
  if (commands >= kMaxCommands) {
    return reply_and_close(
        id, refusal("client", std::to_string(commands) + " commands are being carried out already", "try again"));
  }
  const bool begun =
      tasks->run([this, gone = clients.at(id).gone, work = std::move(work)]() mutable -> EventLoop::Closure {
        EventLoop::Closure then;
        if (!gone->load(std::memory_order_acquire)) then = work();
        work = nullptr;
        return [this, then = std::move(then)] {
          --commands;
          if (then) then();
        };
      });
  if (!begun) return reply_and_close(id, no_thread());
  ++commands;
}

void Broker::Impl::handle_request(ClientId id, const BrokerRequest& request) {
  Client& client = clients.at(id);
  loop->cancel(std::exchange(client.hello_timer, EventLoop::TimerId::None));
  const auto* hello = std::get_if<HelloRequest>(&request);
  set_phase(id, client, hello != nullptr ? ClientPhase::Waiting : ClientPhase::Served);
  if (hello != nullptr) {
    client.want = hello->want;
    serve(id);
  } else if (const auto* reset = std::get_if<ResetRequest>(&request)) {
    command_reset(id, reset->target);
  } else if (const auto* raise = std::get_if<RaiseRequest>(&request)) {
    if (!in(CardPhase::Running) && !in(CardPhase::Dead)) return reply_and_close(id, refusal_by_state());
    begin_escalation(id, raise->level, std::string(name(raise->level)) + ", as asked for", {});
  } else if (std::holds_alternative<PowerCycleRequest>(request)) {
    begin_power_cycle(id);
  } else if (std::holds_alternative<StopRequest>(request)) {
    begin_stop(id);
  } else if (const auto* collect = std::get_if<CollectRequest>(&request)) {
    command_collect(id, *collect);
  } else if (const auto* debug = std::get_if<DebugRequest>(&request)) {
    command_debug(id, debug->offer);
  } else if (std::holds_alternative<HeldRequest>(request)) {
    reply_and_close(id, Held{session != nullptr && session->held_by_debugger()});
  } else if (const auto* statistics = std::get_if<StatisticsRequest>(&request)) {
    command_statistics(id, statistics->target);
  } else if (const auto* offer = std::get_if<OfferTimelineRequest>(&request)) {
    offer_timeline(id, offer->timeline);
  } else if (const auto* redeem = std::get_if<RedeemTimelineRequest>(&request)) {
    redeem_timeline(id, *redeem);
  } else {
    note_events();
    write_pending_file();
    reply_and_close(id, describe());
  }
}

void Broker::Impl::command_reset(ClientId id, wire::Target target) {
  if (target - wire::kTargetPhysical >= functions.size()) return reply_and_close(id, no_such_function(target));
  if (!in(CardPhase::Running)) return reply_and_close(id, refusal_by_state());
  run_command(id,
              [this, id, target, of = lifetime, epoch = session->boot_epoch(), manages = clients.at(id).manages,
               card = session]() mutable -> EventLoop::Closure {
                const auto begin = Clock::now();
                ResetResult result{{ResetLevel::Function, {}, std::nullopt}, card->reset(target), false};
                result.attempt.took = Clock::now() - begin;
                if (!result.reset) result.attempt.error = result.reset.error();
                if (!result.reset && unanswered(result.reset.error())) {
                  const auto answer = card->query(target);
                  result.card_silent = !answer && unanswered(answer.error());
                }
                card.reset();
                return [this, id, target, of, epoch, manages, result = std::move(result)] {
                  reset_ended(id, target, of, epoch, manages, result);
                };
              });
}

// A reset that does not end is repaired by what concerns every owner: for the card's user to decide, not for a tenant.
// A card that does not answer M at all serves nobody: the broker brings it back, whoever noticed.
void Broker::Impl::reset_ended(ClientId id, wire::Target target, CardLifetime of, std::uint64_t epoch, bool manages,
                               const ResetResult& result) {
  look();
  const auto& [attempt, reset, card_silent] = result;
  // A restart meanwhile has reset the function as well.
  const bool same_boot = in(CardPhase::Running) && session->boot_epoch() == epoch;
  if (!reset && of == lifetime && same_boot && unanswered(reset.error())) {
    if (manages || card_silent) {
      return begin_escalation(id, ResetLevel::Firmware, "the reset of " + function_name(target) + " does not end",
                              {attempt});
    }
    return reply_and_close(
        id,
        refusal(function_name(target),
                "the reset of " + function_name(target) + " does not end; what helps concerns all owners of the card",
                "ask whoever runs the card: spyre reset " + options.name + " --firmware", false));
  }
  if (!reset) return reply_and_close(id, reset.error());
  // A slot's number comes again, with another window.
  if (Binding& now = function(target).binding;
      of == lifetime && now.slot == reset->slot && now.serial == reset->serial) {
    now = *reset;
  }
  describe_changes(function_name(target) + ": reset");
  reply_and_close(id, Done{svp::describe(RecoveryReport{.attempts = {attempt}})});
}

// A card whose emulator has ended still has M's window, and the record in it.
void Broker::Impl::command_collect(ClientId id, const CollectRequest& request) {
  if (session == nullptr) return reply_and_close(id, refusal_by_state());
  run_command(id, [this, id, request, card = session]() mutable -> EventLoop::Closure {
    auto collected = card->collect(request.now ? CoreOf::Now : CoreOf::RecordOrNow, request.file);
    card.reset();
    return [this, id, collected = std::move(collected)] {
      if (!collected) return reply_and_close(id, collected.error());
      reply_and_close(id, Done{});
    };
  });
}

void Broker::Impl::command_debug(ClientId id, bool offer) {
  // A debugger may be withdrawn from a card that is being brought back: it may be what the card restarted under.
  const bool withdrawable = !offer && session != nullptr && emulator != 0;
  if (!in(CardPhase::Running) && !withdrawable) return reply_and_close(id, refusal_by_state());
  const std::filesystem::path socket = folder_path / kDebuggerName;
  run_command(id, [this, id, offer, socket, card = session]() mutable -> EventLoop::Closure {
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
}

void Broker::Impl::command_statistics(ClientId id, wire::Target target) {
  if (target - wire::kTargetPhysical >= functions.size()) return reply_and_close(id, no_such_function(target));
  if (!in(CardPhase::Running)) return reply_and_close(id, refusal_by_state());
  run_command(id, [this, id, target, card = session]() mutable -> EventLoop::Closure {
    auto statistics = card->statistics(target);
    card.reset();
    return [this, id, statistics = std::move(statistics)] {
      if (!statistics) return reply_and_close(id, statistics.error());
      reply_and_close(id, *statistics);
    };
  });
}

// The card says whether there is such a stream, when somebody redeems the token.
void Broker::Impl::offer_timeline(ClientId id, const Timeline& timeline) {
  if (timeline.function - wire::kTargetPhysical >= functions.size()) {
    return reply_and_close(id, no_such_function(timeline.function));
  }
  reply_and_close(id, TimelineOffered{timelines.offer(timeline)});
}

void Broker::Impl::redeem_timeline(ClientId id, const RedeemTimelineRequest& request) {
  if (request.target - wire::kTargetPhysical >= functions.size()) {
    return reply_and_close(id, no_such_function(request.target));
  }
  if (!in(CardPhase::Running)) return reply_and_close(id, refusal_by_state());
  const auto timeline = timelines.find(request.token);
  if (!timeline) return reply_and_close(id, unknown_timeline());
  run_command(id, [this, id, request, timeline = *timeline, card = session]() mutable -> EventLoop::Closure {
    auto granted = card->grant(timeline, request.target, request.generation);
    card.reset();
    return [this, id, granted = std::move(granted)] {
      if (!granted) return reply_and_close(id, granted.error());
      reply_and_close(id, *granted);
    };
  });
}

void Broker::Impl::reply_and_close(ClientId id, const BrokerReply& reply) {
  if (const auto* error = std::get_if<ErrorInfo>(&reply)) record(*error);
  // Whoever does not read has no room left in its socket: it gets nothing, and nobody waits for it.
  if (const auto client = remove_client(id)) (void)send_message(client->socket.get(), encode(reply));
}

void Broker::Impl::refuse_waiting(const ErrorInfo& error) {
  std::vector<ClientId> waiting;
  for (const auto& [id, client] : clients) {
    if (client.phase.get() == ClientPhase::Waiting) waiting.push_back(id);
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
  client.gone->store(true, std::memory_order_release);
  stop_watching(client);
  loop->cancel(client.hello_timer);
  return client;
}

void Broker::Impl::end_client(ClientId id, const char* how) {
  const auto client = remove_client(id);
  if (!client || client->phase.get() != ClientPhase::Owner) return;
  Function& owned = function(client->target);
  owned.owner = 0;
  retire(owned, "its owner, pid " + std::to_string(client->peer.pid) + ", is gone: " + how);
}

}  // namespace svp
