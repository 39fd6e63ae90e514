// SPDX-License-Identifier: Apache-2.0
// A stream's transfers of pageable memory: chunk by chunk through pinned memory, with the staging worker.
#include <algorithm>
#include <cstring>
#include <utility>

#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

using wire::Outcome;

void StreamChannel::start_staged(Unit& unit) {
  StagedTransfer& transfer = unit.staged;
  // The caller's memory may be what an earlier transfer of this stream, or of one that it waits for, is still being
  // copied to.
  if (transfer.stage.get() != TransferStage::Waiting) return;
  if (transfer.to_device && (drains_ != 0 || waits_ != 0)) return;
  transfer.reads = !transfer.to_device;
  if (transfer.reads) ++reads_;
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

class TracedCopy {
 public:
  TracedCopy(const char* text, std::uint64_t bytes) : span_(trace::Kind::Staging) {
    if (auto* fields = span_.fields()) *fields = {.kind = trace::Kind::Staging, .bytes = bytes, .text = text};
  }

 private:
  trace::Span span_;
};

void fill(const StagingChunk& chunk) {
  const TracedCopy traced("to the card", chunk.bytes);
  if (chunk.converter != nullptr)
    return chunk.converter->fill_chunk(chunk.offset, chunk.buffer.bytes().first(chunk.bytes));
  std::memcpy(chunk.buffer.data(), chunk.host, chunk.bytes);
}

void drain_into_memory(const StagingChunk& chunk) {
  const TracedCopy traced("from the card", chunk.bytes);
  if (chunk.converter != nullptr)
    return chunk.converter->drain_chunk(chunk.offset, chunk.buffer.bytes().first(chunk.bytes));
  std::memcpy(chunk.host, chunk.buffer.data(), chunk.bytes);
}

bool is_filling(const Unit& unit) {
  return unit.kind == Unit::Kind::Staged && unit.staged.stage.get() == TransferStage::Filling;
}

}  // namespace

// Whoever stopped the stream has cancelled its requests for chunks, and completions that came meanwhile pumped nothing.
void StreamChannel::go_on() {
  if (stopped()) {
    if (failure_ && !is_under_way()) tell_failure();
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
  unit.sent = 0;
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
  const bool taken = take_chunk(chunk);
  tell_waiters();
  return taken;
}

bool StreamChannel::take_chunk(StagingChunk& chunk) {
  std::unique_lock lock(mutex_);
  const DriverCall marked = device_->driver_call();
  Unit* owner = pending_.head;
  if (stopped() || owner == nullptr || !is_filling(*owner)) return false;
  StagedTransfer& transfer = owner->staged;
  const std::uint64_t at = transfer.assigned;
  if (at == transfer.bytes) return false;
  chunk.bytes = std::min<std::uint64_t>(transfer.bytes - at, staging_->chunk_bytes());
  chunk.host = transfer.host == nullptr ? nullptr : transfer.host + at;
  chunk.converter = transfer.converter;
  chunk.offset = transfer.converter_offset + at;
  chunk.transfer = owner;
  transfer.assigned += chunk.bytes;
  ++transfer.chunks;
  ++chunks_;
  if (transfer.to_device) {
    lock.unlock();
    fill(chunk);
    rules_.counters->add_copied(chunk.bytes);
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
  drain_into_memory(chunk);
  rules_.counters->add_copied(chunk.bytes);
  std::shared_ptr<Device> device;
  {
    const std::lock_guard guard(mutex_);
    device = device_;
    drain_ended(chunk);
    if (drains_ == 0) pump();
    quiet_.notify_all();
  }
  device->wake_waiters();
  tell_waiters();
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
  if (completion.outcome == Outcome::Ok) rules_.counters->add_staged(chunk.bytes);
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
  if (std::exchange(owner.staged.reads, false)) --reads_;
  const wire::Completion end = owner.staged.end;
  end_unit(owner, end);
}

}  // namespace svp
