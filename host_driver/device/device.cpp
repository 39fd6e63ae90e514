// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/device.hpp"

#include <sys/eventfd.h>

#include <thread>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/base/system_call.hpp"
#include "host_driver/device/device_impl.hpp"
#include "host_driver/transport/guarded.hpp"
#include "shared/virtio.hpp"

namespace svp {

ErrorInfo not_in_sink() {
  return {.layer = Layer::Driver,
          .source = "completion sink",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "wait on another thread, or post a closure to the event loop",
          .message = "a blocking call was made from inside a sink: it would wait for itself"};
}

namespace {

// What the card answered, as an error.
ErrorInfo refused_by_card(const wire::AdminRequest& request, const wire::AdminReply& reply, std::string source) {
  std::string message = std::string(wire::name(request.command)) + " ended " + std::string(wire::name(reply.outcome)) +
                        ": " + std::string(wire::name(reply.status));
  if (reply.field != wire::Field::None) message += " in " + std::string(wire::name(reply.field));
  std::string next = "correct the request";
  switch (reply.status) {
    case wire::Status::OutOfDeviceMemory: {
      const auto& region = reply.values.region;
      message += " (free " + std::to_string(region.free_bytes) + ", largest " + std::to_string(region.largest_bytes) +
                 ", total " + std::to_string(region.total_bytes) + " bytes)";
      next = "release memory of this function, or boot the card with more memory or fewer functions";
      break;
    }
    case wire::Status::QuotaExceeded: next = "release memory of this function, or have its quota raised"; break;
    case wire::Status::OutOfRegions: next = "release a region"; break;
    case wire::Status::OutOfStreams: next = "close a stream"; break;
    case wire::Status::Busy: next = "wait for the work that is using it, then try again"; break;
    case wire::Status::Unsupported: next = "do without: this card does not know the command yet"; break;
    default: break;
  }
  return {.layer = Layer::Firmware,
          .source = std::move(source),
          .outcome = reply.outcome,
          .recoverable = true,
          .next_step = std::move(next),
          .message = std::move(message),
          .status = reply.status};
}

std::string stream_name(std::uint32_t stream) { return "stream " + std::to_string(stream); }

wire::AdminRequest make_request(wire::AdminCommand command) {
  wire::AdminRequest request{};
  request.command = command;
  return request;
}

}  // namespace

// ---- attach ---------------------------------------------------------------------------------------------------------

Device::Impl::Impl(DeviceOptions given, std::shared_ptr<Window> mapped, SlotHandle slot)
    : options(std::move(given)),
      window(std::move(mapped)),
      doorbells(std::move(slot), options.faults),
      channel(window, doorbells, options.exit_fd.get(), options.timeouts),
      spin_policy(options.timeouts, options.faults.no_spinning) {}

Expected<void> Device::Impl::start() {
  if (!options.loop) {
    auto loop = EventLoop::create();
    if (!loop) return std::unexpected(std::move(loop.error()));
    options.loop = *std::move(loop);
  }
  wake_fd.reset(system_call([] { return ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK); }));
  if (!wake_fd.valid()) return std::unexpected(failure_or("no descriptor is left for an eventfd"));
  if (options.held_by_debugger) channel.watch_debugger(options.held_by_debugger);
  BringUp bring_up(*window, channel, doorbells, options.exit_fd.get(), options.timeouts, options.optional_features);
  bring_up.watch_boot(options.boot_codes_shown);
  auto linked = bring_up.run();
  if (!linked) return std::unexpected(std::move(linked.error()));
  link = *std::move(linked);
  blocks.emplace(*window, std::move(link.queues[wire::kControlBlockQueue]), link.config,
                 (link.features & wire::kFeatureControlBlockCrc) != 0, options.polled, doorbells.faults());
  admins.emplace(*window, std::move(link.queues[wire::kAdminQueue]), link.config.generation, doorbells.faults());
  events.emplace(*window, std::move(link.queues[wire::kEventQueue]));
  link.queues.clear();
  last_beat = Clock::now();
  try {
    listen();
  } catch (...) {
    const DriverCall not_the_driver(nullptr);
    // The loop may be shared and outlive this: it must not call what never came to be.
    options.loop->unwatch(doorbell_watch);
    options.loop->unwatch(exit_watch);
    throw;
  }
  return {};
}

void Device::Impl::listen() {
  doorbell_watch = options.loop->watch(doorbells.from_card(), [this](unsigned what) { on_doorbell(what); });
  if (!options.exit_fd.valid()) return;
  exit_watch = options.loop->watch(options.exit_fd.get(), [this](unsigned) {
    note_death();
    wake_all();
    (void)try_reap(false);
  });
}

Expected<std::unique_ptr<Device>> Device::attach(SlotHandle slot, DeviceOptions options) {
  const FaultHooks hooks = options.faults;
  const DriverCall call(hooks.injector.get(), hooks.function);
  return guarded("attaching", [&]() -> Expected<std::unique_ptr<Device>> {
    if (auto traced = trace::start_from_environment(); !traced) return std::unexpected(std::move(traced.error()));
    auto window = Window::map(slot.window_fd(), slot.window_bytes());
    if (!window) return std::unexpected(std::move(window.error()));
    auto impl = std::make_unique<Impl>(std::move(options), *std::move(window), std::move(slot));
    // The object that ends what start() begins is there before it begins.
    std::unique_ptr<Device> device(new Device(nullptr));
    if (auto started = impl->start(); !started) {
      ras::report(started.error(), impl->where());
      return std::unexpected(std::move(started.error()));
    }
    impl->begin_trace();
    device->impl_ = std::move(impl);
    return device;
  });
}

Device::Device(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Device::~Device() {
  if (impl_ == nullptr) return;
  if (impl_->process.is_this()) {
    impl_->detach();
  } else {
    keep_for_ever(std::shared_ptr<Impl>(std::move(impl_)));
  }
}
void Device::close() {
  if (impl_->process.is_this()) impl_->detach();
}

const wire::DeviceConfig& Device::config() const { return impl_->link.config; }
const Timeouts& Device::timeouts() const { return impl_->options.timeouts; }
std::uint64_t Device::features() const { return impl_->link.features; }
std::span<std::byte> Device::host_memory() const { return impl_->window->host_memory(); }
std::uint64_t Device::host_memory_offset() const { return wire::kHostMemoryOffset; }
std::shared_ptr<void> Device::mapping() const { return impl_->window; }
WindowIdentity Device::window_identity() const { return impl_->window->identity(); }

// By what the window says of itself, which is there before the card has told its configuration; a blank one says
// nothing.
ras::Where Device::Impl::where() const {
  if (!process.is_this()) return {.device = options.card_name, .function = {}, .stream = {}, .launch = {}};
  const HeaderView header = window->header();
  std::string function;
  if (header.magic == wire::kWindowMagic) {
    function = wire::name(header.kind);
    if (header.kind == wire::FunctionKind::Virtual) function += std::to_string(header.function_index);
  }
  return {.device = options.card_name, .function = std::move(function), .stream = {}, .launch = {}};
}

void Device::Impl::begin_trace() {
  trace::Recorder* const recorder = trace::recorder();
  if (recorder == nullptr) return;
  const ras::Where here = where();
  trace_card = recorder->open_card(here.device + " " + here.function);
  if (here.function == wire::name(wire::FunctionKind::Management)) return;  // it runs nothing
  wire::AdminRequest request = make_request(wire::AdminCommand::Trace);
  request.arguments.trace.on = 1;
  const auto reply = admin(request);
  // Without it the trace has the driver's part only: the error is in the log (admin()).
  if (!reply || reply->outcome != wire::Outcome::Ok) return;
  const Claim claim(*this);
  card_trace.emplace(*window, *recorder, trace_card);
}

// ---- control blocks -------------------------------------------------------------------------------------------------

ErrorInfo Device::Impl::refusal(ControlBlockRing::Refusal why, std::uint32_t stream) const {
  using Refusal = ControlBlockRing::Refusal;
  if (why == Refusal::Closed) return failure_or("the card does not follow the protocol");
  const bool resetting = why == Refusal::Resetting;
  // Busy: refused_as_busy().
  return {.layer = Layer::Driver,
          .source = stream_name(stream),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = resetting ? "wait until the reset has returned" : "open the stream first",
          .message = stream_name(stream) + (resetting ? " is being reset or closed" : " is not open"),
          .status = resetting ? wire::Status::Busy : wire::Status::None};
}

Expected<std::size_t> Device::Impl::submit(std::uint32_t stream, std::span<const ControlBlockRequest> requests,
                                           bool verbatim) {
  if (!process.is_this()) [[unlikely]]
    return std::unexpected(not_ours());
  const auto submission = blocks->submit(stream, requests, verbatim);
  if (submission.refusal != ControlBlockRing::Refusal::None)
    return std::unexpected(refusal(submission.refusal, stream));
  if (submission.kick) {
    trace::instant(trace::Kind::DoorbellToCard, trace_card);
    doorbells.ring();
  } else if (submission.accepted != 0) {
    doorbells_suppressed.fetch_add(1, std::memory_order_relaxed);
  }
  if (!ticking.load(std::memory_order_relaxed)) start_ticking();
  return submission.accepted;
}

Expected<std::size_t> Device::submit(std::uint32_t stream, std::span<const ControlBlockRequest> requests) {
  return impl_->submit(stream, requests, false);
}
Expected<std::size_t> Device::submit_verbatim(std::uint32_t stream, std::span<const ControlBlockRequest> requests) {
  return impl_->submit(stream, requests, true);
}
std::size_t Device::outstanding(std::uint32_t stream) const { return impl_->blocks->outstanding(stream); }

void Device::Impl::wait_for_deliveries() {
  if (inside_sink()) return;
  // Odd: somebody is between taking completions from the ring and the return of their last sink. Sinks do not block.
  const std::uint64_t delivery = deliveries.load(std::memory_order_acquire);
  if (delivery % 2 == 0) return;
  // bounded: sinks do not block (device_options.hpp)
  while (deliveries.load(std::memory_order_acquire) == delivery) std::this_thread::yield();
}

void Device::set_credit_sink(std::uint32_t stream, CreditSink* sink) {
  if (!impl_->process.is_this()) return;
  impl_->blocks->set_credit_sink(stream, sink);
  impl_->wait_for_deliveries();
}

// ---- waiting --------------------------------------------------------------------------------------------------------

WaitStatus Device::wait_for_condition(ConditionRef condition, TimePoint deadline) {
  if (!impl_->process.is_this()) return condition.holds(condition.context) ? WaitStatus::Done : WaitStatus::Failed;
  return impl_->wait(condition, deadline);
}
void Device::after_delivery(AfterDelivery& wanted) { impl_->after.add(wanted); }
DriverCall Device::driver_call() const { return impl_->driver_call(); }
bool Device::delivering() { return inside_sink(); }

void Device::wake_waiters() {
  if (impl_->process.is_this()) impl_->wake_all();
}
std::size_t Device::poll() { return inside_sink() || !impl_->process.is_this() ? 0 : impl_->try_reap(false); }

// ---- admin ----------------------------------------------------------------------------------------------------------

Expected<wire::AdminReply> Device::Impl::admin(wire::AdminRequest request) {
  if (!process.is_this()) return std::unexpected(not_ours());
  if (inside_sink()) return std::unexpected(not_in_sink());
  CardDeadline deadline(*this, options.timeouts.admin);
  const auto no_reply = [&](const char* what) {
    const auto limit = std::chrono::duration_cast<std::chrono::milliseconds>(options.timeouts.admin).count();
    ErrorInfo error{.layer = Layer::Firmware,
                    .source = std::string(wire::name(request.command)),
                    .outcome = wire::Outcome::Indeterminate,
                    .recoverable = true,
                    .next_step = "check the card's health; reset the function if it stays silent",
                    .message = std::string(wire::name(request.command)) + what + std::to_string(limit) + " ms"};
    ras::report(error, where());
    return error;
  };
  AdminPort::Ticket ticket;
  for (;;) {
    bool kick = false;
    const auto begun = admins->begin(request, ticket, kick);
    if (begun == AdminPort::Begin::Closed) return std::unexpected(failure_or("the card does not follow the protocol"));
    if (begun == AdminPort::Begin::Sent) {
      if (kick) doorbells.ring();
      break;
    }
    struct Room {
      AdminPort& port;
    } room{*admins};
    const auto status =
        wait_for_card({[](void* at) { return static_cast<Room*>(at)->port.can_begin(); }, &room}, deadline);
    if (status == WaitStatus::TimedOut) return std::unexpected(no_reply(" found no free slot in "));
  }
  if (!ticking.load(std::memory_order_relaxed)) start_ticking();
  using State = AdminPort::Ticket::State;
  const auto ended = [](void* at) { return static_cast<AdminPort::Ticket*>(at)->state() != State::Waiting; };
  (void)wait_for_card({ended, &ticket}, deadline);
  admins->abandon(ticket);  // no-op when it has ended
  switch (ticket.state()) {
    case State::Answered: return ticket.reply();
    case State::Gone:
      if (mutated(HostMutant::FailAdminRequests)) return wire::AdminReply{};
      return std::unexpected(failure_or("the card is gone"));
    case State::Waiting: break;
  }
  if (mutated(HostMutant::NoReply)) return wire::AdminReply{};
  return std::unexpected(no_reply(" was not answered in "));
}

Expected<wire::AdminReply> Device::Impl::accepted_admin(const wire::AdminRequest& request, std::string source) {
  auto reply = admin(request);
  if (reply && reply->outcome != wire::Outcome::Ok) {
    ErrorInfo refused = refused_by_card(request, *reply, std::move(source));
    ras::report(refused, where());
    return std::unexpected(std::move(refused));
  }
  return reply;
}

Expected<wire::AdminReply> Device::admin(wire::AdminRequest request) { return impl_->admin(request); }

Expected<wire::AdminReply> Device::card_statistics() {
  return impl_->accepted_admin(make_request(wire::AdminCommand::Stats), "statistics");
}

// The number is free for the card once it has closed the stream, a moment before the thread that closes it knows.
bool Device::Impl::adopt_stream(std::uint32_t stream, std::uint32_t incarnation) {
  const TimePoint limit = Clock::now() + options.timeouts.admin;
  for (;;) {
    const bool being_closed = blocks->is_resetting(stream);  // asked first: it may be closed by the next line
    if (blocks->open_stream(stream, incarnation)) return true;
    if (!being_closed || Clock::now() >= limit) return false;
    std::this_thread::yield();
  }
}

Expected<std::uint32_t> Device::Impl::open_stream(StreamPriority priority) {
  auto request = make_request(wire::AdminCommand::StreamOpen);
  request.arguments.stream_open.priority = static_cast<std::uint32_t>(priority);
  const std::shared_lock structure(stream_commands);
  const auto reply = accepted_admin(request, "stream");
  if (!reply) return std::unexpected(reply.error());
  const auto [stream, incarnation] = reply->values.stream;
  if (!adopt_stream(stream, incarnation)) {
    note_violation("the card opened stream " + std::to_string(stream) + ", which is open already or does not exist");
    auto error = failure_or("the card does not follow the protocol");
    fail(error, OutstandingEnd::Unknown, Health::Dead);
    return std::unexpected(std::move(error));
  }
  return stream;
}

Expected<std::uint32_t> Device::open_stream(StreamPriority priority) {
  if (!impl_->process.is_this()) return std::unexpected(impl_->not_ours());
  return impl_->as_driver("opening a stream", [&] { return impl_->open_stream(priority); });
}

Expected<std::uint32_t> Device::Impl::reset_or_close(wire::AdminCommand command, std::uint32_t stream) {
  if (inside_sink()) return std::unexpected(not_in_sink());
  const auto incarnation = blocks->begin_reset(stream);
  if (!incarnation) {
    const bool open = blocks->is_open(stream);
    return std::unexpected(
        refusal(open ? ControlBlockRing::Refusal::Resetting : ControlBlockRing::Refusal::NotOpen, stream));
  }
  // However it ends but in success: the stream takes submissions again, its incarnation is what it was.
  struct Resetting {
    ControlBlockRing* ring;
    std::uint32_t stream;
    ~Resetting() {
      if (ring != nullptr) ring->end_failed_reset(stream);
    }
  } resetting{&*blocks, stream};
  auto request = make_request(command);
  request.arguments.stream = {stream, *incarnation};
  const auto reply = accepted_admin(request, stream_name(stream));
  if (!reply) return std::unexpected(reply.error());
  // What still lay in the ring meets a stale incarnation and comes back REJECTED: that, too, is before the reset's end.
  struct Drained {
    ControlBlockRing& ring;
    std::uint32_t stream;
  } drained{*blocks, stream};
  const auto empty = [](void* at) {
    const auto& d = *static_cast<Drained*>(at);
    return d.ring.outstanding(d.stream) == 0;
  };
  CardDeadline deadline(*this, options.timeouts.admin);
  const auto status = wait_for_card({empty, &drained}, deadline);
  if (outstanding_failed() || (status != WaitStatus::Done && !mutated(HostMutant::NoReply))) {
    return std::unexpected(failure_or("the card reset " + stream_name(stream) + " but kept some of its blocks"));
  }
  wait_for_deliveries();
  resetting.ring = nullptr;
  return reply->values.stream.incarnation;
}

Expected<void> Device::reset_stream(std::uint32_t stream) {
  if (!impl_->process.is_this()) return std::unexpected(impl_->not_ours());
  const std::shared_lock structure(impl_->stream_commands);
  const auto incarnation = impl_->as_driver(
      "resetting a stream", [&] { return impl_->reset_or_close(wire::AdminCommand::StreamReset, stream); });
  if (incarnation) impl_->blocks->end_reset(stream, *incarnation);
  impl_->tell_credits();
  if (!incarnation) return std::unexpected(incarnation.error());
  return {};
}

Expected<void> Device::close_stream(std::uint32_t stream) {
  if (!impl_->process.is_this()) return std::unexpected(impl_->not_ours());
  const std::shared_lock structure(impl_->stream_commands);
  const auto closed = impl_->as_driver("closing a stream",
                                       [&] { return impl_->reset_or_close(wire::AdminCommand::StreamClose, stream); });
  if (closed) impl_->blocks->close_stream(stream);
  impl_->tell_credits();
  if (!closed) return std::unexpected(closed.error());
  return {};
}

Expected<void> Device::reset_queues() {
  if (!impl_->process.is_this()) return std::unexpected(impl_->not_ours());
  return impl_->reset_queues();
}

std::uint32_t Device::stream_incarnation(std::uint32_t stream) const {
  return impl_->process.is_this() ? impl_->blocks->incarnation(stream) : 0;
}

// ---- regions --------------------------------------------------------------------------------------------------------

Expected<Region> Device::Impl::acquire(RegionType type, std::uint64_t bytes) {
  return as_driver("acquiring a region", [&] { return acquire_now(type, bytes); });
}

Expected<Region> Device::Impl::acquire_now(RegionType type, std::uint64_t bytes) {
  auto request = make_request(wire::AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {bytes, type};
  const auto reply = accepted_admin(request, std::string(type_name(type)) + " region");
  if (!reply) return std::unexpected(reply.error());
  const auto& granted = reply->values.region;
  return Region{.base = {granted.region_id, 0},
                .generation = granted.generation,
                .ordinal = granted.ordinal,
                .bytes = granted.bytes,
                .type = type};
}

Expected<void> Device::Impl::release(const Region& region) {
  auto request = make_request(wire::AdminCommand::RegionRelease);
  request.arguments.region_release = {region.base.region_id, region.generation};
  const auto reply = accepted_admin(request, "region " + std::to_string(region.ordinal));
  if (!reply) return std::unexpected(reply.error());
  return {};
}

Expected<Region> Device::acquire_region(RegionType type, std::uint64_t bytes) { return impl_->acquire(type, bytes); }
Expected<void> Device::release_region(const Region& region) { return impl_->release(region); }
Expected<MemoryInfo> Device::Impl::memory_info() {
  const auto reply = accepted_admin(make_request(wire::AdminCommand::Query), "memory");
  if (!reply) return std::unexpected(reply.error());
  return MemoryInfo{.free_bytes = reply->values.region.free_bytes, .total_bytes = reply->values.region.total_bytes};
}

Expected<MemoryInfo> Device::memory_info() { return impl_->memory_info(); }
RegionSource& Device::region_source() { return *impl_; }

// ---- state ----------------------------------------------------------------------------------------------------------

DeviceStatistics Device::statistics() const {
  const auto read = [](const std::atomic<std::uint64_t>& counter) { return counter.load(std::memory_order_relaxed); };
  return {.submitted = impl_->blocks->submitted(),
          .completed = impl_->blocks->completed(),
          .doorbells_signalled = impl_->doorbells.signalled(),
          .doorbells_suppressed = read(impl_->doorbells_suppressed),
          .spin_waits = read(impl_->spin_waits),
          .sleeps = read(impl_->sleeps),
          .loop_reaps = read(impl_->loop_reaps),
          .late_finds = read(impl_->late_finds),
          .stale_responses = read(impl_->channel.statistics().stale_responses),
          .events = impl_->events->received(),
          .doorbells_dropped_to_card = impl_->doorbells.dropped_to_card(),
          .doorbells_dropped_from_card = impl_->doorbells.dropped_from_card()};
}

std::vector<wire::DeviceEvent> Device::take_events() {
  if (!impl_->process.is_this()) return {};
  return impl_->events->take();
}

Health Device::health() const {
  if (!impl_->process.is_this()) return Health::Dead;
  return impl_->health();
}

void Device::check() {
  if (!inside_sink() && impl_->process.is_this()) impl_->look_at_card();
}

void Device::check_now() {
  if (!inside_sink() && impl_->process.is_this()) impl_->look_at_card_now();
}

std::optional<ErrorInfo> Device::failure() const {
  return impl_->process.is_this() ? impl_->failure() : impl_->not_ours();
}
ras::Where Device::where() const { return impl_->where(); }
std::uint32_t Device::trace_card() const { return impl_->trace_card.load(std::memory_order_relaxed); }

}  // namespace svp
