// SPDX-License-Identifier: Apache-2.0
// A channel as a whole, and what goes in: launches, and what is sent of them.
#include "host_driver/runtime/stream_channel.hpp"

#include <array>
#include <string>
#include <utility>

#include "host_driver/runtime/event.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

using wire::Outcome;

namespace {

// Requests handed to the device at a time: as many as one stream can have outstanding.
constexpr std::size_t kBatch = wire::kStreamCredits;

}  // namespace

StreamChannel::StreamChannel(std::shared_ptr<Device> device, HostMemory& memory, StagingEngine& staging,
                             std::uint32_t stream, ChannelRules rules)
    : staging_(&staging),
      rules_(rules),
      stream_(stream),
      device_(std::move(device)),
      corrections_(memory),
      slots_(rules.elide_corrections) {
  set_chunk_units_aside(staging.chunks());
  device_->set_credit_sink(stream, this);
}

void StreamChannel::set_chunk_units_aside(std::size_t chunks) {
  std::size_t have = 0;
  for (const Unit* unit = chunk_units_.head; unit != nullptr; unit = unit->next) ++have;
  for (; have < chunks; ++have) chunk_units_.push(units_.take());
}

StreamChannel::~StreamChannel() { link_->cut(); }

void StreamChannel::close() {
  {
    const std::lock_guard guard(mutex_);
    set_activity(StreamActivity::Closed);
  }
  staging_->cancel_requests(*this);
}

void StreamChannel::end_at_close() {
  std::shared_ptr<SlotMemory> slots;
  const Locked lock(*this);
  drop_waiting();
  drop_kept();
  slots = slots_.replace(nullptr);
}

// ---- launching ------------------------------------------------------------------------------------------------------

ErrorInfo StreamChannel::refused_now(const char* state, const char* next, bool recoverable) const {
  const std::string name = "stream " + std::to_string(stream());
  return {.layer = Layer::Driver,
          .source = name,
          .outcome = Outcome::Rejected,
          .recoverable = recoverable,
          .next_step = next,
          .message = name + state};
}

StreamChannel::Reservation::~Reservation() {
  if (launch == nullptr) return;
  uses.let_go();
  launch->let_go();
  const std::lock_guard guard(channel_.mutex_);
  while (!units.empty()) channel_.drop_unit(*units.pop());
  channel_.drop_spare(*launch);
  channel_.launch_records_.give(launch);
  if (--channel_.writing_ == 0) channel_.quiet_.notify_all();
}

void StreamChannel::check_usable() const {
  const StreamActivity activity = activity_.get();
  if (activity == StreamActivity::Closed) throw Error(refused_now(" is closed", "open another device", false));
  if (is_recovering(activity))
    throw Error(refused_now(" is being recovered", "launch again when recover() has returned"));
  if (failure_ && !keeps_launches()) {
    StreamError error = current_error();
    ErrorInfo info = error.info();
    info.message = "stream " + std::to_string(stream()) + " is poisoned since: " + info.message;
    throw StreamError(std::move(info), error.failure());
  }
  if (is_reset_under_way(activity) && !keeps_launches())
    throw Error(refused_now(" is being reset", "launch again when Reset() has returned"));
  if (rules_.first_failure == nullptr) return;
  if (const auto first = rules_.first_failure->get()) {
    ErrorInfo info = first->info();
    info.message = "stream " + std::to_string(stream()) + " is stopped (fail fast), because: " + info.message;
    info.next_step = "recover()";
    throw StreamError(std::move(info), first->failure());
  }
}

// The reservation ends what this begins.
void StreamChannel::begin_reservation(Reservation& reservation, std::uint64_t recoveries) {
  check_usable();
  if (recoveries != this->recoveries()) {
    throw Error(refused_now(" was recovered while this was launched",
                            "allocate and load again what the recovery has cleared, then launch again"));
  }
  reservation.launch = launch_records_.take();
  ++writing_;
}

Unit* StreamChannel::take_unit() {
  Unit* unit = units_.take();
  unit->correction = {};
  unit->event = nullptr;
  unit->call = nullptr;
  unit->leaves_out = false;
  unit->left_out = nullptr;
  unit->prepared = nullptr;
  unit->sent = 0;
  return unit;
}

void StreamChannel::reserve(Reservation& reservation, const WalkSize& walk, std::size_t walks,
                            std::uint64_t recoveries) {
  const std::lock_guard guard(mutex_);
  begin_reservation(reservation, recoveries);
  reservation.count = walk.blocks * walks;
  for (std::size_t i = 0; i < reservation.count; ++i) {
    Unit* unit = take_unit();
    reservation.units.push(unit);
    if (i % walk.blocks == walk.correction_at) unit->correction = corrections_->take(walk.correction_bytes);
  }
}

std::uint64_t StreamChannel::commit(std::span<Reservation* const> reservations) {
  const Locked lock(*this);
  check_usable();
  for (const Reservation* reservation : reservations) {
    const Unit* first = reservation->units.head;
    // Its place is not known before the reset of the stream that is due.
    if (failure_ && first != nullptr && first->event != nullptr) throw current_error();
  }
  for (Reservation* reservation : reservations) enqueue(*reservation);
  pump();
  return launched_;
}

// Throws std::bad_alloc only before anything has changed.
void StreamChannel::enqueue(Reservation& reservation) {
  take_place(reservation);
  LaunchState* launch = std::exchange(reservation.launch, nullptr);
  if (--writing_ == 0) quiet_.notify_all();
  launch->number = ++launched_;
  launch->left = launch->total = reservation.count;
  launch->outcome = Outcome::Ok;
  clock_.launched.store(launched_, std::memory_order_release);
  launch->uses.swap(reservation.uses);
  launch->uses.place_taken();
  launch->barrier = reservation.barrier;
  if (reservation.count != 0 && std::exchange(barrier_next_, false)) launch->barrier = true;
  launches_.push(launch);
  for (Unit* unit = reservation.units.head; unit != nullptr; unit = unit->next) {
    unit->launch = launch;
    if (unit->event != nullptr) place_event(*unit, launch->number);
  }
  // Behind what is kept already, and sent with it.
  (keeps_launches() ? launch->kept : pending_).append(reservation.units);
  if (launch->left == 0) retire_launches();
}

void StreamChannel::take_place(Reservation& reservation) {
  LaunchState& launch = *reservation.launch;
  const std::vector<AwaitedUse>& awaited = reservation.uses.awaited();
  launch.after.insert(launch.after.end(), awaited.begin(), awaited.end());
  if (!reservation.scratchpads) return;
  rules_.scratchpads->enter(clock_, launched_ + 1, launch.after);
  if (!reservation.clears) return;
  rules_.scratchpads->claim(*reservation.clears, *reservation.units.head);
  launch.clears = reservation.clears;
}

void StreamChannel::pipeline_barrier() {
  const std::lock_guard guard(mutex_);
  check_usable();
  barrier_next_ = true;
}

std::uint64_t StreamChannel::launched() const {
  const std::lock_guard guard(mutex_);
  return launched_;
}

// ---- sending --------------------------------------------------------------------------------------------------------

void StreamChannel::pump() {
  while (!stopped() && on_host_ == OnHost::Nothing) {
    if (!send_next()) return;
  }
}

// False: something has to happen first, which calls pump() again.
bool StreamChannel::send_next() {
  if (!ready_.empty()) return submit_from(ready_);
  if (pending_.empty()) return false;
  Unit& head = *pending_.head;
  if (!may_begin(head)) return false;
  switch (head.kind) {
    case Unit::Kind::Tiles: return write_tiles(head);
    case Unit::Kind::Staged: start_staged(head); return false;  // the worker goes on from here
    case Unit::Kind::HostCall: start_host_call(); return false;
    default: return may_be_sent(head) && submit_from(pending_);
  }
}

// The other streams' launches have ended, or this one is told when one has.
bool StreamChannel::comes_next(const Unit& unit) {
  std::vector<AwaitedUse>& after = unit.launch->after;
  const auto forget_ended = [&] {
    std::erase_if(after, [](const AwaitedUse& use) { return use.ended(); });
    held_back_for_.store(after.empty() ? nullptr : after.front().stream->stream, std::memory_order_release);
    return after.empty();
  };
  if (forget_ended()) return true;
  rules_.scratchpads->hold_back(*this);
  return forget_ended();
}

StreamChannel* StreamChannel::needing_recovery() {
  if (needs_recovery()) return this;
  StreamChannel* const other = held_back_for_.load(std::memory_order_acquire);
  return other != nullptr && other->needs_recovery() ? other : nullptr;
}

namespace {

bool is_block(const Unit& unit) { return unit.kind == Unit::Kind::Block || unit.kind == Unit::Kind::Chunk; }
bool is_correction(const Unit& unit) { return unit.correction.bytes != nullptr; }

}  // namespace

// Sends blocks from the front, up to the first unit that is none. False: the card took fewer, or
// is gone.
bool StreamChannel::submit_from(LinkedList<Unit>& list) {
  std::array<ControlBlockRequest, kBatch> requests;
  std::size_t count = 0;
  slots_.begin_batch();
  for (Unit* unit = list.head; unit != nullptr && count < kBatch; unit = unit->next) {
    if (!is_block(*unit) || !may_begin(*unit) || !may_be_sent(*unit)) break;
    if (is_correction(*unit)) {
      unit->leaves_out = slots_.place_dma(*unit);
      if (unit->leaves_out) continue;  // its compute comes next
    } else if (unit->block.header.opcode == wire::Opcode::Compute) {
      slots_.place_compute(*unit);
    }
    if (rules_.checksums) seal_transfer(*unit);
    if (unit->event != nullptr && is_wait(*unit)) unit->event->write_wait(unit->block);
    requests[count++] = {&unit->block, this};
  }
  const std::uint64_t sending = trace::recorder() != nullptr ? trace::Recorder::now() : 0;
  Expected<std::size_t> taken = 0;
  try {
    taken = device_->submit(stream(), std::span(requests.data(), count));
  } catch (const std::bad_alloc&) {
    // Refused, and no memory to say why: the end of a reset comes by on_credits(), the end of the card by completions.
    slots_.forget();
    return false;
  }
  if (!taken) {
    slots_.forget();
    note_refused(taken.error());
    return false;
  }
  for (std::size_t i = 0; i < *taken; ++i) {
    Unit* const sent = next_sent(list);
    sent->sent = sending;
    if (is_wait(*sent)) ++waits_;
    if (is_signal(*sent)) note_with_card(*sent->event);
    in_flight_.push(sent);
  }
  if (rules_.elide_corrections) forget_unsent(list, count - *taken);
  return *taken == count;
}

// The first block of `list`, which the card has taken. In front of it may be a DMA that was left out.
Unit* StreamChannel::next_sent(LinkedList<Unit>& list) {
  Unit* const first = list.pop();
  if (is_correction(*first)) slots_.sent(*first);
  if (!is_correction(*first) || !first->leaves_out) return first;
  Unit* const compute = list.pop();
  compute->left_out = first;
  return compute;
}

// The card did not take the next `blocks` of the list: their corrections are not in the slots that were chosen.
void StreamChannel::forget_unsent(const LinkedList<Unit>& list, std::size_t blocks) {
  for (const Unit* unit = list.head; blocks != 0; unit = unit->next) {
    if (is_correction(*unit) && unit->leaves_out) continue;
    if (is_correction(*unit)) slots_.not_sent(*unit);
    --blocks;
  }
}

std::shared_ptr<SlotMemory> StreamChannel::slots_for(const std::shared_ptr<FlexAllocator>& allocator,
                                                     std::uint64_t bytes, SlotMemory::Need need) {
  const auto fits = [&] { return slots_.memory() != nullptr && slots_.memory()->slot_bytes() >= bytes; };
  {
    const std::lock_guard guard(mutex_);
    if (fits()) return slots_.memory();
  }
  auto memory = SlotMemory::allocate(allocator, bytes, need, rules_.elide_corrections);
  if (memory == nullptr) return nullptr;
  std::shared_ptr<SlotMemory> before;  // let go of without the lock
  const std::lock_guard guard(mutex_);
  if (fits()) return slots_.memory();  // another thread was first
  before = slots_.replace(memory);
  return memory;
}

void StreamChannel::on_credits(std::uint32_t) noexcept {
  {
    const std::lock_guard guard(mutex_);
    pump();
  }
  tell_waiters();
}

}  // namespace svp
