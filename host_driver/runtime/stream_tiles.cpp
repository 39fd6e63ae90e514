// SPDX-License-Identifier: Apache-2.0
// A stream's tiled launches: blocks of a few tiles at a time, written when the stream comes to them, into records that
// were taken with the launch. So a launch takes as much memory for a million tiles as for a hundred.
#include <algorithm>

#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/tile_blocks.hpp"

namespace svp {
namespace {

// Blocks of a launch that exist at the same time: twice what one stream can have with the card, so that the next ones
// are ready when it takes more.
constexpr std::size_t kBlocksAhead = 2 * wire::kStreamCredits;

}  // namespace

void StreamChannel::reserve_tiles(Reservation& reservation, const WalkSize& walk, std::uint32_t tiles, bool first_now,
                                  std::uint64_t recoveries) {
  const std::lock_guard guard(mutex_);
  begin_reservation(reservation, recoveries);
  reservation.count = std::uint64_t{tiles} * walk.blocks;
  SpareBlocks& spare = reservation.launch->spare;
  const auto add = [&](LinkedList<Unit>& to, std::size_t step) {
    Unit* unit = take_unit();
    to.push(unit);
    if (step == walk.correction_at) unit->correction = corrections_->take(walk.correction_bytes);
  };
  for (std::size_t step = 0; first_now && step < walk.blocks; ++step) add(reservation.units, step);
  reservation.units.push(take_unit());
  const std::size_t ahead = std::min<std::size_t>(tiles, kBlocksAhead / walk.blocks);
  for (std::size_t tile = first_now ? 1 : 0; tile < ahead; ++tile) {
    for (std::size_t step = 0; step < walk.blocks; ++step) {
      add(step == walk.correction_at ? spare.corrections : spare.computes, step);
    }
  }
}

namespace {

bool can_write_a_tile(const LaunchState& launch) {
  const SpareBlocks& spare = launch.spare;
  return !launch.tiles->ended() && !spare.computes.empty() && !(launch.tiles->corrects() && spare.corrections.empty());
}

}  // namespace

// The head of pending_ are tiles of a launch whose HostOperations run in the stream. One that threw is told when what
// stands before it has ended.
void StreamChannel::start_host_operation() {
  Unit& tiles = *pending_.head;
  LaunchState& launch = *tiles.launch;
  if (launch.host_failure) {
    if (in_flight_.empty()) fail_host_operation();
    return;
  }
  if (resets_waiting_ != 0 || !can_write_a_tile(launch)) return;
  pending_.pop();
  on_host_ = OnHost::Operation;
  resets_before_call_ = resets_;
  host_operation_.channel = this;
  host_operation_.unit = &tiles;
  host_operation_.tiles = launch.tiles;
  host_operation_.correction = launch.spare.corrections.pop();
  host_operation_.compute = launch.spare.computes.pop();
  rules_.host_operations->run(host_operation_);
}

// The records of a tile, in front of the tiles behind it.
void StreamChannel::put_back(HostCall& call, bool written) {
  LaunchState& launch = *call.unit->launch;
  LinkedList<Unit> front;
  for (Unit* unit : {call.correction, call.compute}) {
    unit->launch = &launch;
    if (written) {
      front.push(unit);
    } else {
      (unit == call.correction ? launch.spare.corrections : launch.spare.computes).push(unit);
    }
  }
  if (written) launch.tiles->advance();
  if (launch.tiles->ended()) {
    drop_spare(launch);
    units_.give(call.unit);
  } else {
    call.unit->tile = launch.tiles->next();
    front.push(call.unit);
  }
  front.append(pending_);
  pending_ = front;
}

// `tiles` is the head of pending_. False: the records of all tiles that were written are still in use.
bool StreamChannel::write_tiles(Unit& tiles) {
  LaunchState& launch = *tiles.launch;
  TileBlocks& blocks = *launch.tiles;
  if (blocks.in_stream()) {
    start_host_operation();
    return false;
  }
  LinkedList<Unit> written;
  while (can_write_a_tile(launch)) {
    Unit* correction = blocks.corrects() ? launch.spare.corrections.pop() : nullptr;
    Unit* compute = launch.spare.computes.pop();
    blocks.write_next(correction, *compute);
    for (Unit* unit : {correction, compute}) {
      if (unit == nullptr) continue;
      unit->launch = &launch;
      written.push(unit);
    }
  }
  if (blocks.ended()) {
    pending_.pop();
    drop_spare(launch);
    units_.give(&tiles);
  } else if (written.empty()) {
    return false;
  } else {
    tiles.tile = blocks.next();
  }
  written.append(pending_);
  pending_ = written;
  return true;
}

// How many of the launch's units end with this one.
std::uint64_t StreamChannel::blocks_of(const Unit& unit) const {
  return unit.kind == Unit::Kind::Tiles ? unit.launch->tiles->blocks_left() : 1;
}

void StreamChannel::end_tiles(LaunchState& launch) {
  launch.tiles->abandon();
  drop_spare(launch);
}

void StreamChannel::drop_spare(LaunchState& launch) {
  while (!launch.spare.corrections.empty()) drop_unit(*launch.spare.corrections.pop());
  while (!launch.spare.computes.empty()) drop_unit(*launch.spare.computes.pop());
}

// False: its record goes back to the pool.
bool StreamChannel::recycle(Unit& unit) {
  LaunchState& launch = *unit.launch;
  if (launch.tiles == nullptr || launch.tiles->ended()) return false;
  (unit.correction.bytes != nullptr ? launch.spare.corrections : launch.spare.computes).push(&unit);
  return true;
}

}  // namespace svp
