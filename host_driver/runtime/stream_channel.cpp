// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/base/mutants.hpp"
#include "host_driver/base/timeouts.hpp"
#include "host_driver/ras/log.hpp"
#include "host_driver/recovery/busy.hpp"

#include <algorithm>
#include <cstring>

#include "shared/crc32c.hpp"

namespace svp {

using wire::Outcome;
using wire::Status;

namespace {

// Requests handed to the device at a time: as many as one stream can have outstanding.
constexpr std::size_t kBatch = wire::kStreamCredits;

bool means_dead(Outcome outcome) { return outcome == Outcome::Lost || outcome == Outcome::Indeterminate; }

}  // namespace

StreamChannel::StreamChannel(std::shared_ptr<Device> device, HostMemory& memory, StagingEngine& staging,
                             std::uint32_t stream, ChannelRules rules)
    : staging_(&staging), rules_(rules), stream_(stream), device_(std::move(device)), corrections_(memory) {
  set_chunk_units_aside(staging.chunks());
  device_->set_credit_sink(stream, this);
}

void StreamChannel::set_chunk_units_aside(std::size_t chunks) {
  std::size_t have = 0;
  for (const Unit* unit = chunk_units_.head; unit != nullptr; unit = unit->next) ++have;
  for (; have < chunks; ++have) chunk_units_.push(units_.take());
}

StreamChannel::~StreamChannel() = default;

void StreamChannel::close() {
  {
    const std::lock_guard guard(mutex_);
    set_activity(StreamActivity::Closed);
  }
  staging_->cancel_requests(*this);
}

void StreamChannel::end_at_close() {
  const Locked lock(*this);
  drop_waiting();
  drop_kept();
}

// ---- launching ------------------------------------------------------------------------------------------------------

StreamChannel::Reservation::~Reservation() {
  if (launch == nullptr) return;
  uses.let_go();
  launch->let_go();
  const std::lock_guard guard(channel_.mutex_);
  while (!units.empty()) channel_.drop_unit(*units.pop());
  channel_.launch_records_.give(launch);
  if (--channel_.writing_ == 0) channel_.quiet_.notify_all();
}

namespace {

ErrorInfo not_now(std::uint32_t stream, const char* state, const char* next, bool recoverable = true) {
  const std::string name = "stream " + std::to_string(stream);
  return {.layer = Layer::Driver,
          .source = name,
          .outcome = Outcome::Rejected,
          .recoverable = recoverable,
          .next_step = next,
          .message = name + state};
}

}  // namespace

void StreamChannel::check_usable() const {
  const StreamActivity activity = activity_.get();
  if (activity == StreamActivity::Closed) throw Error(not_now(stream(), " is closed", "open another device", false));
  if (is_recovering(activity))
    throw Error(not_now(stream(), " is being recovered", "launch again when recover() has returned"));
  if (failure_ && !keeps_launches()) {
    StreamError error = current_error();
    ErrorInfo info = error.info();
    info.message = "stream " + std::to_string(stream()) + " is poisoned since: " + info.message;
    throw StreamError(std::move(info), error.failure());
  }
  if (is_reset_under_way(activity) && !keeps_launches())
    throw Error(not_now(stream(), " is being reset", "launch again when Reset() has returned"));
  if (rules_.first_failure == nullptr) return;
  if (const auto first = rules_.first_failure->get()) {
    ErrorInfo info = first->info();
    info.message = "stream " + std::to_string(stream()) + " is stopped (fail fast), because: " + info.message;
    info.next_step = "recover()";
    throw StreamError(std::move(info), first->failure());
  }
}

void StreamChannel::reserve(Reservation& reservation, const WalkSize& walk, std::size_t walks,
                            std::uint64_t recoveries) {
  const std::lock_guard guard(mutex_);
  check_usable();
  if (recoveries != this->recoveries()) {
    throw Error(not_now(stream(), " was recovered while this was launched",
                        "allocate and load again what the recovery has cleared, then launch again"));
  }
  reservation.launch = launch_records_.take();
  ++writing_;
  reservation.count = walk.blocks * walks;
  for (std::size_t i = 0; i < reservation.count; ++i) {
    Unit* unit = units_.take();
    unit->correction = {};
    reservation.units.push(unit);
    if (i % walk.blocks == walk.correction_at) unit->correction = corrections_->take(walk.correction_bytes);
  }
}

std::uint64_t StreamChannel::commit(std::span<Reservation* const> reservations) {
  const Locked lock(*this);
  check_usable();
  for (Reservation* reservation : reservations) enqueue(*reservation);
  pump();
  return launched_;
}

void StreamChannel::enqueue(Reservation& reservation) {
  LaunchState* launch = std::exchange(reservation.launch, nullptr);
  if (--writing_ == 0) quiet_.notify_all();
  launch->number = ++launched_;
  launch->left = launch->total = reservation.count;
  launch->outcome = Outcome::Ok;
  launch->uses.swap(reservation.uses);
  launches_.push(launch);
  for (Unit* unit = reservation.units.head; unit != nullptr; unit = unit->next) unit->launch = launch;
  // Behind what is kept already, and sent with it.
  (keeps_launches() ? launch->kept : pending_).append(reservation.units);
  if (launch->left == 0) retire_launches();
}

std::uint64_t StreamChannel::launched() const {
  const std::lock_guard guard(mutex_);
  return launched_;
}

// ---- sending --------------------------------------------------------------------------------------------------------

void StreamChannel::pump() {
  while (!stopped()) {
    if (!ready_.empty()) {
      if (!submit_from(ready_)) return;
    } else if (pending_.empty()) {
      return;
    } else if (pending_.head->kind == Unit::Kind::Staged) {
      return start_staged(*pending_.head);  // the worker goes on from here
    } else if (!submit_from(pending_)) {
      return;
    }
  }
}

// Sends blocks from the front, up to the next staged transfer. False: the card took fewer, or is gone.
bool StreamChannel::submit_from(LinkedList<Unit>& list) {
  std::array<ControlBlockRequest, kBatch> requests;
  std::size_t count = 0;
  for (Unit* unit = list.head; unit != nullptr && unit->kind != Unit::Kind::Staged && count < kBatch;
       unit = unit->next) {
    if (rules_.checksums) seal_transfer(*unit);
    requests[count++] = {&unit->block, this};
  }
  Expected<std::size_t> taken = 0;
  try {
    taken = device_->submit(stream(), std::span(requests.data(), count));
  } catch (const std::bad_alloc&) {
    // Refused, and no memory to say why: the end of a reset comes by on_credits(), the end of the card by completions.
    return false;
  }
  if (!taken) {
    note_refused(taken.error());
    return false;
  }
  for (std::size_t i = 0; i < *taken; ++i) in_flight_.push(list.pop());
  return *taken == count;
}

// ---- checksums ------------------------------------------------------------------------------------------------------

namespace {

// The end of a transfer that is host memory; null when there is none.
const wire::Endpoint* host_end(const wire::ControlBlock& block) {
  if (block.header.opcode != wire::Opcode::Dma) return nullptr;
  const wire::DmaPayload& dma = block.payload.dma;
  if (dma.source.kind == wire::EndpointKind::HostMemory) return &dma.source;
  return dma.destination.kind == wire::EndpointKind::HostMemory ? &dma.destination : nullptr;
}

std::uint32_t sum_of_host(const Device& device, const wire::Endpoint& end, std::uint64_t bytes) {
  return wire::crc32c(0, device.host_memory().data() + (end.offset - device.host_memory_offset()), bytes);
}

}  // namespace

// Once: a block that the card did not take comes by again.
void StreamChannel::seal_transfer(Unit& unit) const {
  wire::DmaPayload& dma = unit.block.payload.dma;
  const wire::Endpoint* host = host_end(unit.block);
  if (host == nullptr || (dma.flags & wire::kDmaChecksum) != 0) return;
  dma.flags |= wire::kDmaChecksum;
  if (host == &dma.source) dma.checksum = sum_of_host(*device_, *host, dma.bytes);
}

// What came out of the card must be what the card says it sent.
wire::Completion StreamChannel::verified(const Unit& unit, const wire::Completion& completion) const {
  wire::Completion end = completion;
  const wire::DmaPayload& dma = unit.block.payload.dma;
  const wire::Endpoint* host = host_end(unit.block);
  if (completion.outcome != Outcome::Ok || host != &dma.destination) return end;
  if (sum_of_host(*device_, *host, dma.bytes) == completion.checksum || mutated(HostMutant::ReadChecksum)) return end;
  end.outcome = Outcome::Fault;
  end.status = Status::ChecksumMismatch;
  end.field = wire::Field::DmaChecksum;
  return end;
}

void StreamChannel::on_credits(std::uint32_t) noexcept {
  const std::lock_guard guard(mutex_);
  pump();
}

// ---- staging --------------------------------------------------------------------------------------------------------

void StreamChannel::start_staged(Unit& unit) {
  StagedTransfer& transfer = unit.staged;
  // The caller's memory may be what an earlier transfer of this stream is still being copied to.
  if (transfer.stage.get() != TransferStage::Waiting || (transfer.to_device && drains_ != 0)) return;
  ras::unlogged(stream(), transfer.stage.change(TransferStage::Filling));
  request_chunks(transfer);
}

// Two at most: one is filled while the other one is moved.
void StreamChannel::request_chunks(const StagedTransfer& transfer) {
  const std::uint64_t left = transfer.bytes - transfer.assigned;
  if (left != 0) staging_->request(*this);
  if (left > staging_->chunk_bytes()) staging_->request(*this);
}

namespace {

bool is_filling(const Unit& unit) {
  return unit.kind == Unit::Kind::Staged && unit.staged.stage.get() == TransferStage::Filling;
}

}  // namespace

// Whoever stopped the stream has cancelled its requests for chunks, and completions that came meanwhile pumped nothing.
void StreamChannel::go_on() {
  if (stopped()) {
    if (failure_ && in_flight_.empty()) tell_failure();
    return;
  }
  const Unit* head = pending_.head;
  if (head != nullptr && is_filling(*head)) request_chunks(head->staged);
  pump();
}

Unit& StreamChannel::chunk_unit(Unit& owner, StagingChunk& chunk, std::uint64_t at) {
  Unit& unit = *chunk_units_.pop();
  unit.kind = Unit::Kind::Chunk;
  unit.launch = owner.launch;
  unit.tile = owner.tile;
  unit.step = owner.step;
  unit.correction = {};
  unit.chunk = &chunk;
  unit.owner = &owner;
  unit.block.header = owner.block.header;
  unit.block.payload.dma = owner.block.payload.dma;
  wire::DmaPayload& dma = unit.block.payload.dma;
  (owner.staged.to_device ? dma.destination : dma.source).offset += at;
  (owner.staged.to_device ? dma.source : dma.destination).offset = chunk.buffer.window_offset();
  dma.bytes = chunk.bytes;
  return unit;
}

bool StreamChannel::on_chunk(StagingChunk& chunk) noexcept {
  std::unique_lock lock(mutex_);
  const DriverCall marked = device_->driver_call();
  Unit* owner = pending_.head;
  if (stopped() || owner == nullptr || !is_filling(*owner)) return false;
  StagedTransfer& transfer = owner->staged;
  const std::uint64_t at = transfer.assigned;
  if (at == transfer.bytes) return false;
  chunk.bytes = std::min<std::uint64_t>(transfer.bytes - at, staging_->chunk_bytes());
  chunk.host = transfer.host + at;
  chunk.transfer = owner;
  transfer.assigned += chunk.bytes;
  ++transfer.chunks;
  ++chunks_;
  if (transfer.to_device) {
    lock.unlock();
    std::memcpy(chunk.buffer.data(), chunk.host, chunk.bytes);
    lock.lock();
    const bool detached = transfer.stage.get() == TransferStage::Detached;
    if (stopped() || detached) {
      if (!detached) transfer.assigned = at;  // the last one: chunks are filled one by one
      --transfer.chunks;
      --chunks_;
      finish_staged(*owner);
      quiet_.notify_all();
      const auto device = device_;
      lock.unlock();
      device->wake_waiters();
      return false;
    }
  }
  ready_.push(&chunk_unit(*owner, chunk, at));
  transfer.submitted += chunk.bytes;
  if (transfer.submitted == transfer.bytes) {
    pending_.pop();
    ras::unlogged(stream(), transfer.stage.change(TransferStage::Detached));
  } else if (transfer.assigned < transfer.bytes) {
    staging_->request(*this);
  }
  pump();
  return true;
}

void StreamChannel::on_drain(StagingChunk& chunk) noexcept {
  std::memcpy(chunk.host, chunk.buffer.data(), chunk.bytes);
  std::shared_ptr<Device> device;
  {
    const std::lock_guard guard(mutex_);
    device = device_;
    drain_ended(chunk);
    if (drains_ == 0) pump();
    quiet_.notify_all();
  }
  device->wake_waiters();
}

void StreamChannel::on_drain_dropped(StagingChunk& chunk) noexcept {
  const std::lock_guard guard(mutex_);
  // The card has moved them; part of them, or all, may have reached the caller.
  wire::Completion& end = static_cast<Unit*>(chunk.transfer)->staged.end;
  if (end.outcome == Outcome::Ok) end.outcome = Outcome::Indeterminate;
  drain_ended(chunk);
}

void StreamChannel::drain_ended(StagingChunk& chunk) {
  Unit& owner = *static_cast<Unit*>(chunk.transfer);
  --owner.staged.chunks;
  --chunks_;
  --drains_;
  finish_staged(owner);
}

void StreamChannel::chunk_ended(Unit& unit, const wire::Completion& completion) {
  Unit& owner = *unit.owner;
  wire::Completion& end = owner.staged.end;
  if (end.start_time == 0) {
    end.start_time = completion.start_time;
    end.sequence = completion.sequence;
  }
  end.end_time = completion.end_time;
  end.bytes += completion.bytes;
  if (completion.outcome != Outcome::Ok && end.outcome == Outcome::Ok) {
    end.outcome = completion.outcome;
    end.status = completion.status;
    end.field = completion.field;
    end.fault = completion.fault;
  }
  StagingChunk& chunk = *unit.chunk;
  chunk_units_.push(&unit);
  if (completion.outcome == Outcome::Ok && !owner.staged.to_device) {
    ++drains_;
    return staging_->drain(chunk);
  }
  --owner.staged.chunks;
  --chunks_;
  staging_->release(chunk);
  finish_staged(owner);
}

void StreamChannel::finish_staged(Unit& owner) {
  if (owner.staged.stage.get() != TransferStage::Detached || owner.staged.chunks != 0) return;
  const wire::Completion end = owner.staged.end;
  end_unit(owner, end);
}

// ---- ending ---------------------------------------------------------------------------------------------------------

wire::Completion StreamChannel::ending(Outcome outcome, Status status) const {
  wire::Completion completion{};
  completion.outcome = outcome;
  completion.status = status;
  completion.stream = stream();
  return completion;
}

void StreamChannel::on_completion(const wire::Completion& reported) noexcept {
  const std::lock_guard guard(mutex_);
  const DriverCall marked = device_->driver_call();
  end_in_flight(reported);
  if (!ended_launches_.empty()) device_->after_delivery(*this);
}

void StreamChannel::end_in_flight(const wire::Completion& reported) {
  Unit& unit = *in_flight_.pop();
  const wire::Completion completion = rules_.checksums ? verified(unit, reported) : reported;
  if (completion.outcome != Outcome::Ok) note_failure(unit, completion);
  if (unit.kind == Unit::Kind::Chunk) {
    chunk_ended(unit, completion);
  } else {
    end_unit(unit, completion);
  }
  if (!in_flight_.empty()) return;
  if (failure_) {
    drop_waiting();
    tell_failure();
  } else {
    pump();
  }
}

// With nothing in flight any more.
void StreamChannel::tell_failure() {
  const StreamActivity activity = activity_.get();
  if (is_recovering(activity)) return;
  if (rules_.first_failure != nullptr) note_first_failure();
  if (rules_.retry_aborted && activity != StreamActivity::Closed) set_condition(recovery_due);
}

void StreamChannel::note_first_failure() {
  try {
    rules_.first_failure->note(current_error());
  } catch (const std::bad_alloc&) {
    StreamFailure bare = {};
    bare.stream = failure_->stream;
    bare.launch = failure_->launch;
    bare.outcome = failure_->outcome;
    bare.status = failure_->status;
    rules_.first_failure->note_bare(std::move(bare));
  }
}

StreamError StreamChannel::current_error() const {
  return StreamError(card_error_ ? *card_error_ : explain(*failure_), *failure_);
}

void StreamChannel::note_failure(const Unit& unit, const wire::Completion& completion) {
  if (means_dead(completion.outcome)) set_condition(after_card_gone);
  // The first error wins. What the owner's own reset ends is no error; what a recovery ends is, to who waits for it.
  const StreamActivity activity = activity_.get();
  if (failure_ || (is_reset_under_way(activity) && activity != StreamActivity::QueueReset)) return;
  try {
    failure_ = describe_failure(unit.block, unit.windows, completion, unit.launch->kernel);
  } catch (const std::bad_alloc&) {
    failure_ = bare_failure(unit.block, completion);  // told without its texts
  }
  failure_->stream = stream();
  failure_->launch = unit.launch->number;
  failure_->tile = unit.tile;
  failure_->step = unit.step;
  set_condition(after_error);
  record_failure(nullptr);
}

// A record that there is no memory for is not written; the error itself is told.
void StreamChannel::record_failure(const ErrorInfo* error) const try {
  ras::Where where = device_ != nullptr ? device_->where() : ras::Where{};
  where.stream = stream();
  if (failure_->launch != 0) where.launch = failure_->launch;
  ras::report(error != nullptr ? *error : explain(*failure_), where);
} catch (const std::bad_alloc&) {
}

// What the device does not take now is not lost: of a reset that somebody else has begun on_credits() tells the end.
void StreamChannel::note_refused(const ErrorInfo& why) {
  if (refused_as_busy(why)) return;
  if (device_->failure()) return note_card_gone(why);
  note_unusable(why);
}

void StreamChannel::note_card_gone(const ErrorInfo& why) {
  set_condition(after_card_gone);
  note_unusable(why);
}

void StreamChannel::note_unusable(const ErrorInfo& why) {
  if (!failure_) {
    failure_.emplace();
    failure_->stream = stream();
    failure_->outcome = gone() ? Outcome::Lost : why.outcome;
    failure_->job = "none";
    set_condition(after_error);
    try {
      card_error_ = why;
    } catch (const std::bad_alloc&) {
      card_error_.reset();
    }
    record_failure(&why);
  }
  if (!in_flight_.empty()) return;
  drop_waiting();
  tell_failure();
}

void StreamChannel::drop_unit(Unit& unit) {
  if (unit.correction.bytes != nullptr) corrections_->give(unit.correction);
  units_.give(&unit);
}

// Between a source's end and the reset that makes the stream work again, by RecoveryPolicy::Recover.
bool StreamChannel::keeps_launches() const {
  if (!rules_.retry_aborted || gone()) return false;
  const StreamActivity activity = activity_.get();
  return activity == StreamActivity::Retrying || (activity == StreamActivity::Open && failure_.has_value());
}

// Only a launch of which nothing has started may be sent again, and only as a whole.
bool StreamChannel::keeps(const Unit& unit, const wire::Completion& completion) const {
  const StreamActivity activity = activity_.get();
  const bool goes_on = activity == StreamActivity::Open || activity == StreamActivity::Retrying;
  return rules_.retry_aborted && goes_on && !gone() && completion.outcome == Outcome::Aborted &&
         completion.bytes == 0 && unit.launch->left == unit.launch->total;
}

void StreamChannel::end_unit(Unit& unit, const wire::Completion& completion) {
  if (keeps(unit, completion)) return unit.launch->kept.push(&unit);
  if (!unit.launch->kept.empty()) drop_kept();
  finish_unit(unit, completion);
}

// They end as what they are: removed before they started.
void StreamChannel::drop_kept() {
  LinkedList<Unit> units;
  for (LaunchState* launch = launches_.head; launch != nullptr; launch = launch->next) units.append(launch->kept);
  while (!units.empty()) finish_unit(*units.pop(), ending(Outcome::Aborted, Status::StreamPoisoned));
}

void StreamChannel::send_kept_again() {
  for (LaunchState* launch = launches_.head; launch != nullptr; launch = launch->next) {
    for (Unit* unit = launch->kept.head; unit != nullptr; unit = unit->next) {
      if (unit->kind != Unit::Kind::Staged) continue;
      StagedTransfer& transfer = unit->staged;
      ras::unlogged(stream(), transfer.stage.change(TransferStage::Waiting));
      transfer.assigned = transfer.submitted = 0;
      transfer.end = {};
    }
    pending_.append(launch->kept);
  }
}

// What ends now is ended by a recovery that all of its streams are part of.
bool StreamChannel::is_ended_by_recovery() const {
  return is_recovering(activity_.get()) || activity_.get() == StreamActivity::QueueReset;
}

void StreamChannel::finish_unit(Unit& unit, const wire::Completion& completion) {
  if (is_ended_by_recovery() && completion.outcome != Outcome::Ok) note_failure(unit, completion);
  LaunchState& launch = *unit.launch;
  if (launch.observer != nullptr) {
    const DriverCall not_the_driver(nullptr);
    launch.observer->on_block({.launch = launch.number,
                               .stream = stream(),
                               .tile = unit.tile,
                               .step = unit.step,
                               .opcode = unit.block.header.opcode,
                               .outcome = completion.outcome,
                               .status = completion.status,
                               .sequence = completion.sequence,
                               .start_time = completion.start_time,
                               .end_time = completion.end_time,
                               .bytes = completion.bytes});
  }
  if (launch.outcome == Outcome::Ok) launch.outcome = completion.outcome;
  drop_unit(unit);
  if (--launch.left == 0) retire_launches();
}

void StreamChannel::retire_launches() {
  while (!launches_.empty() && launches_.head->left == 0) {
    LaunchState* launch = launches_.pop();
    if (launch->observer != nullptr) {
      const DriverCall not_the_driver(nullptr);
      launch->observer->on_launch_ended(launch->number, launch->outcome);
    }
    if (is_ended_by_recovery() && launch->outcome != Outcome::Ok) {
      ++(launch->outcome == Outcome::Aborted ? ended_by_recovery_.aborted : ended_by_recovery_.lost);
    }
    const std::uint64_t number = launch->number;
    launch->uses.let_go();  // runs no code of the caller's: the memory can be had at once, whoever ended the launch
    ended_launches_.push(launch);
    any_ended_.store(true, std::memory_order_relaxed);
    ended_.store(number, std::memory_order_release);
  }
}

namespace {

thread_local unsigned letting_go = 0;  // this thread runs destructors of ended launches

}  // namespace

void StreamChannel::let_go_of_ended() noexcept {
  if (!any_ended_.load(std::memory_order_acquire) || Device::delivering()) return;
  LinkedList<LaunchState> ended;
  {
    const std::lock_guard guard(mutex_);
    if (ended_launches_.empty()) return;
    ended = std::exchange(ended_launches_, {});
    any_ended_.store(false, std::memory_order_relaxed);
    ++letting_go_;
  }
  ++letting_go;
  const DriverCall not_the_driver(nullptr);
  for (LaunchState* launch = ended.head; launch != nullptr; launch = launch->next) launch->let_go();
  --letting_go;
  const std::lock_guard guard(mutex_);
  while (!ended.empty()) launch_records_.give(ended.pop());
  if (--letting_go_ == 0) quiet_.notify_all();
}

void StreamChannel::finish_letting_go() noexcept {
  let_go_of_ended();
  if (letting_go != 0) return;
  std::unique_lock lock(mutex_);
  if (letting_go_ != 0) quiet_.wait_for(lock, kCopiesAfterReset, [&] { return letting_go_ == 0; });
}

// Ends everything that was never sent. In order: called when nothing is in flight any more.
void StreamChannel::drop_waiting() {
  const bool lost = gone();
  const Outcome outcome = lost ? Outcome::Lost : Outcome::Aborted;
  const wire::Completion never = ending(outcome, lost ? Status::None : Status::StreamPoisoned);
  LinkedList<Unit> chunks = std::exchange(ready_, {});
  while (!chunks.empty()) chunk_ended(*chunks.pop(), never);
  LinkedList<Unit> waiting = std::exchange(pending_, {});
  while (!waiting.empty()) {
    Unit& unit = *waiting.pop();
    if (unit.kind != Unit::Kind::Staged) {
      end_unit(unit, never);
      continue;
    }
    wire::Completion& end = unit.staged.end;
    if (end.outcome == Outcome::Ok) {
      // Part of it may have been moved: then it was stopped, not prevented.
      end.outcome = end.bytes != 0 && !lost ? Outcome::Fault : outcome;
      end.status = end.bytes != 0 && !lost ? Status::Stopped : never.status;
    }
    ras::unlogged(stream(), unit.staged.stage.change(TransferStage::Detached));
    finish_staged(unit);
  }
}

// ---- waiting, resetting ---------------------------------------------------------------------------------------------

bool StreamChannel::wait(std::uint64_t number, TimePoint deadline) {
  const auto device = [&] {
    const std::lock_guard guard(mutex_);
    return device_;
  }();
  switch (device->wait_until([&] { return ended() >= number || needs_recovery(); }, deadline)) {
    case WaitStatus::Done: return true;
    case WaitStatus::TimedOut: return false;
    case WaitStatus::Refused:
      throw Error({.layer = Layer::Driver,
                   .source = "stream " + std::to_string(stream()),
                   .next_step = "wait on another thread",
                   .message = "a completion handler tried to wait for its own stream"});
    case WaitStatus::Failed: break;
  }
  // The card is gone: nobody else may tell what never reached it.
  Locked lock(*this);
  if (ended() < number && in_flight_.empty() && device == device_) {
    ErrorInfo gone{.layer = Layer::Emulator,
                   .source = "card",
                   .outcome = Outcome::Lost,
                   .recoverable = false,
                   .next_step = "start a new card",
                   .message = "the card is gone"};
    note_card_gone(device->failure().value_or(std::move(gone)));
  }
  return quiet_.wait_for(lock, kCopiesAfterDeath, [&] { return ended() >= number || needs_recovery(); });
}

void StreamChannel::poll() {
  const auto device = [&] {
    const std::lock_guard guard(mutex_);
    return device_;
  }();
  device->poll();
}

std::optional<StreamError> StreamChannel::error() const {
  const std::lock_guard guard(mutex_);
  if (failure_) return current_error();
  return unreported_;
}

std::optional<StreamError> StreamChannel::take_error(std::uint64_t since) {
  const std::lock_guard guard(mutex_);
  if (unreported_) return std::exchange(unreported_, std::nullopt);
  if (failure_) return current_error();
  return since != recoveries() ? last_error_ : std::nullopt;
}

Expected<void> StreamChannel::begin_reset(StreamActivity kind, std::optional<TimePoint> deadline) {
  std::unique_lock lock(mutex_);
  const auto free_for_a_reset = [&] { return !is_reset_under_way(activity_.get()) || is_recovering(activity_.get()); };
  if (deadline) quiet_.wait_until(lock, *deadline, free_for_a_reset);
  const StreamActivity activity = activity_.get();
  if (activity == StreamActivity::Closed)
    return std::unexpected(not_now(stream(), " is closed", "open another device", false));
  if (is_recovering(activity))
    return std::unexpected(not_now(stream(), " is being recovered", "wait until recover() has returned"));
  if (is_reset_under_way(activity)) {
    ErrorInfo busy = not_now(stream(), " is being reset already", "wait for the other Reset() to return");
    busy.status = Status::Busy;
    return std::unexpected(std::move(busy));
  }
  set_activity(kind);
  return {};
}

void StreamChannel::leave_reset() {
  set_activity(after_reset(activity_.get()));
  quiet_.notify_all();
}

void StreamChannel::cancel_reset() {
  const Locked lock(*this);
  leave_reset();
  go_on();
}

// The card has reset the stream, or has not.
Expected<void> StreamChannel::end_reset(std::unique_lock<std::mutex>& lock, const Expected<void>& result,
                                        StreamActivity kind) {
  const bool retry = kind == StreamActivity::Retrying;
  if (in_flight_.empty()) drop_waiting();
  if (!retry || !result) drop_kept();
  quiet_.wait_for(lock, kCopiesAfterReset, [&] { return chunks_ == 0; });
  if (!result) {
    note_card_gone(result.error());
    leave_reset();
    return result;
  }
  leave_reset();
  if (retry && failure_ && !unreported_) unreported_ = current_error();
  if (kind == StreamActivity::Resetting) unreported_.reset();  // the owner has reset the stream: that is over
  set_usable();
  if (retry) send_kept_again();
  pump();
  return {};
}

void StreamChannel::set_usable() {
  failure_.reset();
  card_error_.reset();
  set_condition([](StreamCondition now) {
    return now == StreamCondition::Usable ? std::nullopt : std::optional(StreamCondition::Usable);
  });
}

Expected<void> StreamChannel::reset_as(StreamActivity kind, std::optional<TimePoint> deadline) {
  if (auto begun = begin_reset(kind, deadline); !begun) return begun;
  staging_->cancel_requests(*this);
  const auto device = [&] {
    const std::lock_guard guard(mutex_);
    return device_;
  }();
  const auto result = device->reset_stream(stream());
  if (!result && refused_as_busy(result.error())) {
    cancel_reset();
    return result;
  }
  auto ended = [&] {
    Locked lock(*this);
    return end_reset(lock, result, kind);
  }();
  device->wake_waiters();  // the host itself ended what the card never had
  return ended;
}

}  // namespace svp
