// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/control_block_ring.hpp"

#include <algorithm>
#include <span>
#include <tuple>
#include <utility>

#include "host_driver/base/crc32c.hpp"
#include "host_driver/base/mutants.hpp"
#include "host_driver/ras/state_log.hpp"
#include "host_driver/transport/guarded.hpp"

namespace svp {

namespace {

constexpr std::uint64_t block_offset(std::uint16_t slot) {
  return wire::kControlBlocks.offset + std::uint64_t{slot} * wire::kControlBlockSlotBytes;
}
constexpr std::uint64_t completion_offset(std::uint16_t slot) {
  return wire::kCompletions.offset + std::uint64_t{slot} * wire::kStickBytes;
}

unsigned sticks_of(const wire::ControlBlock& block, bool verbatim) {
  if (verbatim) return std::clamp<unsigned>(block.header.sticks, 1, wire::kMaxControlBlockSticks);
  return std::max(1u, wire::required_sticks(block));
}

std::uint32_t checksum(const wire::ControlBlockHeader& header, const wire::ControlBlock& block, std::size_t bytes) {
  const std::uint32_t crc = crc32c(0, std::as_bytes(std::span(&header, 1)));
  return crc32c(crc, {reinterpret_cast<const std::byte*>(&block.payload), bytes - sizeof header});
}

}  // namespace

ControlBlockRing::ControlBlockRing(Window& window, PackedQueue queue, const wire::DeviceConfig& config, bool with_crc,
                                   bool polled, FaultSite faults)
    : window_(window),
      polled_(polled),
      faults_(std::move(faults)),
      generation_(config.generation),
      credits_(std::min(config.stream_credits, wire::kStreamCredits)),
      streams_(config.streams),
      with_crc_(with_crc),
      queue_(std::move(queue)) {
  set_state(0, RingStreamState::Open);  // protocol §4: stream 0 is open from the start with incarnation 1
  stream_table_[0].incarnation = 1;
  // Blocks end where nothing may fail. A slot may be in flight, or offending, or (when the card lies) both.
  offending_.reserve(wire::kControlBlockSlots);
  ids_.reserve(2 * wire::kControlBlockSlots);
  ended_.reserve(2 * wire::kControlBlockSlots);
}

void ControlBlockRing::set_state(std::uint32_t stream, RingStreamState to) {
  ras::logged(stream, stream_table_[stream].state.change(to));
}

void ControlBlockRing::write_block(std::uint32_t index, std::uint16_t slot, Stream& stream,
                                   const ControlBlockRequest& request, bool verbatim) {
  wire::ControlBlockHeader header = request.block->header;
  const unsigned sticks = sticks_of(*request.block, verbatim);
  const std::size_t bytes = sticks * wire::kStickBytes;
  if (!verbatim) {
    header.magic = wire::kControlBlockMagic;
    header.sticks = static_cast<std::uint8_t>(sticks);
    header.stream = index;
    header.incarnation = stream.incarnation;
    header.generation = generation_;
    header.sequence = stream.next_sequence++;
    header.crc32c = 0;
    if (with_crc_) header.crc32c = checksum(header, *request.block, bytes);
  }
  slots_[slot] = {request.sink,      index,           header.stream, header.incarnation,
                  header.generation, header.sequence, header.cookie};
  std::uint64_t* to = window_.words(block_offset(slot));
  constexpr std::size_t kHeaderWords = sizeof header / 8;
  wire::store_shared_words(to, reinterpret_cast<const std::uint64_t*>(&header), kHeaderWords);
  wire::store_shared_words(to + kHeaderWords, request.block->payload.words, bytes / 8 - kHeaderWords);
  // A result that the card did not write must not look like one: outcome and sequence of an earlier block.
  wire::store_relaxed(*window_.words(completion_offset(slot)), ~std::uint64_t{0});
  const RingBuffer chain[2] = {{block_offset(slot), static_cast<std::uint32_t>(bytes), false},
                               {completion_offset(slot), wire::kStickBytes, true}};
  (void)queue_.add(chain);
}

ControlBlockRing::Submission ControlBlockRing::submit(std::uint32_t stream,
                                                      std::span<const ControlBlockRequest> requests, bool verbatim) {
  Submission result;
  if (stream >= streams_) {
    result.refusal = Refusal::NotOpen;
    return result;
  }
  Stream& state = stream_table_[stream];
  const std::lock_guard lock(mutex_);
  const RingStreamState taken = state.state.get();
  if (closed_ || taken != RingStreamState::Open) {
    result.refusal = closed_                            ? Refusal::Closed
                     : taken == RingStreamState::Closed ? Refusal::NotOpen
                                                        : Refusal::Resetting;
    if (result.refusal == Refusal::Resetting && !requests.empty()) mark_starved(stream);
    return result;
  }
  const std::uint32_t before = state.outstanding.load(std::memory_order_relaxed);
  const std::size_t limit = std::min<std::size_t>(requests.size(), credits_ - before);
  while (result.accepted < limit && queue_.can_add(2)) {
    write_block(stream, queue_.peek_id(), state, requests[result.accepted], verbatim);
    ++result.accepted;
  }
  if (result.accepted < requests.size()) mark_starved(stream);
  if (result.accepted == 0) return result;

  state.outstanding.store(before + static_cast<std::uint32_t>(result.accepted), std::memory_order_relaxed);
  // Nobody is there to look: ask for a doorbell before the card can see the blocks, so that none of them ends unheard.
  const bool first = outstanding_.fetch_add(result.accepted, std::memory_order_acq_rel) == 0;
  if (first && !reaping_ && !polled_) (void)queue_.arm();
  submitted_.fetch_add(result.accepted, std::memory_order_relaxed);
  queue_.publish();
  result.kick = queue_.kick_needed();
  return result;
}

void ControlBlockRing::mark_starved(std::uint32_t stream) {
  if (starved_[stream]) return;
  starved_.set(stream);
  starved_count_.fetch_add(1, std::memory_order_relaxed);
}

std::string ControlBlockRing::check(const Slot& slot, const wire::Completion& completion, std::uint32_t written) const {
  const auto mismatch = [&](const char* what, std::uint64_t is, std::uint64_t should) {
    return "the completion of stream " + std::to_string(slot.stream) + ", sequence " + std::to_string(slot.sequence) +
           " has " + what + " " + std::to_string(is) + " instead of " + std::to_string(should);
  };
  if (written != wire::kStickBytes) return mismatch("length", written, wire::kStickBytes);
  // The last two outcomes are the driver's to decide.
  if (completion.outcome > wire::Outcome::Aborted) {
    return mismatch("outcome", static_cast<std::uint64_t>(completion.outcome), 0);
  }
  if (completion.stream != slot.stream) return mismatch("stream", completion.stream, slot.stream);
  if (completion.incarnation != slot.incarnation)
    return mismatch("incarnation", completion.incarnation, slot.incarnation);
  if (completion.generation != slot.generation) return mismatch("generation", completion.generation, slot.generation);
  if (completion.sequence != slot.sequence) return mismatch("sequence", completion.sequence, slot.sequence);
  if (completion.cookie != slot.cookie) return mismatch("cookie", completion.cookie, slot.cookie);
  return {};
}

bool ControlBlockRing::inject(std::uint16_t id, const Slot& slot, wire::Completion& completion) {
  const auto shot = faults_.occur(fault::Point::Completion, {.stream = slot.stream, .sequence = slot.sequence});
  if (!shot) return false;
  if (shot->action == fault::Action::Corrupt) {
    reinterpret_cast<unsigned char*>(&completion)[shot->argument % sizeof completion] ^= 0xFF;
  }
  if (shot->action == fault::Action::Duplicate) queue_.repeat_used(id);
  if (shot->action != fault::Action::Suppress) return false;
  // It was given back, but for all that anybody knows it was not: outstanding until close().
  queue_.quarantine(id);
  offending_.push_back(id);
  return true;
}

void ControlBlockRing::flip_window_bits() {
  const auto shot = faults_.occur(fault::Point::Window, {});
  if (!shot) return;
  const auto bytes = window_.bytes();
  auto& byte = reinterpret_cast<unsigned char&>(bytes[shot->offset % bytes.size()]);
  std::atomic_ref(byte).fetch_xor(static_cast<unsigned char>(shot->argument));
}

void ControlBlockRing::release(const Slot& slot) {
  Stream& stream = stream_table_[slot.credit_stream];
  stream.outstanding.store(stream.outstanding.load(std::memory_order_relaxed) - 1, std::memory_order_release);
}

// A block that still lay in the ring when the card served its stream's reset meets an incarnation that is over. To its
// owner it is what the reset removed, as those that the card had fetched already (docs/recovery.md: ABORTED).
bool ControlBlockRing::overtaken_by_reset(const Stream& stream, const wire::Completion& completion) {
  return stream.state.get() == RingStreamState::Resetting && completion.outcome == wire::Outcome::Rejected &&
         completion.status == wire::Status::StaleIncarnation && completion.incarnation == stream.incarnation;
}

std::size_t ControlBlockRing::harvest(std::array<Ended, kHarvest>& ended) {
  std::size_t count = 0;
  if (!has_used()) return 0;
  const std::lock_guard lock(mutex_);
  if (faults_.armed(fault::Point::Window)) flip_window_bits();
  const bool injected = faults_.armed(fault::Point::Completion);
  while (count < kHarvest) {
    PackedQueue::Used used;
    const auto found = queue_.poll(used);
    if (found == PackedQueue::PollResult::Empty) break;
    if (found == PackedQueue::PollResult::Broken) {
      violation_ = text_or_less([&] { return queue_.violation(); });
      closed_ = dead_ = true;
      break;
    }
    const Slot& slot = slots_[used.id];
    Ended& end = ended[count];
    wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&end.completion),
                            window_.words(completion_offset(used.id)), sizeof end.completion / 8);
    if (injected && inject(used.id, slot, end.completion)) continue;
    violation_ = text_or_less([&] { return check(slot, end.completion, used.written); });
    if (!violation_.empty()) {
      offending_.push_back(used.id);  // ended by close(), as everything else that is outstanding
      closed_ = dead_ = true;         // its slot must not be used again before
      break;
    }
    if (overtaken_by_reset(stream_table_[slot.credit_stream], end.completion)) {
      end.completion.outcome = wire::Outcome::Aborted;
      end.completion.status = wire::Status::Stopped;
      end.completion.field = wire::Field::None;
    }
    end.sink = slot.sink;
    release(slot);
    ++count;
  }
  completed_.fetch_add(count, std::memory_order_relaxed);
  outstanding_.fetch_sub(count, std::memory_order_acq_rel);
  return count;
}

std::optional<ControlBlockRing::Starved> ControlBlockRing::next_starved() {
  const std::lock_guard lock(mutex_);
  if (closed_ || !queue_.can_add(2)) return std::nullopt;
  // Round robin, so that no stream's refills starve another's when the ring itself is short.
  for (std::uint32_t i = 0; i < streams_; ++i) {
    const std::uint32_t stream = (next_starved_ + i) % streams_;
    const Stream& state = stream_table_[stream];
    if (!starved_[stream] || state.outstanding.load(std::memory_order_relaxed) >= credits_) continue;
    if (state.state.get() == RingStreamState::Resetting) continue;
    starved_.reset(stream);
    starved_count_.fetch_sub(1, std::memory_order_relaxed);
    next_starved_ = stream + 1;
    if (state.credit_sink == nullptr) continue;
    return Starved{stream, state.credit_sink};
  }
  return std::nullopt;
}

void ControlBlockRing::enter_reaping() {
  const std::lock_guard lock(mutex_);
  reaping_ = true;
  if (!closed_) queue_.disarm();  // the memory of a closed ring may be another's by now
}

bool ControlBlockRing::leave_reaping() {
  const std::lock_guard lock(mutex_);
  reaping_ = false;
  return !closed_ && !polled_ && outstanding_.load(std::memory_order_relaxed) != 0 && queue_.arm();
}

bool ControlBlockRing::arm() {
  const std::lock_guard lock(mutex_);
  return !closed_ && queue_.arm();
}

void ControlBlockRing::disarm() {
  const std::lock_guard lock(mutex_);
  if (!closed_) queue_.disarm();
}

std::span<const ControlBlockRing::Ended> ControlBlockRing::end_all(std::span<const std::uint16_t> ids,
                                                                   OutstandingEnd how, wire::Status status) {
  std::vector<Ended>& ended = ended_;
  ended.clear();
  for (const std::uint16_t id : ids) {
    const Slot& slot = slots_[id];
    wire::Completion completion{};
    completion.stream = slot.stream;
    completion.incarnation = slot.incarnation;
    completion.generation = slot.generation;
    completion.sequence = slot.sequence;
    completion.cookie = slot.cookie;
    completion.status = status;
    switch (how) {
      case OutstandingEnd::Died: {
        const bool known =
            slot.stream < wire::kStreamsPerFunction && std::ranges::find(offending_, id) == offending_.end();
        const bool started = !known || window_.started_sequence(slot.stream) >= slot.sequence;
        completion.outcome = started ? wire::Outcome::Indeterminate : wire::Outcome::Lost;
        break;
      }
      case OutstandingEnd::Unknown: completion.outcome = wire::Outcome::Indeterminate; break;
      case OutstandingEnd::Removed: completion.outcome = wire::Outcome::Aborted; break;
    }
    if (how != OutstandingEnd::Removed && mutated(HostMutant::OutstandingEnd)) completion.outcome = wire::Outcome::Ok;
    ended.push_back({slot.sink, completion});
    release(slot);
  }
  std::ranges::sort(ended, {}, [](const Ended& e) { return std::tuple{e.completion.stream, e.completion.sequence}; });
  completed_.fetch_add(ended.size(), std::memory_order_relaxed);
  outstanding_.fetch_sub(ended.size(), std::memory_order_acq_rel);
  return ended;
}

std::span<const ControlBlockRing::Ended> ControlBlockRing::close(OutstandingEnd how) {
  const std::lock_guard lock(mutex_);
  closed_ = dead_ = true;
  ids_.clear();
  queue_.append_chains_in_flight(ids_);
  ids_.insert(ids_.end(), offending_.begin(), offending_.end());
  return end_all(ids_, how, how == OutstandingEnd::Removed ? wire::Status::FunctionResetting : wire::Status::None);
}

// ---- the whole queue ------------------------------------------------------------------------------------------------

bool ControlBlockRing::begin_queue_reset() {
  const std::lock_guard lock(mutex_);
  const auto resetting = [](const Stream& stream) { return stream.state.get() == RingStreamState::Resetting; };
  if (closed_ || std::ranges::any_of(stream_table_, resetting)) return false;
  for (std::uint32_t stream = 0; stream < streams_; ++stream) {
    if (state_of(stream) == RingStreamState::Open) set_state(stream, RingStreamState::Resetting);
  }
  return true;
}

std::span<const ControlBlockRing::Ended> ControlBlockRing::renew(PackedQueue queue) {
  const std::lock_guard lock(mutex_);
  ids_.clear();
  queue_.append_chains_in_flight(ids_);
  const auto ended = end_all(ids_, OutstandingEnd::Removed, wire::Status::Stopped);
  queue_ = std::move(queue);
  for (Stream& stream : stream_table_) {
    if (stream.state.get() == RingStreamState::Closed) continue;
    ++stream.incarnation;
    stream.next_sequence = 1;
  }
  return ended;
}

void ControlBlockRing::end_queue_reset() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t stream = 0; stream < streams_; ++stream) {
    if (state_of(stream) == RingStreamState::Resetting) set_state(stream, RingStreamState::Open);
  }
  end_refusals();
}

void ControlBlockRing::end_refusals() {
  if (any_starved()) credits_due_.store(true, std::memory_order_release);
}

// ---- streams --------------------------------------------------------------------------------------------------------

bool ControlBlockRing::open_stream(std::uint32_t stream, std::uint32_t incarnation) {
  if (stream >= streams_) return false;
  const std::lock_guard lock(mutex_);
  Stream& state = stream_table_[stream];
  if (state.state.get() != RingStreamState::Closed) return false;
  set_state(stream, RingStreamState::Open);
  state.incarnation = incarnation;
  state.next_sequence = 1;
  state.credit_sink = nullptr;
  return true;
}

std::optional<std::uint32_t> ControlBlockRing::begin_reset(std::uint32_t stream) {
  if (stream >= streams_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Stream& state = stream_table_[stream];
  if (state.state.get() != RingStreamState::Open) return std::nullopt;
  set_state(stream, RingStreamState::Resetting);
  return state.incarnation;
}

void ControlBlockRing::end_reset(std::uint32_t stream, std::uint32_t incarnation) {
  const std::lock_guard lock(mutex_);
  Stream& state = stream_table_[stream];
  set_state(stream, RingStreamState::Open);
  state.incarnation = incarnation;
  state.next_sequence = 1;
  end_refusals();
}

void ControlBlockRing::end_failed_reset(std::uint32_t stream) {
  const std::lock_guard lock(mutex_);
  set_state(stream, RingStreamState::Open);
  end_refusals();
}

void ControlBlockRing::close_stream(std::uint32_t stream) {
  const std::lock_guard lock(mutex_);
  Stream& state = stream_table_[stream];
  set_state(stream, RingStreamState::Closed);
  // Who was refused meanwhile submits once more and is told that the stream is not open.
  if (starved_[stream]) return end_refusals();
  state.credit_sink = nullptr;
}

bool ControlBlockRing::is_open(std::uint32_t stream) const {
  if (stream >= streams_) return false;
  const std::lock_guard lock(mutex_);
  return state_of(stream) != RingStreamState::Closed;
}

bool ControlBlockRing::is_resetting(std::uint32_t stream) const {
  if (stream >= streams_) return false;
  const std::lock_guard lock(mutex_);
  return state_of(stream) == RingStreamState::Resetting;
}

std::uint32_t ControlBlockRing::incarnation(std::uint32_t stream) const {
  if (stream >= streams_) return 0;
  const std::lock_guard lock(mutex_);
  return stream_table_[stream].incarnation;
}

std::size_t ControlBlockRing::outstanding(std::uint32_t stream) const {
  return stream < streams_ ? stream_table_[stream].outstanding.load(std::memory_order_acquire) : 0;
}

void ControlBlockRing::set_credit_sink(std::uint32_t stream, CreditSink* sink) {
  if (stream >= streams_) return;
  const std::lock_guard lock(mutex_);
  stream_table_[stream].credit_sink = sink;
}

}  // namespace svp
