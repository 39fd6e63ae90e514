// SPDX-License-Identifier: Apache-2.0
// Inside of Broker. Six files: broker.cpp (start, stop, the description), broker_clients.cpp (connections and
// requests), broker_functions.cpp (hand out, retire), broker_renewal.cpp (windows and peers for owners to come, bind),
// broker_card.cpp (boot, death, power cycle, end of the emulator), broker_recovery.cpp (restarts of the firmware, the
// escalation).
//
// All state belongs to the loop's thread, except what the last block of members names. Blocking work is a task
// (tasks.hpp) that captures what it needs and comes back as a closure; it names the card's lifetime that it was started
// in, because a power cycle may have replaced the card meanwhile.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "host_driver/base/event_loop.hpp"
#include "host_driver/broker/acceptor.hpp"
#include "host_driver/broker/broker.hpp"
#include "host_driver/broker/broker_states.hpp"
#include "host_driver/broker/card_session.hpp"
#include "host_driver/broker/leaving_window.hpp"
#include "host_driver/broker/renewal_schedule.hpp"
#include "host_driver/broker/tasks.hpp"
#include "host_driver/device/timeline_sharing.hpp"
#include "host_driver/discovery/broker_message.hpp"
#include "host_driver/discovery/local_socket.hpp"
#include "host_driver/discovery/peer_process.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/recovery/escalation.hpp"

namespace svp {

struct Broker::Impl {
  using Clock = std::chrono::steady_clock;
  using ClientId = std::uint64_t;
  using CardLifetime = std::uint64_t;  // counts boots

  struct Client {
    StateMachine<ClientPhase> phase{};
    bool manages = false;  // came by the management socket
    PeerProcess peer;
    std::uint64_t nonce = 0;  // of the proof that the peer still has to give (PeerProcess::needs_proof)
    std::string held{};       // its request until then
    UniqueFd socket;
    EventLoop::WatchId socket_watch = EventLoop::WatchId::None;
    EventLoop::WatchId process_watch = EventLoop::WatchId::None;
    EventLoop::TimerId hello_timer = EventLoop::TimerId::None;
    FunctionChoice want{};  // Waiting
    wire::Target target{};  // Owner
    UniqueFd death{};       // Owner: write end of its death pipe
    // True when the client is off the books: what it asked for is not begun any more.
    std::shared_ptr<std::atomic<bool>> gone = std::make_shared<std::atomic<bool>>(false);
  };

  // Which window a function has: that of the boot, none, or one that was plugged for its owner.
  struct BootWindow {};
  struct NoWindow {};
  using FunctionWindow = std::variant<BootWindow, NoWindow, std::shared_ptr<Lease>>;

  struct Function {
    Binding binding{};
    StateMachine<FunctionPhase> phase{};
    ClientId owner = 0;                    // Owned
    std::uint64_t earlier_violations = 0;  // of the slots that were retired
    std::string trouble{};                 // Stuck, NoSlot: why
    FunctionWindow window{};
    std::optional<qemu::DoorbellPeer> next_peer{};
    bool peers_used_up = false;  // no further one will come
  };

  struct RetirementResult {
    Expected<Binding> retired;
    Clock::time_point stopped;
    std::optional<Expected<Binding>> bound{};  // to the lease; empty: there was none
  };

  // Windows that are plugged and were never bound, and those that are on their way in or out. One task at a time works
  // on it (RenewalWork), and reports what it has done.
  struct Leaving {
    qemu::PluggedWindow window{};
    LeavingWindow stay;
  };
  struct OldPeer {
    unsigned slot = 0;
    std::uint16_t id = 0;
  };
  struct Renewal {
    std::vector<unsigned> empty_ports;
    std::vector<qemu::PluggedWindow> ready;  // the oldest first
    std::vector<Leaving> leaving;
    std::vector<OldPeer> old_peers;
    bool working = false;
    unsigned in_vain = 0;        // tasks in a row of which something failed
    Clock::time_point looked{};  // at what is leaving
    RenewalSchedule schedule{};
    EventLoop::TimerId timer = EventLoop::TimerId::None;
  };
  struct RenewalWork {
    // What is to be done, and, when it is not done, what is left of it.
    std::vector<OldPeer> disconnect;
    std::vector<wire::Target> connect;
    std::vector<Leaving> leaving;
    std::vector<unsigned> plug;
    // What was done.
    std::vector<std::pair<wire::Target, qemu::DoorbellPeer>> connected;
    std::vector<wire::Target> used_up;
    std::vector<unsigned> emptied;
    std::vector<qemu::PluggedWindow> plugged;
    std::vector<ErrorInfo> errors;
  };

  explicit Impl(BrokerOptions given)
      : options(std::move(given)), deaths(options.card.timeouts.wedge_deaths, options.card.timeouts.wedge_within) {}
  ~Impl();

  // ---- broker.cpp
  Expected<void> start();
  void stop();
  void describe_changes(const std::string& line);  // to card.json, to description() and to on_change
  // Likewise, of what changes with every owner: card.json follows a little later, once for several changes.
  void describe_owners(const std::string& line);
  void publish();  // to description()
  void write_file();
  void write_file_soon();
  void write_pending_file();  // whoever was told finds it in the file
  CardDescription describe() const;
  bool at_rest();
  const Timeouts& timeouts() const { return options.card.timeouts; }

  // ---- broker_clients.cpp
  void admit(UniqueFd socket, bool manages);
  static void set_phase(ClientId id, Client& client, ClientPhase to);
  // The reply to a refusal of the right to ask; nothing: it may.
  std::optional<ErrorInfo> forbidden(const Client& client, const BrokerRequest& request) const;
  void check_proof(ClientId id, const Received& received);
  bool owns(const Client& client, wire::Target target) const;
  // Runs `work` as the client's command: one of kMaxCommands, not at all when the client has gone. Refuses it when
  // there is no room.
  void run_command(ClientId id, Tasks::Work work);
  std::size_t waiting_clients() const;
  void expire_idle_clients();
  void handle_request(ClientId id);
  void handle_message(ClientId id, const Received& received);
  void handle_request(ClientId id, const BrokerRequest& request);
  void reply_and_close(ClientId id, const BrokerReply& reply);
  void refuse_waiting(const ErrorInfo& error);
  // The connection is over, in whatever way. An owner's function is retired.
  void end_client(ClientId id, const char* how);
  // Takes it off the books: no handler runs for it afterwards.
  std::optional<Client> remove_client(ClientId id);
  void command_reset(ClientId id, wire::Target target);
  struct ResetResult {
    LevelAttempt attempt;
    Expected<Binding> reset;
    bool card_silent;  // it did not answer a plain question afterwards either
  };
  void reset_ended(ClientId id, wire::Target target, CardLifetime of, std::uint64_t epoch, bool manages,
                   const ResetResult& result);
  void command_collect(ClientId id, const CollectRequest& request);
  void command_debug(ClientId id, bool offer);
  void command_statistics(ClientId id, wire::Target target);
  // The function that a request is about which only its owner may make; nothing: it is another request.
  static std::optional<wire::Target> owned_target(const BrokerRequest& request);
  void offer_timeline(ClientId id, const Timeline& timeline);
  void redeem_timeline(ClientId id, const RedeemTimelineRequest& request);

  // ---- broker_functions.cpp
  void serve(ClientId id);
  void serve_waiting();
  // What to do for `want` now: a function to grant, to wait, or why not.
  struct Wait {};
  using Verdict = std::variant<wire::Target, Wait, ErrorInfo>;
  Verdict judge(const FunctionChoice& want);
  Verdict judge_function(wire::Target target);
  Verdict judge_any_virtual();
  void notice_gone_owner(Function& function);
  void stop_watching(Client& client);
  void grant(ClientId id, Function& function);
  void retire(Function& function, const std::string& why);
  void retired(CardLifetime lifetime, std::uint64_t epoch, wire::Target target, const std::shared_ptr<Lease>& lease,
               Clock::time_point began, const RetirementResult& result);
  // Its last owner's slot is not its any more.
  void let_go_of_slot(Function& function);
  void empty_window(unsigned slot);
  // `trouble`: of Stuck and NoSlot.
  static void set_phase(Function& function, FunctionPhase to, std::string trouble = {});
  Function& function(wire::Target target) { return functions[target - wire::kTargetPhysical]; }
  void note_events();

  // ---- broker_renewal.cpp
  void begin_renewal();  // of a card that has just booted
  // Starts what is due: plugs up to the number that is kept, gives each function its next peer, binds who waits.
  void renew();
  void look_again();
  void renew_later(std::chrono::milliseconds after);
  void renew_at(Clock::time_point when);
  static bool waits_for_window(const Function& function) { return function.phase.get() == FunctionPhase::Unbound; }
  bool somebody_waits_for_renewal() const;
  RenewalWork due_work();
  static void do_work(const CardSession& card, RenewalWork& work);
  void renewed(CardLifetime lifetime, RenewalWork& done);
  bool renewed_all() const;  // every spare window is plugged, and nothing else is due
  std::shared_ptr<Lease> take_lease(Function& function);
  void return_lease(Function& function, const std::shared_ptr<Lease>& lease);
  void drop_lease(Lease& lease);
  void bind_waiting();
  void begin_bind(Function& function, const std::shared_ptr<Lease>& lease);
  void bound(Function& function, const std::shared_ptr<Lease>& lease, const Expected<Binding>& result,
             std::uint64_t epoch, const std::string& line);
  void give_up_waiting();
  void get_stuck(Function& function, const ErrorInfo& error);

  // ---- broker_recovery.cpp
  void look();
  void schedule_look();
  std::vector<Binding> bindings() const;  // of functions that have a slot
  void begin_attach_again();
  // From `from` up to the card reset, then the power cycle. `first`: what was tried before. `id`: who asked; 0: nobody.
  void begin_escalation(ClientId id, ResetLevel from, const std::string& why, std::vector<LevelAttempt> first);
  void escalated(CardLifetime lifetime, ClientId id, const std::string& why, const RecoveryReport& report,
                 Expected<std::vector<Binding>> attached);
  void attached_again(const std::vector<Binding>& now, const std::string& line);
  void nothing_but_power(ClientId id, const std::string& why, const RecoveryReport& report);
  // A retirement that began in boot epoch `epoch` was not answered: it is done again behind a restart of the card, or
  // is the reason for one. False: the card is beyond that.
  bool retire_later(wire::Target target, std::uint64_t epoch);
  // The card did not answer M, which was cut off or waited in vain: what only a restart repairs.
  static bool unanswered(const ErrorInfo& error);
  bool note_death();  // true: wedged now

  // ---- broker_card.cpp
  Expected<std::shared_ptr<CardSession>> boot_session(CardLifetime lifetime);
  void adopt(std::shared_ptr<CardSession> booted);
  void emulator_ended(CardLifetime lifetime, const std::string& how);
  // To the log of errors: what this broker notices and what it refuses.
  void record(const ErrorInfo& error) const;
  void card_failed(const std::string& why);
  void tell_owners(const std::string& how);
  void let_owners_go();
  void begin_power_cycle(ClientId id, const std::string& how = {});
  void power_cycled(ClientId id, const std::string& how, Expected<std::shared_ptr<CardSession>> booted);
  void begin_stop(ClientId id);  // 0: not by a client
  void end_emulator();
  void stopped();
  // `reason`: what people are told about it.
  void set_phase(CardPhase to, std::string reason = {});
  bool in(CardPhase expected) const { return phase.get() == expected; }
  ErrorInfo refusal_by_state() const;
  ErrorInfo no_such_function(wire::Target target) const;
  ErrorInfo no_thread() const;
  ErrorInfo refusal(std::string source, std::string message, std::string next, bool recoverable = true) const;

  BrokerOptions options;  // fixed after start()
  bool serving = false;   // likewise: there is something to stop
  std::int64_t created = 0;
  std::optional<CardFolder> folder;
  std::filesystem::path folder_path;
  std::shared_ptr<EventLoop> loop;
  std::optional<Tasks> tasks;
  Acceptor tenants{[this](UniqueFd socket) { admit(std::move(socket), false); }};
  Acceptor managers{[this](UniqueFd socket) { admit(std::move(socket), true); }};
  unsigned commands = 0;  // of clients, under way

  std::map<ClientId, Client> clients;
  ClientId next_client = 1;
  std::vector<Function> functions;
  TimelineOffers timelines;
  Renewal renewal;

  std::shared_ptr<CardSession> session;  // null while there is none
  CardLifetime lifetime = 0;
  pid_t emulator = 0;  // 0 when it has ended
  unsigned cores = 0;
  std::uint32_t array = 0;  // version; 0: the card has none
  StateMachine<CardPhase> phase;
  std::string phase_reason;
  DeathCount deaths;
  std::vector<wire::Target> retire_again;  // what a restart of the card interrupted
  std::vector<ClientId> stop_clients;
  std::uint64_t power_cycles = 0;
  RetirementTimes retirements;
  EventLoop::TimerId rewrite_timer = EventLoop::TimerId::None;
  EventLoop::TimerId write_timer = EventLoop::TimerId::None;
  EventLoop::TimerId look_timer = EventLoop::TimerId::None;

  // ---- any thread
  UniqueFd stopped_event;  // readable when stopped
  mutable std::mutex mutex;
  std::condition_variable stopped_changed;
  CardDescription published;
  bool is_stopped = false;
};

}  // namespace svp
