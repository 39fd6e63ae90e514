// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/firmware/core/raw_driver.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"

namespace fwtest {

using namespace std::chrono_literals;

namespace {
constexpr auto kAnswerBound = 20s;  // of a wait in a test, also under a sanitizer on a busy machine

bool until(const std::function<bool()>& done, const std::function<void()>& pump) {
  const auto limit = std::chrono::steady_clock::now() + kAnswerBound;
  for (;;) {
    if (done()) return true;
    if (std::chrono::steady_clock::now() > limit) return false;
    pump();
  }
}
}  // namespace

// ---- ring ---------------------------------------------------------------------------------------------------------------

RawRing::RawRing(std::span<std::byte> window, std::uint16_t size, std::uint64_t descriptors, std::uint64_t driver_area,
                 std::uint64_t device_area)
    : window_(window),
      descriptors_(descriptors),
      driver_area_(driver_area),
      device_area_(device_area),
      size_(size),
      slots_of_(65536, 1) {
  for (std::uint16_t i = 0; i < size; ++i) {
    abi::store_relaxed<std::uint64_t>(words(i).address, 0);
    abi::store_relaxed<std::uint64_t>(words(i).tail, 0);
  }
  ask({0, false, abi::EventFlags::Disable});
}

abi::DescriptorWords& RawRing::words(std::uint16_t at) const {
  return reinterpret_cast<abi::DescriptorWords*>(window_.data() + descriptors_)[at];
}

void RawRing::advance(std::uint16_t& at, bool& wrap, unsigned by) const {
  for (; by > 0; --by) {
    if (++at == size_) {
      at = 0;
      wrap = !wrap;
    }
  }
}

void RawRing::add_raw(std::uint16_t id, std::uint64_t address, std::uint32_t length, std::uint16_t flags) {
  const auto all = static_cast<std::uint16_t>(flags | abi::avail_flags(avail_wrap_));
  abi::store_relaxed(words(next_avail_).address, address);
  abi::store_release(words(next_avail_).tail, abi::pack_tail({length, id, all}));
  advance(next_avail_, avail_wrap_, 1);
  ++added_;
  ++in_flight_;
}

void RawRing::skip(unsigned slots) {
  advance(next_avail_, avail_wrap_, slots);
  added_ = static_cast<std::uint16_t>(added_ + slots);
  in_flight_ += slots;
}

void RawRing::add(std::uint16_t id, std::span<const RawBuffer> chain) {
  std::uint16_t at = next_avail_;
  bool wrap = avail_wrap_;
  std::uint64_t head_tail = 0;
  for (std::size_t i = 0; i < chain.size(); ++i) {
    const bool last = i + 1 == chain.size();
    const auto flags = static_cast<std::uint16_t>(abi::avail_flags(wrap) | (chain[i].writable ? abi::kDescWrite : 0) |
                                                  (last ? 0 : abi::kDescNext));
    // Only the last descriptor's id counts: all others carry rubbish.
    const auto its_id = static_cast<std::uint16_t>(last ? id : ~id);
    const std::uint64_t tail = abi::pack_tail({chain[i].bytes, its_id, flags});
    abi::store_relaxed(words(at).address, chain[i].offset);
    if (i == 0) {
      head_tail = tail;
    } else {
      abi::store_relaxed(words(at).tail, tail);
    }
    advance(at, wrap, 1);
  }
  abi::store_release(words(next_avail_).tail, head_tail);
  const auto slots = static_cast<std::uint16_t>(chain.size());
  advance(next_avail_, avail_wrap_, slots);
  slots_of_[id] = slots;
  added_ = static_cast<std::uint16_t>(added_ + slots);
  in_flight_ += slots;
}

void RawRing::add_indirect(std::uint16_t id, std::uint64_t table, std::span<const RawBuffer> chain) {
  for (std::size_t i = 0; i < chain.size(); ++i) {
    auto& entry = reinterpret_cast<abi::DescriptorWords*>(window_.data() + table)[i];
    abi::store_relaxed(entry.address, chain[i].offset);
    abi::store_relaxed(entry.tail,
                       abi::pack_tail({chain[i].bytes, 0, chain[i].writable ? abi::kDescWrite : std::uint16_t{0}}));
  }
  add_raw(id, table, static_cast<std::uint32_t>(chain.size() * sizeof(abi::Descriptor)), abi::kDescIndirect);
  slots_of_[id] = 1;
}

std::uint32_t RawRing::card_event_word() const {
  return abi::load_relaxed(*reinterpret_cast<std::uint32_t*>(window_.data() + device_area_));
}

bool RawRing::bell_wanted(bool event_idx) {
  abi::full_fence();
  const auto event = abi::unpack_event(card_event_word());
  const std::uint16_t added = added_;
  added_ = 0;
  return added != 0 && abi::wants_notification(event, event_idx, next_avail_, avail_wrap_, added, size_);
}

bool RawRing::has_used() const {
  return abi::is_used(abi::unpack_tail(abi::load_acquire(words(next_used_).tail)).flags, used_wrap_);
}

std::optional<UsedElement> RawRing::poll() {
  const auto tail = abi::unpack_tail(abi::load_acquire(words(next_used_).tail));
  if (size_ == 0 || in_flight_ == 0 || !abi::is_used(tail.flags, used_wrap_)) return std::nullopt;
  const unsigned slots = slots_of_[tail.id];
  advance(next_used_, used_wrap_, slots);
  in_flight_ -= slots;
  return UsedElement{tail.id, tail.length, (tail.flags & abi::kDescWrite) != 0};
}

void RawRing::ask(abi::EventSuppression event) {
  abi::store_relaxed(*reinterpret_cast<std::uint32_t*>(window_.data() + driver_area_), abi::pack_event(event));
}

// ---- control FIFO -------------------------------------------------------------------------------------------------------

RawDriver::RawDriver(std::span<std::byte> window, std::function<void()> pump)
    : window_(window),
      pump_(std::move(pump)),
      fifo_read_(abi::load_relaxed(at<abi::Fifo>(abi::kFifoToHost.offset)->written)) {
  abi::store_release(at<abi::Fifo>(abi::kFifoToHost.offset)->read, fifo_read_);
}

void RawDriver::send(const abi::Message& message) {
  auto& fifo = *at<abi::Fifo>(abi::kFifoToCard.offset);
  fifo_written_ = abi::load_relaxed(fifo.written);
  abi::store_shared_words(reinterpret_cast<std::uint64_t*>(&fifo.slots[fifo_written_ % abi::kFifoSlots]),
                          reinterpret_cast<const std::uint64_t*>(&message), sizeof message / 8);
  abi::store_release(fifo.written, ++fifo_written_);
}

std::optional<abi::Message> RawDriver::receive() {
  auto& fifo = *at<abi::Fifo>(abi::kFifoToHost.offset);
  if (abi::load_acquire(fifo.written) == fifo_read_) return std::nullopt;
  abi::Message message;
  abi::copy_shared_words(reinterpret_cast<std::uint64_t*>(&message),
                         reinterpret_cast<const std::uint64_t*>(&fifo.slots[fifo_read_ % abi::kFifoSlots]),
                         sizeof message / 8);
  abi::store_release(fifo.read, ++fifo_read_);
  return message;
}

std::optional<abi::Message> RawDriver::call(const abi::Message& message) {
  send(message);
  std::optional<abi::Message> answer;
  until(
      [&] {
        answer = receive();
        // Events and late answers to others are not ours.
        if (answer && (answer->header.token != message.header.token || (answer->header.type & 1) == 0)) answer.reset();
        return answer.has_value();
      },
      pump_);
  return answer;
}

std::uint32_t RawDriver::set_status(std::uint32_t status) {
  const auto answer = call(request(abi::MessageOp::SetDeviceStatus, abi::StatusValue{status}));
  abi::StatusValue value{~0u};
  if (answer) abi::read_payload(*answer, value);
  return value.status;
}

bool RawDriver::set_features(std::uint64_t features) {
  const auto answer = call(request(
      abi::MessageOp::SetDriverFeatures,
      abi::FeatureBlocks{0, 2, {static_cast<std::uint32_t>(features), static_cast<std::uint32_t>(features >> 32)}}));
  abi::FeatureBlocks echoed;
  if (!answer || !abi::read_payload(*answer, echoed)) return false;
  features_ = features;
  return true;
}

bool RawDriver::set_queue(std::uint32_t queue) {
  const auto& layout = abi::kQueueLayouts[queue];
  rings_[queue] = RawRing(window_, layout.size, layout.descriptors, layout.driver_area, layout.device_area);
  const auto answer =
      call(request(abi::MessageOp::SetVirtqueue, abi::SetQueue{queue, 0, layout.size, 0, layout.descriptors,
                                                               layout.driver_area, layout.device_area}));
  abi::QueueState state;
  return answer && abi::read_payload(*answer, state) && state.size == layout.size;
}

bool RawDriver::reset_queue(std::uint32_t queue) {
  const auto answer = call(request(abi::MessageOp::ResetVirtqueue, abi::QueueIndex{queue}));
  abi::QueueIndex index;
  return answer && abi::read_payload(*answer, index) && index.index == queue;
}

abi::DeviceConfig RawDriver::config() {
  abi::DeviceConfig config{};
  for (std::uint32_t offset = 0; offset < sizeof config;) {
    const std::uint32_t bytes = std::min<std::uint32_t>(abi::kConfigChunk, sizeof config - offset);
    const auto answer = call(request(abi::MessageOp::GetConfig, abi::ConfigRange{offset, bytes}));
    abi::ConfigData data;
    if (!answer || !abi::read_payload(*answer, data) || data.bytes != bytes) {
      ADD_FAILURE() << "no config space at " << offset;
      break;
    }
    std::memcpy(reinterpret_cast<std::byte*>(&config) + offset, data.data, bytes);
    offset += bytes;
  }
  return config;
}

void RawDriver::forget_blocks() {
  slot_busy_.fill(false);
  free_slots_ = abi::kControlBlockSlots;
}

void RawDriver::forget() {
  forget_blocks();
  admin_busy_.fill(false);
  rings_ = {};
}

bool RawDriver::bring_up(std::uint64_t features) {
  forget();
  if (set_status(0) != 0) return false;
  constexpr std::uint32_t kAckDriver = abi::kStatusAcknowledge | abi::kStatusDriver;
  if (set_status(abi::kStatusAcknowledge) != abi::kStatusAcknowledge || set_status(kAckDriver) != kAckDriver) {
    return false;
  }
  if (!set_features(features)) return false;
  if (set_status(kAckDriver | abi::kStatusFeaturesOk) != (kAckDriver | abi::kStatusFeaturesOk)) return false;
  for (std::uint32_t queue = 0; queue < abi::kQueueCount; ++queue) {
    if (!set_queue(queue)) return false;
  }
  generation_ = config().generation;
  constexpr std::uint32_t kAll = kAckDriver | abi::kStatusFeaturesOk | abi::kStatusDriverOk;
  return set_status(kAll) == kAll;
}

// ---- admin --------------------------------------------------------------------------------------------------------------

abi::AdminRequest RawDriver::admin_request(abi::AdminCommand command) const {
  abi::AdminRequest request{};
  request.magic = abi::kAdminMagic;
  request.command = command;
  request.generation = generation_;
  return request;
}

std::uint16_t RawDriver::send_admin(abi::AdminRequest request) {
  const auto free = std::find(admin_busy_.begin(), admin_busy_.end(), false);
  if (free == admin_busy_.end()) {
    ADD_FAILURE() << "no admin slot free";
    return 0;
  }
  const auto slot = static_cast<std::uint16_t>(free - admin_busy_.begin());
  *free = true;
  admin_done_[slot] = false;
  const std::uint64_t from = abi::kAdminRequests.offset + slot * abi::kStickBytes;
  const std::uint64_t to = abi::kAdminReplies.offset + slot * abi::kStickBytes;
  abi::store_shared_words(at<std::uint64_t>(from), reinterpret_cast<const std::uint64_t*>(&request),
                          sizeof request / 8);
  const RawBuffer chain[] = {{from, abi::kStickBytes, false}, {to, abi::kStickBytes, true}};
  rings_[abi::kAdminQueue].add(slot, chain);
  return slot;
}

void RawDriver::poll_admin() {
  while (const auto used = rings_[abi::kAdminQueue].poll()) {
    ASSERT_LT(used->id, abi::kAdminSlots);
    EXPECT_TRUE(admin_busy_[used->id] && !admin_done_[used->id]) << "admin command answered twice";
    admin_done_[used->id] = true;
  }
}

std::optional<abi::AdminReply> RawDriver::wait_admin(std::uint16_t slot) {
  const bool came = until(
      [&] {
        poll_admin();
        return admin_done_[slot];
      },
      pump_);
  if (!came) return std::nullopt;
  abi::AdminReply reply;
  abi::copy_shared_words(reinterpret_cast<std::uint64_t*>(&reply),
                         at<std::uint64_t>(abi::kAdminReplies.offset + slot * abi::kStickBytes), sizeof reply / 8);
  admin_busy_[slot] = false;
  return reply;
}

abi::AdminReply RawDriver::admin(const abi::AdminRequest& request) {
  abi::AdminRequest with_cookie = request;
  with_cookie.cookie = ++cookie_;
  const auto reply = wait_admin(send_admin(with_cookie));
  if (!reply) {
    ADD_FAILURE() << "no reply to " << name(request.command);
    return {};
  }
  EXPECT_EQ(reply->cookie, with_cookie.cookie);
  return *reply;
}

std::optional<RegionHandle> RawDriver::acquire(std::uint64_t bytes, abi::RegionType type) {
  auto request = admin_request(abi::AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {bytes, type};
  const auto reply = admin(request);
  if (reply.outcome != abi::Outcome::Ok) return std::nullopt;
  return RegionHandle{reply.values.region.region_id, reply.values.region.generation, reply.values.region.bytes};
}

abi::AdminReply RawDriver::release(const RegionHandle& region) {
  auto request = admin_request(abi::AdminCommand::RegionRelease);
  request.arguments.region_release = {region.id, region.generation};
  return admin(request);
}

std::optional<StreamHandle> RawDriver::open_stream(bool high) {
  auto request = admin_request(abi::AdminCommand::StreamOpen);
  request.arguments.stream_open.priority = high ? 1 : 0;
  const auto reply = admin(request);
  if (reply.outcome != abi::Outcome::Ok) return std::nullopt;
  return StreamHandle{reply.values.stream.stream, reply.values.stream.incarnation, 1};
}

abi::AdminRequest RawDriver::stream_request(abi::AdminCommand command, const StreamHandle& stream) const {
  auto request = admin_request(command);
  request.arguments.stream = {stream.id, stream.incarnation};
  return request;
}

abi::AdminReply RawDriver::reset_stream(StreamHandle& stream) {
  const auto reply = admin(stream_request(abi::AdminCommand::StreamReset, stream));
  if (reply.outcome == abi::Outcome::Ok) stream = {stream.id, reply.values.stream.incarnation, 1};
  return reply;
}

// ---- control blocks -----------------------------------------------------------------------------------------------------

abi::ControlBlock RawDriver::nop(StreamHandle& stream) {
  abi::ControlBlock block{};
  auto& header = block.header;
  header.magic = abi::kControlBlockMagic;
  header.opcode = abi::Opcode::Nop;
  header.sticks = 1;
  header.stream = stream.id;
  header.incarnation = stream.incarnation;
  header.generation = generation_;
  header.sequence = stream.next_sequence++;
  header.cookie = ++cookie_;
  seal(block);
  return block;
}

abi::ControlBlock RawDriver::fill(StreamHandle& stream, const RegionHandle& region, std::uint64_t offset,
                                  std::uint64_t bytes, std::uint64_t pattern) {
  auto block = nop(stream);
  block.header.opcode = abi::Opcode::Fill;
  block.payload.fill = {device(region, offset), bytes, pattern, {}};
  seal(block);
  return block;
}

abi::ControlBlock RawDriver::dma(StreamHandle& stream, const abi::Endpoint& from, const abi::Endpoint& to,
                                 std::uint64_t bytes) {
  auto block = nop(stream);
  block.header.opcode = abi::Opcode::Dma;
  block.payload.dma = {from, to, bytes, 0, 0};
  seal(block);
  return block;
}

abi::ControlBlock RawDriver::compute(StreamHandle& stream, const RegionHandle& program, std::uint64_t offset,
                                     std::uint64_t bytes, std::uint64_t core_mask) {
  auto block = nop(stream);
  block.header.opcode = abi::Opcode::Compute;
  block.header.sticks = 4;
  block.payload.compute.image = device(program, offset);
  block.payload.compute.image_bytes = bytes;
  block.payload.compute.core_mask = core_mask;
  seal(block);
  return block;
}

void RawDriver::seal(abi::ControlBlock& block) const {
  block.header.crc32c = 0;
  if ((features_ & abi::kFeatureControlBlockCrc) == 0) return;
  block.header.crc32c = abi::crc32c(0, &block, block.header.sticks * abi::kStickBytes);
}

std::uint16_t RawDriver::submit(const abi::ControlBlock& block) { return submit_sticks(block, block.header.sticks); }

std::uint16_t RawDriver::submit_sticks(const abi::ControlBlock& block, unsigned sticks) {
  const auto free = std::find(slot_busy_.begin(), slot_busy_.end(), false);
  if (free == slot_busy_.end()) {
    ADD_FAILURE() << "no control-block slot free";
    return 0;
  }
  const auto slot = static_cast<std::uint16_t>(free - slot_busy_.begin());
  *free = true;
  --free_slots_;
  const std::uint64_t from = abi::kControlBlocks.offset + slot * std::uint64_t{abi::kControlBlockSlotBytes};
  const std::uint64_t to = abi::kCompletions.offset + slot * abi::kStickBytes;
  abi::store_shared_words(at<std::uint64_t>(from), reinterpret_cast<const std::uint64_t*>(&block),
                          sticks * abi::kStickBytes / 8);
  const RawBuffer chain[] = {{from, static_cast<std::uint32_t>(sticks * abi::kStickBytes), false},
                             {to, abi::kStickBytes, true}};
  rings_[abi::kControlBlockQueue].add(slot, chain);
  return slot;
}

std::vector<Ended> RawDriver::collect() {
  std::vector<Ended> ended;
  while (const auto used = rings_[abi::kControlBlockQueue].poll()) {
    if (used->id >= abi::kControlBlockSlots || !slot_busy_[used->id]) {
      ADD_FAILURE() << "block " << used->id << " ended without having been submitted, or twice";
      continue;
    }
    slot_busy_[used->id] = false;
    ++free_slots_;
    Ended& end = ended.emplace_back(Ended{used->id, used->written, {}});
    abi::copy_shared_words(reinterpret_cast<std::uint64_t*>(&end.completion),
                           at<std::uint64_t>(abi::kCompletions.offset + used->id * abi::kStickBytes),
                           sizeof end.completion / 8);
  }
  return ended;
}

std::vector<Ended> RawDriver::wait_for(std::size_t count) {
  std::vector<Ended> all;
  const bool came = until(
      [&] {
        const auto some = collect();
        all.insert(all.end(), some.begin(), some.end());
        return all.size() >= count;
      },
      pump_);
  if (!came) ADD_FAILURE() << "only " << all.size() << " of " << count << " blocks ended";
  return all;
}

abi::Completion RawDriver::run(const abi::ControlBlock& block) {
  submit(block);
  const auto ended = wait_for(1);
  if (ended.size() != 1) {
    ADD_FAILURE() << ended.size() << " completions for one block";
    return {};
  }
  return ended.front().completion;
}

void RawDriver::post_event_buffers(unsigned count) {
  for (std::uint16_t i = 0; i < count; ++i) {
    const RawBuffer buffer[] = {{abi::kEvents.offset + i * abi::kStickBytes, abi::kStickBytes, true}};
    rings_[abi::kEventQueue].add(i, buffer);
  }
}

std::vector<abi::DeviceEvent> RawDriver::events() {
  std::vector<abi::DeviceEvent> all;
  while (const auto used = rings_[abi::kEventQueue].poll()) {
    abi::DeviceEvent& event = all.emplace_back();
    abi::copy_shared_words(reinterpret_cast<std::uint64_t*>(&event),
                           at<std::uint64_t>(abi::kEvents.offset + used->id * abi::kStickBytes), sizeof event / 8);
  }
  return all;
}

}  // namespace fwtest
