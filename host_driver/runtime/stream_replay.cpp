// SPDX-License-Identifier: Apache-2.0
// Launching what was prepared.
#include <algorithm>
#include <deque>
#include <iterator>
#include <string>
#include <utility>

#include "host_driver/runtime/current_function.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/flex_stream.hpp"
#include "host_driver/runtime/host_calls.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

// Makes the pieces of one replay.
class ReplayWriter {
 public:
  ReplayWriter(FlexStream& stream, std::span<const std::shared_ptr<Event>> slots) : stream_(stream), slots_(slots) {}

  void write(const std::vector<ReplayStep>& steps) {
    pieces_.reserve(steps.size());
    for (const ReplayStep& step : steps) {
      std::visit([this](const auto& one) { write(one); }, step);
    }
  }
  std::span<const ReplayPiece> pieces() const { return pieces_; }

  // They have been launched.
  void tell(std::vector<std::shared_ptr<Event>>* recorded) {
    for (auto& [captured, event] : recorded_) {
      if (recorded != nullptr) recorded->push_back(event);
      captured->set(std::move(event));
    }
  }

 private:
  void write(const CallsStep& calls) { pieces_.emplace_back(calls); }
  void write(const RecordStep& record) {
    recorded_.emplace_back(record.event, stream_.make_event());
    pieces_.emplace_back(SignalPiece{recorded_.back().second});
  }
  void write(const HostStep& host) {
    stream_.channel_.expect_host_calls();
    auto call = std::make_shared<HostCall>();
    call->function = [function = host.function] { (*function)(); };
    pieces_.emplace_back(std::move(call));
  }
  void write(const WaitStep& wait) {
    std::visit([this](const auto& awaited) { write_wait(awaited); }, wait.awaited);
  }

  void write_wait(WaitSlot) {
    write_wait(slots_.front());
    slots_ = slots_.subspan(1);
  }
  void write_wait(const std::shared_ptr<Event>& event) {
    if (stream_.has_to_wait_for(event)) pieces_.emplace_back(stream_.awaited_place(event));
  }
  // What this replay has recorded before is ordered; else it is that of the replay before.
  void write_wait(const std::shared_ptr<CapturedEvent>& captured) {
    const auto same = [&](const auto& recorded) { return recorded.first == captured; };
    if (std::ranges::none_of(recorded_, same)) write_wait(captured->latest());
  }
  void write_wait(const spyre::SharedEvent& shared) { pieces_.emplace_back(stream_.granted_wait(shared)); }

  FlexStream& stream_;
  std::span<const std::shared_ptr<Event>> slots_;
  std::vector<ReplayPiece> pieces_;
  std::vector<std::pair<std::shared_ptr<CapturedEvent>, std::shared_ptr<Event>>> recorded_;
};

std::uint64_t FlexStream::Launch(const PreparedLaunches& prepared, std::span<const std::shared_ptr<Event>> slots,
                                 std::vector<std::shared_ptr<Event>>* recorded) {
  function_.require_own_process();
  refuse_in_capture("a launch of prepared launches");
  trace::Span traced(trace::Kind::Launch);
  (void)recover_if_needed();
  const std::uint64_t recoveries = channel_.recoveries();
  auto state = prepared.current(function_);
  if (slots.size() != prepared.slots()) {
    throw InvalidArgument(
        "slots",
        std::to_string(slots.size()) + " events are given for " + std::to_string(prepared.slots()) + " wait slots",
        "give one event for each WaitSlot() of the capture");
  }
  clear_scratchpads(state->slices, recoveries);
  std::uint64_t number = 0;
  if (state->is_one_call()) {
    number = channel_.launch_prepared(std::move(state), recoveries);
  } else {
    ReplayWriter replay(*this, slots);
    replay.write(*state->steps);
    number = channel_.launch_pieces(state, replay.pieces(), recoveries);
    replay.tell(recorded);
  }
  if (auto* const fields = traced.fields()) {
    *fields = {.kind = trace::Kind::Launch,
               .card = channel_.trace_card(),
               .stream = channel_.stream(),
               .launch = number,
               .tile = static_cast<std::uint32_t>(prepared.size()),
               .text = "prepared"};
  }
  return number;
}

// ---- the channel's part ---------------------------------------------------------------------------------------------

std::uint64_t StreamChannel::launch_prepared(std::shared_ptr<PreparedLaunches::State> state, std::uint64_t recoveries) {
  Reservation reservation(*this);  // ends without the lock
  const Locked lock(*this);
  begin_reservation(reservation, recoveries);
  const CallsStep all = std::get<CallsStep>(state->steps->front());
  write_calls(reservation, std::move(state), all);
  enqueue(reservation);
  pump();
  return launched_;
}

std::uint64_t StreamChannel::launch_pieces(const std::shared_ptr<PreparedLaunches::State>& state,
                                           std::span<const ReplayPiece> pieces, std::uint64_t recoveries) {
  std::deque<Reservation> reservations;  // end without the lock
  const Locked lock(*this);
  check_usable();
  for (const ReplayPiece& piece : pieces) {
    Reservation& reservation = reservations.emplace_back(*this);
    begin_reservation(reservation, recoveries);
    write_piece(reservation, state, piece);
    // As in commit(): the place of an event is not known before the reset of the stream that is due.
    if (failure_ && reservation.units.head->event != nullptr) throw current_error();
  }
  for (Reservation& reservation : reservations) enqueue(reservation);
  pump();
  return launched_;
}

// With mutex_ held.
void StreamChannel::write_calls(Reservation& reservation, std::shared_ptr<PreparedLaunches::State> state,
                                const CallsStep& calls) {
  LaunchState& launch = *reservation.launch;
  launch.observer = nullptr;
  launch.kernel = nullptr;
  reservation.count = calls.count;
  reservation.barrier = calls.barrier;
  reservation.scratchpads = state->slices != 0;
  std::ranges::copy_if(state->awaited, std::back_inserter(launch.after),
                       [this](const AwaitedUse& use) { return use.stream != &clock_ && !use.ended(); });
  for (std::size_t i = calls.first; i < calls.first + calls.count; ++i) {
    const CardBuffer& buffer = *(*state->buffers)[i];
    Unit* const unit = take_unit();
    reservation.units.push(unit);
    unit->kind = Unit::Kind::Block;
    unit->tile = 0;
    unit->step = static_cast<std::uint32_t>(i);
    unit->prepared = state.get();
    unit->block.header = {};
    unit->block.header.opcode = buffer.is_one_compute() ? wire::Opcode::Prepared : wire::Opcode::Call;
    unit->block.payload.call = {
        .buffer = buffer.id(), .reserved0 = 0, .epoch = buffer.epoch(), .signal_base = 0, .reserved = {}};
  }
  launch.keep_alive = std::move(state);
}

void StreamChannel::write_piece(Reservation& reservation, const std::shared_ptr<PreparedLaunches::State>& state,
                                const ReplayPiece& piece) {
  if (const auto* const calls = std::get_if<CallsStep>(&piece)) return write_calls(reservation, state, *calls);
  LaunchState& launch = *reservation.launch;
  launch.observer = nullptr;
  launch.kernel = nullptr;
  reservation.count = 1;
  Unit& unit = *take_unit();
  reservation.units.push(&unit);
  unit.kind = Unit::Kind::Block;
  unit.tile = unit.step = 0;
  unit.block.header = {};
  unit.block.payload = {};
  if (const auto* const signal = std::get_if<SignalPiece>(&piece)) {
    unit.block.header.opcode = wire::Opcode::EventSignal;
    unit.event = signal->event.get();
    launch.keep_alive = signal->event;
  } else if (const auto* const place = std::get_if<AwaitedPlace>(&piece)) {
    write_wait(unit, *place);
    if (const auto* const event = std::get_if<std::shared_ptr<Event>>(place)) launch.keep_alive = *event;
  } else {
    const auto& call = std::get<std::shared_ptr<HostCall>>(piece);
    unit.kind = Unit::Kind::HostCall;
    unit.call = call.get();
    launch.keep_alive = call;
  }
}

}  // namespace svp
