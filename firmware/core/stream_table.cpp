// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/stream_table.hpp"

#include "firmware/mutants/mutants.hpp"

namespace fw {

void StreamTable::reset(bool first_open) {
  for (Stream& stream : streams_) {
    const bool banned = stream.banned && mutated(Mutant::BanEnds);
    stream = Stream{};
    stream.banned = banned;
    stream.incarnation = 1;
  }
  if (first_open) set_state(0, StreamState::Open);
  runnable_ = StreamSet{};
  waiting_ = StreamSet{};
  checks_images_ = false;
  stalls_end_ = kNever;
  blocks_.init();
}

void StreamTable::remove(unsigned s, std::uint16_t before, std::uint16_t block) {
  Stream& stream = streams_[s];
  const std::uint16_t next = blocks_[block].next;
  (before == kNoBlock ? stream.head : blocks_[before].next) = next;
  if (stream.tail == block) stream.tail = before;
  --stream.count;
  if (before != kNoBlock) return;
  // It was the head, which perhaps waited for room on the cores.
  waiting_.remove(s, stream.high_priority);
  settle_runnable(s);
}

void StreamTable::call_waiting() {
  const unsigned s = waiting_.next();
  const Stream& stream = streams_[s];
  waiting_.remove(s, stream.high_priority);
  if (stream.head != kNoBlock && stream.phase != Stream::Phase::Computing) resume(s);
}

void StreamTable::restart_image_checks(hal::PhysicalAddress address, std::uint64_t bytes) {
  checks_images_ = false;
  for (const Stream& stream : streams_) {
    if (stream.head == kNoBlock) continue;
    ImageCheck& check = blocks_[stream.head].image;
    if (check.overlaps(address, bytes)) check = {};
    checks_images_ |= check.summed != 0;
  }
}

}  // namespace fw
