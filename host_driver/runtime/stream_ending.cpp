// SPDX-License-Identifier: Apache-2.0
// How what a stream has ends: completions, the first error, what is kept to be sent again, and letting go of launches.
#include <string>
#include <utility>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/ras/log.hpp"
#include "host_driver/recovery/busy.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

using wire::Outcome;
using wire::Status;

namespace {

bool means_dead(Outcome outcome) { return outcome == Outcome::Lost || outcome == Outcome::Indeterminate; }

}  // namespace

wire::Completion StreamChannel::ending(Outcome outcome, Status status) const {
  wire::Completion completion{};
  completion.outcome = outcome;
  completion.status = status;
  completion.stream = stream();
  return completion;
}

// Of what the card never had.
wire::Completion StreamChannel::never_sent() const {
  return gone() ? ending(Outcome::Lost, Status::None) : ending(Outcome::Aborted, Status::StreamPoisoned);
}

void StreamChannel::on_completion(const wire::Completion& reported) noexcept {
  {
    const std::lock_guard guard(mutex_);
    const DriverCall marked = device_->driver_call();
    end_in_flight(reported);
    if (!ended_launches_.empty()) device_->after_delivery(*this);
  }
  tell_waiters();
}

void StreamChannel::end_in_flight(const wire::Completion& reported) {
  Unit& unit = *in_flight_.pop();
  const bool last_wait = is_wait(unit) && --waits_ == 0;
  const wire::Completion completion = rules_.checksums ? verified(unit, reported) : reported;
  if (completion.outcome != Outcome::Ok) note_failure(unit, completion);
  if (trace::recorder() != nullptr) [[unlikely]]
    trace_block(unit, completion);
  if (unit.kind == Unit::Kind::Chunk) {
    chunk_ended(unit, completion);
  } else {
    count_direct(unit, completion);
    if (Unit* const left_out = std::exchange(unit.left_out, nullptr)) end_left_out(*left_out, completion);
    end_unit(unit, completion);
  }
  if (last_wait && !failure_) pump();
  if (is_under_way()) return;  // a HostOperation that comes to its end looks again
  if (failure_) {
    drop_waiting();
    tell_failure();
  } else {
    pump();
  }
}

// A DMA that was not needed ends with its compute: well when that has begun.
void StreamChannel::end_left_out(Unit& unit, const wire::Completion& of_compute) {
  const bool never = of_compute.outcome == Outcome::Aborted || means_dead(of_compute.outcome);
  end_unit(unit, never ? ending(of_compute.outcome, of_compute.status) : ending(Outcome::Ok, Status::None));
}

// Correction tensors are the driver's own and not counted.
void StreamChannel::count_direct(const Unit& unit, const wire::Completion& completion) const {
  if (completion.outcome != Outcome::Ok || unit.block.header.opcode != wire::Opcode::Dma) return;
  const wire::DmaPayload& dma = unit.block.payload.dma;
  const bool host =
      dma.source.kind == wire::EndpointKind::HostMemory || dma.destination.kind == wire::EndpointKind::HostMemory;
  if (host && unit.correction.bytes == nullptr) rules_.counters->add_direct(dma.bytes);
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
    failure_ = describe(unit, completion);
  } catch (const std::bad_alloc&) {
    failure_ = bare_failure(unit.block, completion);  // told without its texts
    failure_->tile = unit.tile;
    failure_->step = unit.step;
  }
  failure_->stream = stream();
  failure_->launch = unit.launch->number;
  set_condition(after_error);
  record_failure(nullptr);
}

void StreamChannel::record_failure(const ErrorInfo* error) const try {
  ras::Where where = device_ != nullptr ? device_->where() : ras::Where{};
  where.stream = stream();
  if (failure_->launch != 0) where.launch = failure_->launch;
  ras::report(error != nullptr ? *error : explain(*failure_), where);
} catch (const std::bad_alloc&) {
  ras::report({}, {});  // told without its texts
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
  if (is_under_way()) return;
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
  if (failure_ && failure_->opcode == wire::Opcode::EventWait) return false;
  const StreamActivity activity = activity_.get();
  return activity == StreamActivity::Retrying || (activity == StreamActivity::Open && failure_.has_value());
}

// Only a launch of which nothing has started may be sent again, and only as a whole.
bool StreamChannel::keeps(const Unit& unit, const wire::Completion& completion) const {
  const StreamActivity activity = activity_.get();
  const bool goes_on = activity == StreamActivity::Open || activity == StreamActivity::Retrying;
  return rules_.retry_aborted && goes_on && !gone() && !depends_on_failure(unit) &&
         completion.outcome == Outcome::Aborted && completion.bytes == 0 && unit.launch->left == unit.launch->total;
}

void StreamChannel::end_unit(Unit& unit, const wire::Completion& completion) {
  if (keeps(unit, completion)) {
    rules_.lost_writes->note_kept(this, unit);
    return unit.launch->kept.push(&unit);
  }
  if (!unit.launch->kept.empty()) drop_kept();
  finish_unit(unit, completion);
}

// They end as what they are: removed before they started.
void StreamChannel::drop_kept() {
  LinkedList<Unit> units;
  for (LaunchState* launch = launches_.head; launch != nullptr; launch = launch->next) units.append(launch->kept);
  if (rules_.lost_writes != nullptr) rules_.lost_writes->end_kept(this);
  while (!units.empty()) finish_unit(*units.pop(), ending(Outcome::Aborted, Status::StreamPoisoned));
}

// Staged transfers of the launch begin again.
void StreamChannel::begin_kept(LaunchState& launch) {
  for (Unit* unit = launch.kept.head; unit != nullptr; unit = unit->next) {
    if (unit->kind != Unit::Kind::Staged) continue;
    StagedTransfer& transfer = unit->staged;
    // One that was launched while the stream waited for its reset has not been begun at all.
    if (transfer.stage.get() == TransferStage::Waiting) continue;
    ras::unlogged(stream(), transfer.stage.change(TransferStage::Waiting));
    transfer.assigned = transfer.submitted = 0;
    transfer.end = {};
  }
}

namespace {

// Whether the units of a launch read what is lost; then what they write is lost as well, else it will be there. With
// too little memory to say it, everything is lost: `known` is false.
bool reads_any_of(RangeSet& lost, bool& known, const LinkedList<Unit>& units) noexcept try {
  if (!known) return true;
  Accesses accesses;
  for (const Unit* unit = units.head; unit != nullptr; unit = unit->next) add_accesses(*unit, accesses);
  const bool reads = lost.overlaps(accesses.reads);
  reads ? lost.add(accesses.writes) : lost.remove(accesses.writes);
  return reads;
} catch (const std::bad_alloc&) {
  known = false;
  return true;
}

}  // namespace

// In order; but what reads what a launch before it would have written, and did not, ends as it is: removed before it
// started.
void StreamChannel::send_kept_again() {
  RangeSet lost;
  bool known = rules_.lost_writes->seen_by(this, lost);
  LinkedList<Unit> dropped;
  for (LaunchState* launch = launches_.head; launch != nullptr; launch = launch->next) {
    if (launch->kept.empty()) continue;
    if (reads_any_of(lost, known, launch->kept)) {
      dropped.append(launch->kept);
    } else {
      begin_kept(*launch);
      pending_.append(launch->kept);
    }
  }
  rules_.lost_writes->end_kept(this);
  while (!dropped.empty()) finish_unit(*dropped.pop(), ending(Outcome::Aborted, Status::StreamPoisoned));
}

// What ends now is ended by a recovery that all of its streams are part of.
bool StreamChannel::is_ended_by_recovery() const {
  return is_recovering(activity_.get()) || activity_.get() == StreamActivity::QueueReset;
}

void StreamChannel::tell_observer(const Unit& unit, const wire::Completion& completion) const {
  const LaunchState& launch = *unit.launch;
  if (launch.observer == nullptr) return;
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

// What the owner's own reset removes is over: nothing is sent again for it.
void StreamChannel::note_written(const Unit& unit, Outcome outcome) {
  const StreamActivity activity = activity_.get();
  const bool goes_on = activity == StreamActivity::Open || activity == StreamActivity::Retrying;
  if (outcome == Outcome::Ok) {
    rules_.lost_writes->note_written(unit);
  } else if (goes_on) {
    rules_.lost_writes->note_lost(unit);
  }
}

void StreamChannel::finish_unit(Unit& unit, const wire::Completion& completion) {
  if (rules_.lost_writes != nullptr) note_written(unit, completion.outcome);
  if (is_ended_by_recovery() && completion.outcome != Outcome::Ok) note_failure(unit, completion);
  if (is_signal(unit)) {
    unit.event->end(completion);
    note_with_card(*unit.event);
  }
  LaunchState& launch = *unit.launch;
  tell_observer(unit, completion);
  if (launch.outcome == Outcome::Ok) launch.outcome = completion.outcome;
  launch.left -= blocks_of(unit);
  if (unit.kind == Unit::Kind::Tiles) end_tiles(launch);
  if (!recycle(unit)) drop_unit(unit);
  if (launch.left == 0) retire_launches();
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
    // They run no code of the caller's: the memory can be had at once, whoever ended the launch.
    launch->uses.let_go();
    launch->recorded.let_go();
    ended_launches_.push(launch);
    any_ended_.store(true, std::memory_order_relaxed);
    clock_.ended.store(number, std::memory_order_release);
    end_place(*launch);
  }
  const bool host_call_next = !pending_.empty() && pending_.head->kind == Unit::Kind::HostCall;
  if (host_call_next && ready_.empty() && on_host_ == OnHost::Nothing && !stopped()) start_host_call();
}

void StreamChannel::end_place(LaunchState& launch) {
  if (launch.clears && launch.outcome != Outcome::Ok) rules_.scratchpads->not_cleared(*launch.clears);
  launch.clears.reset();
  launch.after.clear();
  std::atomic_thread_fence(std::memory_order_seq_cst);  // with Scratchpads::hold_back(): one of the two sees the other
  if (rules_.scratchpads != nullptr && rules_.scratchpads->anyone_waits()) {
    place_ended_.store(true, std::memory_order_release);
  }
}

void StreamChannel::keep_until_ended(std::unique_ptr<RecordedUse> use) noexcept {
  const std::lock_guard guard(mutex_);
  if (!launches_.empty()) launches_.tail->recorded.push(std::move(use));
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
  const wire::Completion never = never_sent();
  const bool lost = never.outcome == Outcome::Lost;
  const Outcome outcome = never.outcome;
  LinkedList<Unit> chunks = std::exchange(ready_, {});
  while (!chunks.empty()) chunk_ended(*chunks.pop(), never);
  LinkedList<Unit> waiting = std::exchange(pending_, {});
  while (!waiting.empty()) {
    Unit& unit = *waiting.pop();
    if (unit.kind != Unit::Kind::Staged) {
      trace_block(unit, never);
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

}  // namespace svp
