// SPDX-License-Identifier: Apache-2.0
#include "host_driver/exec/stream_channel.hpp"
#include "host_driver/ras/log.hpp"
#include "shared/timeouts.hpp"

#include <algorithm>
#include <cstring>

namespace flex {

using wire::Outcome;
using wire::Status;

namespace {

// Requests handed to the device at a time: as many as one stream can have outstanding.
constexpr std::size_t kBatch = wire::kStreamCredits;

bool means_dead(Outcome outcome) { return outcome == Outcome::Lost || outcome == Outcome::Indeterminate; }

}  // namespace

StreamChannel::StreamChannel(Device& device, HostMemory& memory, StagingEngine& staging, std::uint32_t stream)
    : device_(device), staging_(staging), stream_(stream), corrections_(memory) {
  device_.set_credit_sink(stream_, this);
}

StreamChannel::~StreamChannel() = default;

void StreamChannel::close() {
  {
    const std::lock_guard guard(mutex_);
    closed_ = true;
  }
  staging_.cancel_requests(*this);
}

// ---- launching ------------------------------------------------------------------------------------------------------

StreamChannel::Reservation::~Reservation() {
  if (launch == nullptr) return;
  const std::lock_guard guard(channel_.mutex_);
  while (!units.empty()) channel_.drop_unit(*units.pop());
  launch->let_go();
  channel_.launch_records_.give(launch);
}

void StreamChannel::check_usable() const {
  if (failure_) {
    ErrorInfo info = card_error_ ? *card_error_ : explain(*failure_);
    info.message = "stream " + std::to_string(stream_) + " is poisoned since: " + info.message;
    throw StreamError(std::move(info), *failure_);
  }
  if (paused_ || closed_) {
    throw Error({.layer = Layer::Driver,
                 .culprit = "stream " + std::to_string(stream_),
                 .recoverable = !closed_,
                 .next_step = closed_ ? "open another device" : "launch again when Reset() has returned",
                 .message = "stream " + std::to_string(stream_) + (closed_ ? " is closed" : " is being reset")});
  }
}

void StreamChannel::reserve(Reservation& reservation, const WalkSize& walk, std::size_t walks) {
  const std::lock_guard guard(mutex_);
  check_usable();
  reservation.launch = launch_records_.take();
  reservation.count = walk.blocks * walks;
  for (std::size_t i = 0; i < reservation.count; ++i) {
    Unit* unit = units_.take();
    unit->correction = {};
    reservation.units.push(unit);
    if (i % walk.blocks == walk.correction_at) unit->correction = corrections_.take(walk.correction_bytes);
  }
}

std::uint64_t StreamChannel::commit(Reservation& reservation) {
  const std::lock_guard guard(mutex_);
  check_usable();
  LaunchState* launch = std::exchange(reservation.launch, nullptr);
  launch->number = ++launched_;
  launch->left = reservation.count;
  launch->outcome = Outcome::Ok;
  launches_.push(launch);
  for (Unit* unit = reservation.units.head; unit != nullptr; unit = unit->next) unit->launch = launch;
  pending_.append(reservation.units);
  if (launch->left == 0) retire_launches();
  pump();
  return launched_;
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
    requests[count++] = {&unit->block, this};
  }
  const auto taken = device_.submit(stream_, std::span(requests.data(), count));
  if (!taken) {
    note_card_gone(taken.error());
    return false;
  }
  for (std::size_t i = 0; i < *taken; ++i) in_flight_.push(list.pop());
  return *taken == count;
}

void StreamChannel::on_credits(std::uint32_t) noexcept {
  const std::lock_guard guard(mutex_);
  pump();
}

// ---- staging --------------------------------------------------------------------------------------------------------

void StreamChannel::start_staged(Unit& unit) {
  StagedTransfer& transfer = unit.staged;
  // The caller's memory may be what an earlier transfer of this stream is still being copied to.
  if (transfer.started || (transfer.to_device && drains_ != 0)) return;
  transfer.started = true;
  staging_.request(*this);
  if (transfer.bytes > staging_.chunk_bytes()) staging_.request(*this);
}

Unit& StreamChannel::chunk_unit(Unit& owner, StagingChunk& chunk, std::uint64_t at) {
  Unit& unit = *units_.take();
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
  Unit* owner = pending_.head;
  if (stopped() || owner == nullptr || owner->kind != Unit::Kind::Staged || !owner->staged.started) return false;
  StagedTransfer& transfer = owner->staged;
  const std::uint64_t at = transfer.assigned;
  if (at == transfer.bytes) return false;
  chunk.bytes = std::min<std::uint64_t>(transfer.bytes - at, staging_.chunk_bytes());
  chunk.host = transfer.host + at;
  chunk.transfer = owner;
  transfer.assigned += chunk.bytes;
  ++transfer.chunks;
  ++chunks_;
  if (transfer.to_device) {
    lock.unlock();
    std::memcpy(chunk.buffer.data(), chunk.host, chunk.bytes);
    lock.lock();
    if (stopped() || transfer.detached) {
      --transfer.chunks;
      --chunks_;
      finish_staged(*owner);
      quiet_.notify_all();
      lock.unlock();
      device_.wake_waiters();
      return false;
    }
  }
  ready_.push(&chunk_unit(*owner, chunk, at));
  transfer.submitted += chunk.bytes;
  if (transfer.submitted == transfer.bytes) {
    pending_.pop();
    transfer.detached = true;
  } else if (transfer.assigned < transfer.bytes) {
    staging_.request(*this);
  }
  pump();
  return true;
}

void StreamChannel::on_drain(StagingChunk& chunk) noexcept {
  std::memcpy(chunk.host, chunk.buffer.data(), chunk.bytes);
  {
    const std::lock_guard guard(mutex_);
    Unit& owner = *static_cast<Unit*>(chunk.transfer);
    --owner.staged.chunks;
    --chunks_;
    --drains_;
    finish_staged(owner);
    if (drains_ == 0) pump();
    quiet_.notify_all();
  }
  device_.wake_waiters();
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
  units_.give(&unit);
  if (completion.outcome == Outcome::Ok && !owner.staged.to_device) {
    ++drains_;
    return staging_.drain(chunk);
  }
  --owner.staged.chunks;
  --chunks_;
  staging_.release(chunk);
  finish_staged(owner);
}

void StreamChannel::finish_staged(Unit& owner) {
  if (!owner.staged.detached || owner.staged.chunks != 0) return;
  const wire::Completion end = owner.staged.end;
  end_unit(owner, end);
}

// ---- ending ---------------------------------------------------------------------------------------------------------

wire::Completion StreamChannel::ending(Outcome outcome, Status status) const {
  wire::Completion completion{};
  completion.outcome = outcome;
  completion.status = status;
  completion.stream = stream_;
  return completion;
}

void StreamChannel::on_completion(const wire::Completion& completion) noexcept {
  const std::lock_guard guard(mutex_);
  Unit& unit = *in_flight_.pop();
  if (completion.outcome != Outcome::Ok) note_failure(unit, completion);
  if (unit.kind == Unit::Kind::Chunk) {
    chunk_ended(unit, completion);
  } else {
    end_unit(unit, completion);
  }
  if (!in_flight_.empty()) return;
  if (failure_) {
    drop_waiting();
  } else {
    pump();
  }
}

void StreamChannel::note_failure(const Unit& unit, const wire::Completion& completion) {
  if (means_dead(completion.outcome)) card_gone_ = true;
  if (failure_ || paused_) return;  // the first error wins; what a reset ends is no error
  failure_ = describe_failure(unit.block, unit.windows, completion, unit.launch->kernel);
  failure_->stream = stream_;
  failure_->launch = unit.launch->number;
  failure_->tile = unit.tile;
  failure_->step = unit.step;
  record_failure(explain(*failure_));
}

void StreamChannel::record_failure(const ErrorInfo& error) const {
  ras::Where where = device_.where();
  where.stream = stream_;
  if (failure_->launch != 0) where.launch = failure_->launch;
  ras::report(error, where);
}

void StreamChannel::note_card_gone(const ErrorInfo& why) {
  card_gone_ = true;
  if (!failure_) {
    failure_.emplace();
    failure_->stream = stream_;
    failure_->outcome = Outcome::Lost;
    failure_->job = "none";
    card_error_ = why;
    record_failure(why);
  }
  if (in_flight_.empty()) drop_waiting();
}

void StreamChannel::drop_unit(Unit& unit) {
  if (unit.correction.bytes != nullptr) corrections_.give(unit.correction);
  units_.give(&unit);
}

void StreamChannel::end_unit(Unit& unit, const wire::Completion& completion) {
  LaunchState& launch = *unit.launch;
  if (launch.observer != nullptr) {
    launch.observer->on_block({.launch = launch.number,
                               .stream = stream_,
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
    if (launch->observer != nullptr) launch->observer->on_launch_ended(launch->number, launch->outcome);
    launch->let_go();
    const std::uint64_t number = launch->number;
    launch_records_.give(launch);
    ended_.store(number, std::memory_order_release);
  }
}

// Ends everything that was never sent. In order: called when nothing is in flight any more.
void StreamChannel::drop_waiting() {
  const Outcome outcome = card_gone_ ? Outcome::Lost : Outcome::Aborted;
  const wire::Completion never = ending(outcome, card_gone_ ? Status::None : Status::StreamPoisoned);
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
      end.outcome = end.bytes != 0 && !card_gone_ ? Outcome::Fault : outcome;
      end.status = end.bytes != 0 && !card_gone_ ? Status::Stopped : never.status;
    }
    unit.staged.detached = true;
    finish_staged(unit);
  }
}

// ---- waiting, resetting ---------------------------------------------------------------------------------------------

bool StreamChannel::wait(std::uint64_t number, TimePoint deadline) {
  switch (device_.wait_until([&] { return ended() >= number; }, deadline)) {
    case WaitStatus::Done: return true;
    case WaitStatus::TimedOut: return false;
    case WaitStatus::Refused:
      throw Error({.layer = Layer::Driver,
                   .culprit = "stream " + std::to_string(stream_),
                   .next_step = "wait on another thread",
                   .message = "a completion handler tried to wait for its own stream"});
    case WaitStatus::Failed: break;
  }
  // The card is gone: nobody else may tell what never reached it.
  std::unique_lock lock(mutex_);
  if (ended() < number && in_flight_.empty()) {
    ErrorInfo gone{.layer = Layer::Emulator,
                   .culprit = "card",
                   .outcome = Outcome::Lost,
                   .recoverable = false,
                   .next_step = "start a new card",
                   .message = "the card is gone"};
    note_card_gone(device_.failure().value_or(std::move(gone)));
  }
  return quiet_.wait_for(lock, kCopiesAfterDeath, [&] { return ended() >= number; });
}

std::optional<StreamError> StreamChannel::error() const {
  const std::lock_guard guard(mutex_);
  if (!failure_) return std::nullopt;
  return StreamError(card_error_ ? *card_error_ : explain(*failure_), *failure_);
}

Expected<void> StreamChannel::reset() {
  {
    const std::lock_guard guard(mutex_);
    if (paused_ || closed_) {
      return std::unexpected(ErrorInfo{.culprit = "stream " + std::to_string(stream_),
                                       .next_step = "wait for the other Reset() to return",
                                       .message = "the stream is being reset already"});
    }
    paused_ = true;
  }
  staging_.cancel_requests(*this);
  const auto result = device_.reset_stream(stream_);
  std::unique_lock lock(mutex_);
  if (in_flight_.empty()) drop_waiting();
  quiet_.wait_for(lock, kCopiesAfterReset, [&] { return chunks_ == 0; });
  paused_ = false;
  if (!result) {
    note_card_gone(result.error());
    return result;
  }
  failure_.reset();
  card_error_.reset();
  pump();
  return {};
}

}  // namespace flex
