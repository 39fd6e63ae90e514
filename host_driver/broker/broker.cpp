// SPDX-License-Identifier: Apache-2.0
#include "host_driver/broker/broker.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "host_driver/broker/broker_impl.hpp"
#include "host_driver/broker/timeouts.hpp"
#include "host_driver/discovery/local_socket.hpp"
#include "shared/version.hpp"

namespace svp {

namespace {

ErrorInfo no_descriptor() {
  return {.layer = Layer::Driver,
          .source = "broker",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "close descriptors or raise their limit (ulimit -n)",
          .message = "no descriptor is left for an eventfd"};
}

}  // namespace

// ---- start and stop -------------------------------------------------------------------------------------------------

Expected<void> Broker::Impl::start() {
  auto runtime = options.runtime_folder.empty() ? RuntimeFolder::open() : RuntimeFolder::open(options.runtime_folder);
  if (!runtime) return std::unexpected(std::move(runtime.error()));
  auto own = runtime->create_card(options.name);
  if (!own) return std::unexpected(std::move(own.error()));
  folder = *std::move(own);
  folder_path = folder->path();
  options.card.name = options.name;
  if (options.card.emulator.console_file.empty()) options.card.emulator.console_file = folder_path / kConsoleName;
  created =
      std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch()).count();
  stopped_event.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopped_event.valid()) return std::unexpected(no_descriptor());
  auto made = EventLoop::create();
  if (!made) return std::unexpected(std::move(made.error()));
  loop = *std::move(made);
  tasks.emplace(*loop);

  auto booted = boot_session(1);
  if (!booted) return std::unexpected(std::move(booted.error()));
  if (options.tenant_group) {
    if (auto shared = folder->share_with(*options.tenant_group); !shared) return shared;
  }
  auto for_tenants = listen_in(folder->descriptor(), kSocketName, options.tenant_group);
  if (!for_tenants) return std::unexpected(std::move(for_tenants.error()));
  auto for_managers = listen_in(folder->descriptor(), kManagementSocketName);
  if (!for_managers) return std::unexpected(std::move(for_managers.error()));
  loop->post([&, ready = *std::move(booted)]() mutable {
    adopt(std::exchange(ready, nullptr));
    tenants.open(*loop, *std::move(for_tenants));
    managers.open(*loop, *std::move(for_managers));
    schedule_look();
  });
  loop->flush();
  serving = true;
  return {};
}

void Broker::Impl::stop() {
  if (!serving) return;
  std::unique_lock lock(mutex);
  if (is_stopped) return;
  loop->post([this] { begin_stop(0); });
  stopped_changed.wait_for(lock, timeouts().card_command, [this] { return is_stopped; });
}

Broker::Impl::~Impl() {
  stop();
  tasks.reset();  // uses the loop to its end
  loop.reset();
  session.reset();
}

Expected<std::unique_ptr<Broker>> Broker::start(BrokerOptions options) {
  auto impl = std::make_unique<Impl>(std::move(options));
  if (auto started = impl->start(); !started) return std::unexpected(std::move(started.error()));
  return std::unique_ptr<Broker>(new Broker(std::move(impl)));
}

Broker::Broker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Broker::~Broker() = default;

const std::filesystem::path& Broker::folder() const { return impl_->folder_path; }

CardDescription Broker::description() const {
  const std::lock_guard lock(impl_->mutex);
  return impl_->published;
}

bool Broker::at_rest() const {
  bool rests = false;
  impl_->loop->post([this, &rests] { rests = impl_->at_rest(); });
  impl_->loop->flush();
  return rests;
}

std::shared_ptr<Device> Broker::management() const {
  std::shared_ptr<Device> management;
  impl_->loop->post([this, &management] {
    if (impl_->session != nullptr) management = impl_->session->management();
  });
  impl_->loop->flush();
  return management;
}

Broker::Ended Broker::run_until(int stop_fd) {
  for (;;) {  // bounded: the lifetime of the card: a client's stop, the card's end or the caller's descriptor end it
    pollfd events[] = {{impl_->stopped_event.get(), POLLIN, 0}, {stop_fd, POLLIN, 0}};
    if (::poll(events, 2, -1) < 0 && errno == EINTR) continue;  // bounded: as the loop around it
    return events[0].revents != 0 ? Ended::ByClient : Ended::ByDescriptor;
  }
}

void Broker::stop() { impl_->stop(); }

// ---- what it tells --------------------------------------------------------------------------------------------------

CardDescription Broker::Impl::describe() const {
  CardDescription card;
  card.name = options.name;
  card.broker = ::getpid();
  card.emulator = emulator;
  card.abi = wire::kAbiVersion;
  card.state = told(phase.get());
  card.state_reason = phase_reason;
  card.cores = cores;
  card.array = array;
  card.memory_bytes = options.card.memory_bytes;
  card.window_bytes = options.card.window_bytes;
  // Of the windows that are kept plugged, some may be on their way.
  const unsigned kept = options.card.spare_slots;
  card.slots_total = 1 + static_cast<unsigned>(functions.size()) + kept;
  card.slots_left = std::min(static_cast<unsigned>(renewal.ready.size()), kept);
  card.slots_used = card.slots_total - card.slots_left;
  card.created = created;
  card.power_cycles = power_cycles;
  card.retirements = retirements;
  for (const Function& function : functions) {
    const auto owner = clients.find(function.owner);
    card.functions.push_back({.target = function.binding.target,
                              .use = told(function.phase.get()),
                              .owner = owner == clients.end() ? 0 : owner->second.peer.pid,
                              .slot = function.binding.slot,
                              .serial = function.binding.serial,
                              .violations = function.earlier_violations + function.binding.violations});
  }
  return card;
}

bool Broker::Impl::at_rest() {
  for (Function& each : functions) notice_gone_owner(each);
  const bool written = write_timer == EventLoop::TimerId::None && rewrite_timer == EventLoop::TimerId::None;
  const auto rests = [](const Function& each) { return told(each.phase.get()) != FunctionUse::Retiring; };
  return in(CardPhase::Running) && waiting_clients() == 0 && tasks->idle() && written &&
         std::ranges::all_of(functions, rests) && renewed_all();
}

void Broker::Impl::describe_changes(const std::string& line) {
  publish();
  write_file();
  if (options.on_change) options.on_change(line);
}

void Broker::Impl::describe_owners(const std::string& line) {
  publish();
  write_file_soon();
  if (options.on_change) options.on_change(line);
}

void Broker::Impl::publish() {
  note_events();
  auto now = describe();
  {
    const std::lock_guard lock(mutex);
    published = std::move(now);
  }
}

void Broker::Impl::write_pending_file() {
  if (write_timer == EventLoop::TimerId::None) return;
  loop->cancel(std::exchange(write_timer, EventLoop::TimerId::None));
  write_file();
}

// A file that takes another's place may take the disk milliseconds, in which the broker serves nobody.
void Broker::Impl::write_file_soon() {
  if (write_timer != EventLoop::TimerId::None) return;
  write_timer = loop->run_at(Clock::now() + kWriteAfter, [this] {
    write_timer = EventLoop::TimerId::None;
    write_file();
  });
}

void Broker::Impl::write_file() {
  if (!folder || rewrite_timer != EventLoop::TimerId::None) return;
  if (folder->write_description(published)) return;
  // Clients that ask the broker get the truth; the file follows when there is room again.
  rewrite_timer = loop->run_at(Clock::now() + kRewriteAfter, [this] {
    rewrite_timer = EventLoop::TimerId::None;
    write_file();
  });
}

}  // namespace svp
