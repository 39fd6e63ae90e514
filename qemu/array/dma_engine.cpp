// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/dma_engine.hpp"

#include <sys/random.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <optional>
#include <utility>

#include "qemu/array/checksum.hpp"
#include "qemu/array/streamed_copy.hpp"

namespace svp::array {
namespace {

using wire::array::kMaxElements;
using wire::array::kMaxMoveBytes;
using wire::array::kMaxMoveStep;
using wire::array::Move;
using wire::array::MoveKind;
using wire::array::MoveOutcome;

bool overlap(const std::byte* a, const std::byte* b, std::uint64_t bytes) { return a < b + bytes && b < a + bytes; }

// One side of a move of elements.
struct Side {
  std::uint64_t first;
  std::int64_t step;
  std::int64_t row_step;
};

// What the elements of a side lie in: `before` bytes in front of the first one, and what begins there.
struct Extent {
  std::uint64_t before;
  std::uint64_t bytes;
};

bool is_step(std::int64_t step) {
  constexpr auto kMost = static_cast<std::int64_t>(kMaxMoveStep);
  return step >= -kMost && step <= kMost;
}

// Steps and counts are within their bounds: no sum overflows.
Extent extent_of(const Side& side, const Move& move) {
  const std::int64_t along = side.step * static_cast<std::int64_t>(move.elements - 1);
  const std::int64_t across = side.row_step * static_cast<std::int64_t>(move.rows - 1);
  const std::int64_t first = std::min<std::int64_t>(along, 0) + std::min<std::int64_t>(across, 0);
  const std::int64_t last = std::max<std::int64_t>(along, 0) + std::max<std::int64_t>(across, 0);
  return {.before = static_cast<std::uint64_t>(-first),
          .bytes = static_cast<std::uint64_t>(last - first) + move.element_bytes};
}

bool is_dense(const Move& move) {
  return move.to_step == static_cast<std::int64_t>(move.element_bytes) && move.from_step == move.to_step;
}

bool is_count_of_elements(const Move& move) {
  if (move.element_bytes != 1 && move.element_bytes != 2 && move.element_bytes != 4 && move.element_bytes != 8) {
    return false;
  }
  if (move.elements == 0 || move.rows == 0 || move.elements > kMaxMoveBytes || move.rows > kMaxElements) return false;
  const std::uint64_t all = move.elements * move.rows;
  return is_dense(move) ? all <= kMaxMoveBytes / move.element_bytes : all <= kMaxElements;
}

void copy_dense(std::byte* to, const std::byte* from, const Move& move) {
  const std::uint64_t bytes = move.elements * move.element_bytes;
  for (std::uint64_t row = 0; row < move.rows; ++row, to += move.to_row_step, from += move.from_row_step) {
    std::memcpy(to, from, bytes);
  }
}

template <std::size_t bytes>
void copy_spread(std::byte* to, const std::byte* from, const Move& move) {
  for (std::uint64_t row = 0; row < move.rows; ++row, to += move.to_row_step, from += move.from_row_step) {
    std::byte* target = to;
    const std::byte* source = from;
    for (std::uint64_t i = 0; i < move.elements; ++i, target += move.to_step, source += move.from_step) {
      std::memcpy(target, source, bytes);
    }
  }
}

}  // namespace

void DmaEngine::begin(const CardMemory& memory, std::uint64_t regions_begin) {
  memory_ = memory;
  regions_begin_ = regions_begin;
  nonce_ = 0;
  windows_.clear();
}

const std::byte* DmaEngine::source(std::uint64_t address, std::uint64_t bytes) const {
  const std::byte* const place = memory_.at(address, bytes);
  return place != nullptr ? place : windows_.at(address, bytes);
}

std::byte* DmaEngine::target(std::uint64_t address, std::uint64_t bytes) const {
  std::byte* const place = address >= regions_begin_ ? memory_.at(address, bytes) : nullptr;
  return place != nullptr ? place : windows_.at(address, bytes);
}

bool DmaEngine::copy(const Move& move) const {
  if (move.bytes > kMaxMoveBytes) return false;
  std::byte* const to = target(move.to, move.bytes);
  const std::byte* const from = source(move.from, move.bytes);
  if (to == nullptr || from == nullptr || overlap(to, from, move.bytes)) return false;
  if (move.streamed != 0) {
    streamed_copy(to, from, move.bytes);
  } else {
    std::memcpy(to, from, move.bytes);
  }
  return true;
}

bool DmaEngine::fill(const Move& move) const {
  if (move.bytes > kMaxMoveBytes) return false;
  std::byte* to = target(move.to, move.bytes);
  if (to == nullptr) return false;
  if (move.pattern == 0) {
    std::memset(to, 0, move.bytes);
    return true;
  }
  constexpr std::size_t kWords = 32;
  std::uint64_t words[kWords];
  std::fill_n(words, kWords, move.pattern);
  std::uint64_t left = move.bytes;
  for (; left >= sizeof words; left -= sizeof words, to += sizeof words) std::memcpy(to, words, sizeof words);
  std::memcpy(to, words, left);
  return true;
}

bool DmaEngine::sum(Move& move) const {
  const std::byte* const from = move.bytes <= kMaxMoveBytes ? source(move.from, move.bytes) : nullptr;
  if (from == nullptr) return false;
  move.pattern = checksum(static_cast<std::uint32_t>(move.pattern), from, move.bytes);
  return true;
}

bool DmaEngine::copy_elements(const Move& move) const {
  const Side to_side{move.to, move.to_step, move.to_row_step};
  const Side from_side{move.from, move.from_step, move.from_row_step};
  if (!is_count_of_elements(move)) return false;
  for (const Side& side : {to_side, from_side}) {
    if (!is_step(side.step) || !is_step(side.row_step)) return false;
  }
  const Extent to_extent = extent_of(to_side, move), from_extent = extent_of(from_side, move);
  std::byte* to = target(move.to - to_extent.before, to_extent.bytes);
  const std::byte* from = source(move.from - from_extent.before, from_extent.bytes);
  if (to == nullptr || from == nullptr) return false;
  to += to_extent.before;
  from += from_extent.before;
  if (is_dense(move)) {
    copy_dense(to, from, move);
    return true;
  }
  switch (move.element_bytes) {
    case 1: copy_spread<1>(to, from, move); break;
    case 2: copy_spread<2>(to, from, move); break;
    case 4: copy_spread<4>(to, from, move); break;
    default: copy_spread<8>(to, from, move); break;
  }
  return true;
}

bool DmaEngine::choose_nonce(Move& move) {
  nonce_ = 0;
  if (getrandom(&nonce_, sizeof nonce_, GRND_NONBLOCK) != sizeof nonce_) nonce_ = 0;
  move.pattern = nonce_;
  return nonce_ != 0;
}

// A number finds one window.
bool DmaEngine::show(const Move& move) {
  const std::uint64_t nonce = std::exchange(nonce_, 0);
  return nonce != 0 && move.pattern == nonce && windows_.show(move.to, move.bytes, move.from, nonce);
}

MoveOutcome DmaEngine::carry_out(Move& move) {
  const auto outcome = [](bool done) { return done ? MoveOutcome::Done : MoveOutcome::Refused; };
  switch (move.kind) {
    case MoveKind::None: break;
    case MoveKind::Copy: return outcome(copy(move));
    case MoveKind::Fill: return outcome(fill(move));
    case MoveKind::Checksum: return outcome(sum(move));
    case MoveKind::Elements: return outcome(copy_elements(move));
    case MoveKind::Nonce: return outcome(choose_nonce(move));
    case MoveKind::Show: return outcome(show(move));
    case MoveKind::Hide: windows_.hide(move.to); return MoveOutcome::Done;
  }
  return MoveOutcome::Refused;
}

void DmaEngine::serve(Move& there, bool mixed) {
  Move move;
  std::memcpy(&move, &there, sizeof move);
  if (move.kind == MoveKind::None) return;
  there.kind = MoveKind::None;
  const bool of_windows = move.kind == MoveKind::Nonce || move.kind == MoveKind::Show || move.kind == MoveKind::Hide;
  const MoveOutcome outcome = mixed && !of_windows ? MoveOutcome::Refused : carry_out(move);
  there.pattern = move.pattern;
  std::atomic_ref(there.outcome).store(outcome, std::memory_order_release);
}

}  // namespace svp::array
