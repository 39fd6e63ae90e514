// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/card_trace.hpp"

#include <atomic>
#include <utility>

#include "shared/memory_order.hpp"

namespace svp {

using wire::TraceEntry;
using wire::TraceKind;

namespace {

bool sound(const TraceEntry& entry) {
  return entry.kind != TraceKind::None && entry.kind <= wire::kLastTraceKind && entry.begin <= entry.end &&
         entry.stream < wire::kStreamsPerFunction;
}

trace::Kind kind_of(TraceKind kind) {
  switch (kind) {
    case TraceKind::Queued: return trace::Kind::CardQueued;
    case TraceKind::Slice: return trace::Kind::CardSlice;
    case TraceKind::Mark: return trace::Kind::CardMark;
    case TraceKind::Ahead: return trace::Kind::CardAhead;
    case TraceKind::Array: return trace::Kind::CardArray;
    case TraceKind::None:
    case TraceKind::Lost: break;
  }
  return trace::Kind::CardLost;
}

}  // namespace

// The place of `next_` holds a later entry: what lay between is gone, but for the ring's last round.
void CardTrace::skip_to(std::uint64_t number) {
  const std::uint64_t oldest = number - wire::kTraceEntries + 1;
  missed_ += oldest - next_;
  next_ = oldest;
}

void CardTrace::drain() {
  if (wire::load_relaxed(place(next_).number) < next_) return;
  const std::uint64_t now = trace::Recorder::now();
  for (std::uint64_t looked = 0; looked < wire::kTraceEntries; ++looked) {
    TraceEntry& from = place(next_);
    const std::uint64_t number = wire::load_acquire(from.number);
    if (number < next_) break;
    if (number != next_) {
      // A card that counts on by itself leaves the place's own round; any other number is none of its.
      const bool later = (number - next_) % wire::kTraceEntries == 0;
      if (!later) break;
      skip_to(number);
      continue;
    }
    TraceEntry entry;
    wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&entry), reinterpret_cast<const std::uint64_t*>(&from),
                            sizeof entry / 8);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (wire::load_relaxed(from.number) != number) continue;  // overwritten meanwhile: the next look skips
    ++next_;
    if (sound(entry)) {
      record(entry, now);
    } else {
      ++missed_;
    }
  }
  if (missed_ != 0) record_lost(std::exchange(missed_, 0), now);
}

void CardTrace::record(const TraceEntry& entry, std::uint64_t now) {
  if (entry.kind == TraceKind::Lost) return record_lost(entry.value, now);
  trace::Record* const record = recorder_.take(kind_of(entry.kind));
  if (record == nullptr) return;
  record->begin = record->end = now;
  record->device_begin = entry.begin;
  record->device_end = entry.end;
  record->card = card_;
  record->stream = entry.stream;
  record->sequence = entry.sequence;
  record->core = entry.core;
  record->bytes = entry.value;
  trace::Recorder::commit(*record);
}

void CardTrace::record_lost(std::uint64_t entries, std::uint64_t now) {
  trace::Record* const record = recorder_.take(trace::Kind::CardLost);
  if (record == nullptr) return;
  record->begin = record->end = now;
  record->card = card_;
  record->bytes = entries;
  trace::Recorder::commit(*record);
}

}  // namespace svp
