// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/flex_stream.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/active_capture.hpp"
#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/host_work.hpp"
#include "host_driver/runtime/launch_plan.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/stream_recoverer.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {
namespace {

void check_loaded(const Job& job, const FlexAllocator& allocator) {
  if (job.program() == nullptr) {
    throw InvalidArgument("job", "the binary of kernel " + job.binary()->name() + " is not loaded",
                          "ExecutionPlan::load() it first");
  }
  if (job.program()->allocator().get() != &allocator) {
    throw InvalidArgument("job", "kernel " + job.binary()->name() + " was loaded by another context than the stream's",
                          "launch it on a stream of the context that loaded it, or load the plan in the stream's");
  }
}

ErrorInfo memory_changed() {
  return {.layer = Layer::Driver,
          .source = "job_plan",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "launch it again",
          .message = "the memory of a transfer changed during the launch"};
}

}  // namespace

FlexStream::FlexStream(unsigned id, CurrentFunction& function, StreamRecoverer& recoverer, StreamChannel& channel,
                       HostWork& host_work)
    : id_(id), function_(function), recoverer_(recoverer), channel_(channel), host_work_(host_work) {}

FlexStream::~FlexStream() = default;

std::uint32_t FlexStream::stream_index() const { return channel_.stream(); }

const std::shared_ptr<FlexAllocator>& FlexStream::allocator() const { return function_.allocator(); }

const std::shared_ptr<ChannelLink>& FlexStream::link() const {
  function_.require_own_process();
  return channel_.link();
}

std::uint64_t FlexStream::Launch(const Job& job, std::span<const Argument> arguments, bool allow_tiled_launch) {
  return Launch(job, arguments, LaunchOptions{.allow_tiled_launch = allow_tiled_launch});
}

namespace {

// Of scratchpads that the job uses.
unsigned slices_of(const Job& job) {
  const DeviceProgram* const program = job.device_program().get();
  return program != nullptr && program->scratchpads_bytes() != 0 ? program->header().slices : 0;
}

// One launch before it is enqueued: bound first, then reserved, then written.
class PreparedLaunch {
 public:
  PreparedLaunch(StreamChannel& channel, FlexAllocator& allocator, Scratchpads& scratchpads,
                 const LaunchRequest& request)
      : request_(request), allocator_(allocator), reservation_(channel) {
    const Job& job = *request.job;
    if (job.binary() != nullptr) {
      check_loaded(job, allocator);
      operands_.emplace(allocator, scratchpads, job, request.arguments, request.options.allow_tiled_launch,
                        reservation_.uses);
      walks_ = operands_->tiling().tiles;
      in_stream_ = job.job_plan().runs_in_stream();
      later_ = in_stream_ || (walks_ > 1 && TileBlocks::can_write(job));
      if (!later_ && walks_ > FlexStream::kMaxTilesAtOnce) refuse_tiles();
    } else if (!request.arguments.empty()) {
      throw InvalidArgument("arguments", "a job of transfers takes no operands", "launch it without");
    }
    reservation_.barrier = request.options.pipeline_barrier;
    reservation_.scratchpads = slices_of(job) != 0;
    if (in_stream_) channel.expect_host_operations();
  }

  void reserve(StreamChannel& channel, std::uint64_t recoveries) {
    const std::uint64_t bytes = request_.job->program_correction_metadata().max_bytes;
    const bool too_large = bytes > CurrentFunction::kCorrectionSlotBytes;
    if (too_large || uses_more_slots(channel)) {
      // Null: the stream's first slot serves.
      slots_ = channel.slots_for(request_.job->program()->allocator(), bytes,
                                 too_large ? SlotMemory::Need::Required : SlotMemory::Need::Optional);
    }
    const WalkSize size = size_of_walk(allocator_, *request_.job);
    if (later_) return channel.reserve_tiles(reservation_, size, walks_, !in_stream_, recoveries);
    channel.reserve(reservation_, size, walks_, recoveries);
  }

  void write(const LaunchSite& site) {
    if (later_) {
      prepare_tiles(site);
    } else {
      write_all(site);
    }
    reservation_.launch->observer = request_.options.observer;
    reservation_.launch->kernel = request_.job->binary().get();
    if (operands_) reservation_.launch->operands = operands_->table();
    reservation_.launch->program = request_.job->program();
    reservation_.launch->slots = std::move(slots_);
    reservation_.launch->keep_alive = request_.options.keep_alive;
  }

  StreamChannel::Reservation* reservation() { return &reservation_; }

 private:
  // The next correction DMA can be moved while a computation runs on another core than core 0, whose hart moves it.
  bool uses_more_slots(const StreamChannel& channel) const {
    const JobPlan& plan = request_.job->job_plan();
    if (!plan.corrects()) return false;
    const std::uint64_t mask = request_.options.core_mask != 0 ? request_.options.core_mask : plan.compute()->core_mask;
    return channel.elides_corrections() || mask > 1 || (mask == 0 && request_.job->worth_all_cores());
  }

  [[noreturn]] void refuse_tiles() const {
    throw InvalidArgument("arguments",
                          std::to_string(walks_) + " tiles are more than a plan with steps of its own takes, " +
                              std::to_string(FlexStream::kMaxTilesAtOnce),
                          "compile the kernel for a larger tile, or launch its standard job");
  }

  void write_all(const LaunchSite& site) {
    Unit* unit = reservation_.units.head;
    for (std::uint32_t tile = 0; tile < walks_; ++tile) {
      unit = write_walk(site, *request_.job, operands_ ? &*operands_ : nullptr, tile, request_.options,
                        reservation_.uses, unit);
    }
    if (unit != nullptr) throw Error(memory_changed());  // records that are not written must not be sent
  }

  // The first one now, unless its HostOperation runs in the stream: what it throws no other tile throws. The last
  // record stands for the tiles behind it.
  void prepare_tiles(const LaunchSite& site) {
    auto blocks =
        std::make_shared<TileBlocks>(*request_.job, *operands_, terms_of(site, *request_.job, request_.options));
    Unit* others = reservation_.units.head;
    if (!in_stream_) {
      Unit* const correction = blocks->corrects() ? std::exchange(others, others->next) : nullptr;
      Unit& compute = *std::exchange(others, others->next);
      blocks->write_next(correction, compute);
    }
    start_block(*others, wire::Opcode::Compute, blocks->next(), blocks->first_step());
    others->kind = Unit::Kind::Tiles;
    others->block.payload.compute = {};
    reservation_.launch->tiles = std::move(blocks);
  }

  const LaunchRequest& request_;
  const FlexAllocator& allocator_;
  StreamChannel::Reservation reservation_;
  std::optional<BoundOperands> operands_;
  std::shared_ptr<SlotMemory> slots_;
  std::uint32_t walks_ = 1;
  bool later_ = false;      // the blocks of all tiles but the first are written when the stream comes to them
  bool in_stream_ = false;  // those of the first one as well, by a thread of the pool
};

}  // namespace

std::uint64_t FlexStream::Launch(const Job& job, std::span<const Argument> arguments, const LaunchOptions& options) {
  function_.require_own_process();
  if (const auto capture = capture_of_this_thread()) {
    const LaunchRequest request{&job, arguments, options};
    return collect(*capture, std::span(&request, 1));
  }
  trace::Span traced(trace::Kind::Launch);
  (void)recover_if_needed();
  // What is looked up from here on is not used on another device: reserve() compares.
  const std::uint64_t recoveries = channel_.recoveries();
  const LaunchRequest request{&job, arguments, options};
  PreparedLaunch launch(channel_, *function_.allocator(), function_.scratchpads(), request);
  clear_scratchpads(slices_of(job), recoveries);
  launch.reserve(channel_, recoveries);
  launch.write(function_.launch_site(channel_.stream()));
  StreamChannel::Reservation* const reservation = launch.reservation();
  const std::uint64_t number = channel_.commit({&reservation, 1});
  note_launched(traced, job, number, 1);
  return number;
}

// What stood there may be of memory that was freed; a program finds zeros, or what another one has left.
void FlexStream::clear_scratchpads(unsigned slices, std::uint64_t recoveries) {
  if (slices == 0) return;
  const auto dirty = function_.scratchpads().to_clear(slices);
  if (!dirty || mutated(HostMutant::ScratchpadsZero)) return;
  const Job fill = Job::fill(dirty->memory, dirty->bytes(), 0, dirty->offset());
  const LaunchRequest request{&fill, {}, {}};
  PreparedLaunch launch(channel_, *function_.allocator(), function_.scratchpads(), request);
  launch.reserve(channel_, recoveries);
  launch.write(function_.launch_site(channel_.stream()));
  StreamChannel::Reservation* const reservation = launch.reservation();
  reservation->scratchpads = true;
  reservation->clears = dirty;
  channel_.commit({&reservation, 1});
}

// Of several launches with one call the trace names the first.
void FlexStream::note_launched(trace::Span& traced, const Job& first, std::uint64_t last, std::size_t count) const {
  auto* const fields = traced.fields();
  if (fields == nullptr) return;
  *fields = {.kind = trace::Kind::Launch,
             .card = channel_.trace_card(),
             .stream = channel_.stream(),
             .launch = last,
             .tile = static_cast<std::uint32_t>(count),
             .text = first.binary() == nullptr ? "transfer" : std::string_view(first.binary()->name())};
}

std::uint64_t FlexStream::Launch(std::span<const LaunchRequest> requests) {
  function_.require_own_process();
  if (const auto capture = capture_of_this_thread()) return collect(*capture, requests);
  trace::Span traced(trace::Kind::Launch);
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  std::vector<std::unique_ptr<PreparedLaunch>> launches;
  std::vector<StreamChannel::Reservation*> reservations;
  unsigned slices = 0;
  for (const LaunchRequest& request : requests) {
    launches.push_back(
        std::make_unique<PreparedLaunch>(channel_, *function_.allocator(), function_.scratchpads(), request));
    reservations.push_back(launches.back()->reservation());
    slices = std::max(slices, slices_of(*request.job));
  }
  clear_scratchpads(slices, recoveries);
  for (const auto& launch : launches) launch->reserve(channel_, recoveries);
  const LaunchSite site = function_.launch_site(channel_.stream());
  for (const auto& launch : launches) launch->write(site);
  const std::uint64_t last = channel_.commit(reservations);
  if (!requests.empty()) note_launched(traced, *requests.front().job, last, requests.size());
  return last;
}

bool FlexStream::recover_if_needed() {
  StreamChannel* const channel = channel_.needing_recovery();
  if (channel == nullptr) return false;
  recoverer_.recover_stream(*channel);
  return true;
}

// What recovers by itself (RecoveryPolicy::Recover) does so here, and waits for what it has sent again.
bool FlexStream::wait(std::uint64_t target, Clock::time_point deadline) {
  trace::Span traced(trace::Kind::Wait);
  if (channel_.ended() >= target) traced.drop();
  if (auto* const fields = traced.fields()) {
    *fields = {.kind = trace::Kind::Wait, .card = channel_.trace_card(), .stream = channel_.stream(), .launch = target};
  }
  bool ended = false;
  do {
    ended = channel_.wait(target, deadline);
  } while (recover_if_needed());
  return ended;
}

bool FlexStream::wait_for_launch(std::uint64_t number, Clock::time_point deadline) {
  while (channel_.ended() < number) {
    if (!wait(number, deadline)) return false;
  }
  return host_work_.wait(*this, deadline);
}

bool FlexStream::launch_ended(std::uint64_t number) const {
  return channel_.ended() >= number && host_work_.idle(*this);
}

void FlexStream::finish_host_work() {
  if (const auto failure = host_work_.take_failure(*this)) std::rethrow_exception(failure);
}

void FlexStream::Synchronize() {
  function_.require_own_process();
  refuse_in_capture("Synchronize()");
  const std::uint64_t recoveries = channel_.recoveries();
  const std::uint64_t target = channel_.launched();
  while (!wait(target, Clock::now() + kLookAround)) {
  }
  while (!host_work_.wait(*this, Clock::now() + kLookAround)) {
  }
  channel_.finish_letting_go();
  if (const auto error = channel_.take_error(recoveries)) throw *error;
  finish_host_work();
}

void FlexStream::Synchronize(Clock::time_point deadline) {
  function_.require_own_process();
  refuse_in_capture("Synchronize()");
  const std::uint64_t recoveries = channel_.recoveries();
  const std::uint64_t target = channel_.launched();
  const auto late = [this](std::string message) {
    return TimeoutError({.layer = Layer::Driver,
                         .source = "stream " + std::to_string(stream_index()),
                         .outcome = wire::Outcome::Timeout,
                         .next_step = "wait again, or Reset() the stream",
                         .message = std::move(message)});
  };
  if (!wait(target, deadline)) {
    throw late("launch " + std::to_string(channel_.ended() + 1) + " of " + std::to_string(target) +
               " had not ended by the deadline");
  }
  if (!host_work_.wait(*this, deadline)) throw late("a copy to the host had not been converted by the deadline");
  channel_.finish_letting_go();
  if (const auto error = channel_.take_error(recoveries)) throw *error;
  finish_host_work();
}

bool FlexStream::Query() {
  function_.require_own_process();
  refuse_in_capture("Query()");
  return look();
}

bool FlexStream::look() {
  function_.require_own_process();
  const std::uint64_t target = channel_.launched();
  if (channel_.ended() < target) {
    channel_.poll();
    (void)recover_if_needed();
  }
  channel_.let_go_of_ended();
  return channel_.ended() >= target && host_work_.idle(*this);
}

void FlexStream::PipelineBarrier() {
  function_.require_own_process();
  if (const auto capture = capture_of_this_thread()) {
    capture->barrier_next = true;
    return;
  }
  (void)recover_if_needed();
  channel_.pipeline_barrier();
}

std::uint64_t FlexStream::launched() const { return channel_.launched(); }

void FlexStream::Reset() {
  function_.require_own_process();
  if (const auto capture = capture_of_this_thread()) (void)AbandonCapture(capture);
  if (auto result = channel_.reset(); !result) throw Error(std::move(result.error()));
}

std::optional<StreamError> FlexStream::error() const {
  function_.require_own_process();
  return channel_.error();
}

}  // namespace svp
