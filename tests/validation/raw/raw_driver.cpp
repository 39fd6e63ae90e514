// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/raw/raw_driver.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string>

#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"
#include "tests/support/blocks.hpp"
#include "tests/validation/bounds.hpp"

namespace raw {

using namespace std::chrono_literals;
using svp::test::Blocks;

namespace {

[[noreturn]] void broken(const std::string& what) { throw Broken(what); }

bool until(const std::function<bool()>& done, const std::function<void()>& pump) {
  const auto limit = std::chrono::steady_clock::now() + campaign_bounds::kTimeout;
  for (;;) {
    if (done()) return true;
    if (std::chrono::steady_clock::now() > limit) return false;
    pump();
  }
}
}  // namespace

// ---- ring -----------------------------------------------------------------------------------------------------------

RawRing::RawRing(std::span<std::byte> window, std::uint16_t size, std::uint64_t descriptors, std::uint64_t driver_area,
                 std::uint64_t device_area)
    : window_(window),
      descriptors_(descriptors),
      driver_area_(driver_area),
      device_area_(device_area),
      size_(size),
      slots_of_(65536, 1) {
  for (std::uint16_t i = 0; i < size; ++i) {
    wire::store_relaxed<std::uint64_t>(words(i).address, 0);
    wire::store_relaxed<std::uint64_t>(words(i).tail, 0);
  }
  ask({0, false, wire::EventFlags::Disable});
}

wire::DescriptorWords& RawRing::words(std::uint16_t at) const {
  return reinterpret_cast<wire::DescriptorWords*>(window_.data() + descriptors_)[at];
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
  const auto all = static_cast<std::uint16_t>(flags | wire::avail_flags(avail_wrap_));
  wire::store_relaxed(words(next_avail_).address, address);
  wire::store_release(words(next_avail_).tail, wire::pack_tail({length, id, all}));
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
    const auto flags = static_cast<std::uint16_t>(wire::avail_flags(wrap) | (chain[i].writable ? wire::kDescWrite : 0) |
                                                  (last ? 0 : wire::kDescNext));
    // Only the last descriptor's id counts: all others carry rubbish.
    const auto its_id = static_cast<std::uint16_t>(last ? id : ~id);
    const std::uint64_t tail = wire::pack_tail({chain[i].bytes, its_id, flags});
    wire::store_relaxed(words(at).address, chain[i].offset);
    if (i == 0) {
      head_tail = tail;
    } else {
      wire::store_relaxed(words(at).tail, tail);
    }
    advance(at, wrap, 1);
  }
  wire::store_release(words(next_avail_).tail, head_tail);
  const auto slots = static_cast<std::uint16_t>(chain.size());
  advance(next_avail_, avail_wrap_, slots);
  slots_of_[id] = slots;
  added_ = static_cast<std::uint16_t>(added_ + slots);
  in_flight_ += slots;
}

void RawRing::add_indirect(std::uint16_t id, std::uint64_t table, std::span<const RawBuffer> chain) {
  for (std::size_t i = 0; i < chain.size(); ++i) {
    auto& entry = reinterpret_cast<wire::DescriptorWords*>(window_.data() + table)[i];
    wire::store_relaxed(entry.address, chain[i].offset);
    wire::store_relaxed(entry.tail,
                        wire::pack_tail({chain[i].bytes, 0, chain[i].writable ? wire::kDescWrite : std::uint16_t{0}}));
  }
  add_raw(id, table, static_cast<std::uint32_t>(chain.size() * sizeof(wire::Descriptor)), wire::kDescIndirect);
  slots_of_[id] = 1;
}

std::uint32_t RawRing::card_event_word() const {
  return wire::load_relaxed(*reinterpret_cast<std::uint32_t*>(window_.data() + device_area_));
}

bool RawRing::doorbell_wanted(bool event_idx) {
  wire::full_fence();
  const auto event = wire::unpack_event(card_event_word());
  const std::uint16_t added = added_;
  added_ = 0;
  return added != 0 && wire::wants_notification(event, event_idx, next_avail_, avail_wrap_, added, size_);
}

bool RawRing::has_used() const {
  return wire::is_used(wire::unpack_tail(wire::load_acquire(words(next_used_).tail)).flags, used_wrap_);
}

std::optional<UsedElement> RawRing::poll() {
  const auto tail = wire::unpack_tail(wire::load_acquire(words(next_used_).tail));
  if (size_ == 0 || in_flight_ == 0 || !wire::is_used(tail.flags, used_wrap_)) return std::nullopt;
  const unsigned slots = slots_of_[tail.id];
  advance(next_used_, used_wrap_, slots);
  in_flight_ -= slots;
  return UsedElement{tail.id, tail.length, (tail.flags & wire::kDescWrite) != 0};
}

void RawRing::ask(wire::EventSuppression event) {
  wire::store_relaxed(*reinterpret_cast<std::uint32_t*>(window_.data() + driver_area_), wire::pack_event(event));
}

// ---- control FIFO ---------------------------------------------------------------------------------------------------

RawDriver::RawDriver(std::span<std::byte> window, std::function<void()> pump)
    : window_(window),
      pump_(std::move(pump)),
      fifo_read_(wire::load_relaxed(at<wire::Fifo>(wire::kFifoToHost.offset)->written)) {
  wire::store_release(at<wire::Fifo>(wire::kFifoToHost.offset)->read, fifo_read_);
}

void RawDriver::send(const wire::Message& message) {
  auto& fifo = *at<wire::Fifo>(wire::kFifoToCard.offset);
  fifo_written_ = wire::load_relaxed(fifo.written);
  wire::store_shared_words(reinterpret_cast<std::uint64_t*>(&fifo.slots[fifo_written_ % wire::kFifoSlots]),
                           reinterpret_cast<const std::uint64_t*>(&message), sizeof message / 8);
  wire::store_release(fifo.written, ++fifo_written_);
}

std::optional<wire::Message> RawDriver::receive() {
  auto& fifo = *at<wire::Fifo>(wire::kFifoToHost.offset);
  if (wire::load_acquire(fifo.written) == fifo_read_) return std::nullopt;
  wire::Message message;
  wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&message),
                          reinterpret_cast<const std::uint64_t*>(&fifo.slots[fifo_read_ % wire::kFifoSlots]),
                          sizeof message / 8);
  wire::store_release(fifo.read, ++fifo_read_);
  return message;
}

std::optional<wire::Message> RawDriver::call(const wire::Message& message) {
  send(message);
  std::optional<wire::Message> answer;
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
  const auto answer = call(request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{status}));
  wire::StatusValue value{~0u};
  if (answer) wire::read_payload(*answer, value);
  return value.status;
}

bool RawDriver::set_features(std::uint64_t features) {
  const auto answer = call(request(
      wire::MessageOp::SetDriverFeatures,
      wire::FeatureBlocks{0, 2, {static_cast<std::uint32_t>(features), static_cast<std::uint32_t>(features >> 32)}}));
  wire::FeatureBlocks echoed;
  if (!answer || !wire::read_payload(*answer, echoed)) return false;
  features_ = features;
  return true;
}

bool RawDriver::set_queue(std::uint32_t queue) {
  const auto& layout = wire::kQueueLayouts[queue];
  rings_[queue] = RawRing(window_, layout.size, layout.descriptors, layout.driver_area, layout.device_area);
  const auto answer =
      call(request(wire::MessageOp::SetVirtqueue, wire::SetQueue{queue, 0, layout.size, 0, layout.descriptors,
                                                                 layout.driver_area, layout.device_area}));
  wire::QueueState state;
  return answer && wire::read_payload(*answer, state) && state.size == layout.size;
}

bool RawDriver::reset_queue(std::uint32_t queue) {
  const auto answer = call(request(wire::MessageOp::ResetVirtqueue, wire::QueueIndex{queue}));
  wire::QueueIndex index;
  return answer && wire::read_payload(*answer, index) && index.index == queue;
}

wire::DeviceConfig RawDriver::config() {
  wire::DeviceConfig config{};
  for (std::uint32_t offset = 0; offset < sizeof config;) {
    const std::uint32_t bytes = std::min<std::uint32_t>(wire::kConfigChunk, sizeof config - offset);
    const auto answer = call(request(wire::MessageOp::GetConfig, wire::ConfigRange{offset, bytes}));
    wire::ConfigData data;
    if (!answer || !wire::read_payload(*answer, data) || data.bytes != bytes) {
      broken("no config space at " + std::to_string(offset));
    }
    std::memcpy(reinterpret_cast<std::byte*>(&config) + offset, data.data, bytes);
    offset += bytes;
  }
  return config;
}

void RawDriver::forget_blocks() {
  slot_busy_.fill(false);
  free_slots_ = wire::kControlBlockSlots;
}

void RawDriver::forget() {
  forget_blocks();
  admin_busy_.fill(false);
  rings_ = {};
}

bool RawDriver::bring_up(std::uint64_t features) {
  forget();
  if (set_status(0) != 0) return false;
  constexpr std::uint32_t kAckDriver = wire::kStatusAcknowledge | wire::kStatusDriver;
  if (set_status(wire::kStatusAcknowledge) != wire::kStatusAcknowledge || set_status(kAckDriver) != kAckDriver) {
    return false;
  }
  if (!set_features(features)) return false;
  if (set_status(kAckDriver | wire::kStatusFeaturesOk) != (kAckDriver | wire::kStatusFeaturesOk)) return false;
  for (std::uint32_t queue = 0; queue < wire::kQueueCount; ++queue) {
    if (!set_queue(queue)) return false;
  }
  generation_ = config().generation;
  constexpr std::uint32_t kAll = kAckDriver | wire::kStatusFeaturesOk | wire::kStatusDriverOk;
  return set_status(kAll) == kAll;
}

// ---- admin ----------------------------------------------------------------------------------------------------------

wire::AdminRequest RawDriver::admin_request(wire::AdminCommand command) const {
  wire::AdminRequest request{};
  request.magic = wire::kAdminMagic;
  request.command = command;
  request.generation = generation_;
  return request;
}

std::uint16_t RawDriver::send_admin(wire::AdminRequest request) {
  const auto free = std::find(admin_busy_.begin(), admin_busy_.end(), false);
  if (free == admin_busy_.end()) {
    broken("no admin slot free");
  }
  const auto slot = static_cast<std::uint16_t>(free - admin_busy_.begin());
  *free = true;
  admin_done_[slot] = false;
  const std::uint64_t from = wire::kAdminRequests.offset + slot * wire::kStickBytes;
  const std::uint64_t to = wire::kAdminReplies.offset + slot * wire::kStickBytes;
  wire::store_shared_words(at<std::uint64_t>(from), reinterpret_cast<const std::uint64_t*>(&request),
                           sizeof request / 8);
  const RawBuffer chain[] = {{from, wire::kStickBytes, false}, {to, wire::kStickBytes, true}};
  rings_[wire::kAdminQueue].add(slot, chain);
  return slot;
}

void RawDriver::poll_admin() {
  while (const auto used = rings_[wire::kAdminQueue].poll()) {
    if (used->id >= wire::kAdminSlots) broken("an admin command ended that does not exist");
    if (!admin_busy_[used->id] || admin_done_[used->id]) broken("admin command answered twice");
    admin_done_[used->id] = true;
  }
}

std::optional<wire::AdminReply> RawDriver::wait_admin(std::uint16_t slot) {
  const bool came = until(
      [&] {
        poll_admin();
        return admin_done_[slot];
      },
      pump_);
  return came ? take_admin(slot) : std::nullopt;
}

bool RawDriver::admin_slot_free() const {
  return std::find(admin_busy_.begin(), admin_busy_.end(), false) != admin_busy_.end();
}

std::optional<wire::AdminReply> RawDriver::take_admin(std::uint16_t slot) {
  poll_admin();
  if (!admin_busy_[slot] || !admin_done_[slot]) return std::nullopt;
  wire::AdminReply reply;
  wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&reply),
                          at<std::uint64_t>(wire::kAdminReplies.offset + slot * wire::kStickBytes), sizeof reply / 8);
  admin_busy_[slot] = false;
  return reply;
}

wire::AdminReply RawDriver::admin(const wire::AdminRequest& request) {
  wire::AdminRequest with_cookie = request;
  with_cookie.cookie = ++cookie_;
  const auto reply = wait_admin(send_admin(with_cookie));
  if (!reply) {
    broken("no reply to " + std::string(name(request.command)));
  }
  if (reply->cookie != with_cookie.cookie) broken("a reply with the cookie of another command");
  return *reply;
}

std::optional<RegionHandle> RawDriver::acquire(std::uint64_t bytes, wire::RegionType type) {
  auto request = admin_request(wire::AdminCommand::RegionAcquire);
  request.arguments.region_acquire = {bytes, type};
  const auto reply = admin(request);
  if (reply.outcome != wire::Outcome::Ok) return std::nullopt;
  return RegionHandle{reply.values.region.region_id, reply.values.region.generation, reply.values.region.bytes};
}

wire::AdminReply RawDriver::release(const RegionHandle& region) {
  auto request = admin_request(wire::AdminCommand::RegionRelease);
  request.arguments.region_release = {region.id, region.generation};
  return admin(request);
}

std::optional<StreamHandle> RawDriver::open_stream(bool high) {
  auto request = admin_request(wire::AdminCommand::StreamOpen);
  request.arguments.stream_open.priority = high ? 1 : 0;
  const auto reply = admin(request);
  if (reply.outcome != wire::Outcome::Ok) return std::nullopt;
  return StreamHandle{reply.values.stream.stream, reply.values.stream.incarnation, 1};
}

wire::AdminRequest RawDriver::stream_request(wire::AdminCommand command, const StreamHandle& stream) const {
  auto request = admin_request(command);
  request.arguments.stream = {stream.id, stream.incarnation};
  return request;
}

wire::AdminReply RawDriver::reset_stream(StreamHandle& stream) {
  const auto reply = admin(stream_request(wire::AdminCommand::StreamReset, stream));
  if (reply.outcome == wire::Outcome::Ok) stream = {stream.id, reply.values.stream.incarnation, 1};
  return reply;
}

// ---- control blocks -------------------------------------------------------------------------------------------------

wire::AdminRequest RawDriver::grant_request(wire::Target of, const RawDriver& owner, const StreamHandle& stream,
                                            wire::Target to, const RawDriver& grantee) const {
  auto request = admin_request(wire::AdminCommand::EventGrant);
  request.arguments.event_grant = {.owner = of,
                                   .grantee = to,
                                   .stream = stream.id,
                                   .incarnation = stream.incarnation,
                                   .owner_generation = owner.generation(),
                                   .grantee_generation = grantee.generation()};
  return request;
}

wire::AdminRequest RawDriver::revoke_request(wire::Target grantee, const GrantHandle& grant) const {
  auto request = admin_request(wire::AdminCommand::EventRevoke);
  request.arguments.event_revoke = {.grantee = grantee, .grant = grant.index, .epoch = grant.epoch};
  return request;
}

wire::ControlBlock RawDriver::addressed(StreamHandle& stream, wire::ControlBlock block) {
  auto& header = block.header;
  header.magic = wire::kControlBlockMagic;
  header.sticks = static_cast<std::uint8_t>(wire::required_sticks(block));
  header.stream = stream.id;
  header.incarnation = stream.incarnation;
  header.generation = generation_;
  header.sequence = stream.next_sequence++;
  header.cookie = ++cookie_;
  seal(block);
  return block;
}

wire::ControlBlock RawDriver::nop(StreamHandle& stream) { return addressed(stream, Blocks::nop()); }

wire::ControlBlock RawDriver::event_signal(StreamHandle& stream, std::uint64_t value) {
  return addressed(stream, Blocks::event_signal(value));
}

wire::ControlBlock RawDriver::event_wait(StreamHandle& stream, const StreamHandle& awaited, std::uint64_t value,
                                         std::uint64_t budget) {
  return addressed(stream, Blocks::event_wait(awaited.id, awaited.incarnation, value, budget));
}

wire::ControlBlock RawDriver::granted_wait(StreamHandle& stream, const GrantHandle& grant, const StreamHandle& awaited,
                                           std::uint64_t value, std::uint64_t budget) {
  return addressed(stream, Blocks::granted_wait(grant.index, grant.epoch, awaited.incarnation, value, budget));
}

wire::ControlBlock RawDriver::fill(StreamHandle& stream, const RegionHandle& region, std::uint64_t offset,
                                   std::uint64_t bytes, std::uint64_t pattern) {
  return addressed(stream, Blocks::fill(device(region, offset), bytes, pattern));
}

wire::ControlBlock RawDriver::dma(StreamHandle& stream, const wire::Endpoint& from, const wire::Endpoint& to,
                                  std::uint64_t bytes) {
  return addressed(stream, Blocks::dma(from, to, bytes));
}

wire::ControlBlock RawDriver::strided(StreamHandle& stream, const wire::Endpoint& from, const wire::Endpoint& to,
                                      std::uint32_t element_bytes, std::span<const wire::StridedLevel> levels) {
  return addressed(stream, Blocks::strided(from, to, element_bytes, levels));
}

wire::ControlBlock RawDriver::compute(StreamHandle& stream, const RegionHandle& program, std::uint64_t offset,
                                      std::uint64_t bytes, std::uint64_t core_mask) {
  return addressed(stream, Blocks::launch(device(program, offset), bytes, core_mask));
}

void RawDriver::seal(wire::ControlBlock& block) const {
  block.header.crc32c = 0;
  if ((features_ & wire::kFeatureControlBlockCrc) == 0) return;
  block.header.crc32c = wire::crc32c(0, &block, block.header.sticks * wire::kStickBytes);
}

std::uint16_t RawDriver::submit(const wire::ControlBlock& block) { return submit_sticks(block, block.header.sticks); }

std::uint16_t RawDriver::submit_sticks(const wire::ControlBlock& block, unsigned sticks) {
  const auto free = std::find(slot_busy_.begin(), slot_busy_.end(), false);
  if (free == slot_busy_.end()) {
    broken("no control-block slot free");
  }
  const auto slot = static_cast<std::uint16_t>(free - slot_busy_.begin());
  *free = true;
  --free_slots_;
  const std::uint64_t from = wire::kControlBlocks.offset + slot * std::uint64_t{wire::kControlBlockSlotBytes};
  const std::uint64_t to = wire::kCompletions.offset + slot * wire::kStickBytes;
  wire::store_shared_words(at<std::uint64_t>(from), reinterpret_cast<const std::uint64_t*>(&block),
                           sticks * wire::kStickBytes / 8);
  const RawBuffer chain[] = {{from, static_cast<std::uint32_t>(sticks * wire::kStickBytes), false},
                             {to, wire::kStickBytes, true}};
  rings_[wire::kControlBlockQueue].add(slot, chain);
  return slot;
}

std::vector<Ended> RawDriver::collect() {
  std::vector<Ended> ended;
  while (const auto used = rings_[wire::kControlBlockQueue].poll()) {
    if (used->id >= wire::kControlBlockSlots || !slot_busy_[used->id]) {
      broken("block " + std::to_string(used->id) + " ended without having been submitted, or twice");
    }
    slot_busy_[used->id] = false;
    ++free_slots_;
    Ended& end = ended.emplace_back(Ended{used->id, used->written, {}});
    wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&end.completion),
                            at<std::uint64_t>(wire::kCompletions.offset + used->id * wire::kStickBytes),
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
  if (!came) broken("only " + std::to_string(all.size()) + " of " + std::to_string(count) + " blocks ended");
  return all;
}

wire::Completion RawDriver::run(const wire::ControlBlock& block) {
  submit(block);
  const auto ended = wait_for(1);
  if (ended.size() != 1) {
    broken(std::to_string(ended.size()) + " completions for one block");
  }
  return ended.front().completion;
}

void RawDriver::post_event_buffers(unsigned count) {
  for (std::uint16_t i = 0; i < count; ++i) {
    const RawBuffer buffer[] = {{wire::kEvents.offset + i * wire::kStickBytes, wire::kStickBytes, true}};
    rings_[wire::kEventQueue].add(i, buffer);
  }
}

std::vector<wire::DeviceEvent> RawDriver::events() {
  std::vector<wire::DeviceEvent> all;
  while (const auto used = rings_[wire::kEventQueue].poll()) {
    wire::DeviceEvent& event = all.emplace_back();
    wire::copy_shared_words(reinterpret_cast<std::uint64_t*>(&event),
                            at<std::uint64_t>(wire::kEvents.offset + used->id * wire::kStickBytes), sizeof event / 8);
  }
  return all;
}

}  // namespace raw
