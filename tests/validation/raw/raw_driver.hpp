// SPDX-License-Identifier: Apache-2.0
// The other end of a window, written by hand from the contract: it knows FIFOs, rings and control blocks as bytes and
// nothing of the real driver, so that the firmware is not tested against the habits of its only peer. It can also break
// every rule. For tests and for scenarios of the fault campaign. Throws Broken when the card breaks the contract.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "shared/admin.hpp"
#include "shared/control_block.hpp"
#include "shared/message.hpp"
#include "shared/packed_ring.hpp"
#include "shared/virtio.hpp"
#include "shared/window.hpp"

namespace raw {

class Broken : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RawBuffer {
  std::uint64_t offset;
  std::uint32_t bytes;
  bool writable;
};

struct UsedElement {
  std::uint16_t id;
  std::uint32_t written;
  bool write_flag;
};

// Driver side of one packed ring.
class RawRing {
 public:
  RawRing() = default;
  RawRing(std::span<std::byte> window, std::uint16_t size, std::uint64_t descriptors, std::uint64_t driver_area,
          std::uint64_t device_area);

  std::uint16_t size() const { return size_; }
  std::uint16_t next_avail() const { return next_avail_; }
  bool avail_wrap() const { return avail_wrap_; }
  unsigned in_flight() const { return in_flight_; }
  bool room_for(unsigned slots) const { return in_flight_ + slots <= size_; }

  // Makes a chain available, its head last. `reverse` publishes nothing until publish_head().
  void add(std::uint16_t id, std::span<const RawBuffer> chain);
  void add_indirect(std::uint16_t id, std::uint64_t table, std::span<const RawBuffer> chain);
  // One descriptor with these very flags (AVAIL and USED of the present lap are added).
  void add_raw(std::uint16_t id, std::uint64_t address, std::uint32_t length, std::uint16_t flags);
  // For descriptors that the caller wrote itself, through words().
  void skip(unsigned slots);

  // Whether the card asked for a doorbell for what was added since the last call.
  bool doorbell_wanted(bool event_idx);

  bool has_used() const;
  // `slots_of` of a chain is what add() remembered; for raw descriptors tell it by expect_chain().
  std::optional<UsedElement> poll();
  void expect_chain(std::uint16_t id, std::uint16_t slots) { slots_of_[id] = slots; }

  void ask(wire::EventSuppression event);
  void ask_for_next(bool event_idx) {
    ask({next_used_, used_wrap_, event_idx ? wire::EventFlags::Descriptor : wire::EventFlags::Enable});
  }
  std::uint32_t card_event_word() const;
  wire::DescriptorWords& words(std::uint16_t at) const;

 private:
  void advance(std::uint16_t& at, bool& wrap, unsigned by) const;

  std::span<std::byte> window_;
  std::uint64_t descriptors_ = 0;
  std::uint64_t driver_area_ = 0;
  std::uint64_t device_area_ = 0;
  std::uint16_t size_ = 0;
  std::uint16_t next_avail_ = 0;
  std::uint16_t next_used_ = 0;
  std::uint16_t added_ = 0;
  bool avail_wrap_ = true;
  bool used_wrap_ = true;
  unsigned in_flight_ = 0;
  std::vector<std::uint16_t> slots_of_;
};

// A control block and how it ended.
struct Ended {
  std::uint16_t slot;
  std::uint32_t written;
  wire::Completion completion;
};

// What a driver knows of a stream.
struct StreamHandle {
  std::uint32_t id = 0;
  std::uint32_t incarnation = 1;
  std::uint64_t next_sequence = 1;
};

// A timeline of another function, as M granted it.
struct GrantHandle {
  std::uint32_t index = 0;
  std::uint64_t epoch = 0;
  friend bool operator==(const GrantHandle&, const GrantHandle&) = default;
};

struct RegionHandle {
  std::uint64_t id;
  std::uint32_t generation;
  std::uint64_t bytes;
};

class RawDriver {
 public:
  // `pump` lets the card work for a while: called while an answer is waited for.
  // Goes on where the last driver of this window stopped reading.
  RawDriver(std::span<std::byte> window, std::function<void()> pump);

  std::span<std::byte> window() const { return window_; }
  void pump() { pump_(); }
  wire::WindowHeader& header() const { return *at<wire::WindowHeader>(0); }
  template <typename T>
  T* at(std::uint64_t offset) const {
    return reinterpret_cast<T*>(window_.data() + offset);
  }

  // ---- control FIFO
  void send(const wire::Message& message);
  std::optional<wire::Message> receive();
  std::optional<wire::Message> call(const wire::Message& message);  // nullopt: no answer
  template <typename T>
  wire::Message request(wire::MessageOp op, const T& payload) {
    return wire::make_message(0, static_cast<std::uint8_t>(op), ++token_, payload);
  }
  wire::Message bare_request(wire::MessageOp op) {
    return wire::make_bare_message(0, static_cast<std::uint8_t>(op), ++token_);
  }
  // The status the card reports after being asked for `status`; ~0 when it refused the message.
  std::uint32_t set_status(std::uint32_t status);
  bool set_features(std::uint64_t features);
  bool set_queue(std::uint32_t queue);
  bool reset_queue(std::uint32_t queue);
  wire::DeviceConfig config();
  // Status 0 and up to DRIVER_OK, all queues set. False when the card refused a step.
  bool bring_up(std::uint64_t features = wire::kMandatoryFeatures);
  // Forgets rings and streams as a driver does at status 0.
  void forget();
  // Takes all control blocks back, as after a queue reset.
  void forget_blocks();

  std::uint64_t generation() const { return generation_; }
  std::uint64_t features() const { return features_; }
  RawRing& ring(std::uint32_t queue) { return rings_[queue]; }

  // ---- admin
  std::uint16_t send_admin(wire::AdminRequest request);  // slot
  // Reply of a command; the card is pumped until it came. nullopt: none came.
  std::optional<wire::AdminReply> wait_admin(std::uint16_t slot);
  // The reply when it has come; the card is not pumped.
  std::optional<wire::AdminReply> take_admin(std::uint16_t slot);
  bool admin_slot_free() const;
  wire::AdminReply admin(const wire::AdminRequest& request);
  wire::AdminRequest admin_request(wire::AdminCommand command) const;
  std::optional<RegionHandle> acquire(std::uint64_t bytes, wire::RegionType type = wire::RegionType::Tensor);
  wire::AdminReply release(const RegionHandle& region);
  std::optional<StreamHandle> open_stream(bool high = false);
  wire::AdminRequest stream_request(wire::AdminCommand command, const StreamHandle& stream) const;
  wire::AdminReply reset_stream(StreamHandle& stream);
  void poll_admin();
  // Of M: the stream of `owner`, which is function `of`, for `grantee`, which is function `to`.
  wire::AdminRequest grant_request(wire::Target of, const RawDriver& owner, const StreamHandle& stream, wire::Target to,
                                   const RawDriver& grantee) const;
  wire::AdminRequest revoke_request(wire::Target grantee, const GrantHandle& grant) const;

  // ---- control blocks; the makers fill a correct header and take the stream's next sequence number
  wire::ControlBlock addressed(StreamHandle& stream, wire::ControlBlock block);
  wire::ControlBlock nop(StreamHandle& stream);
  wire::ControlBlock event_signal(StreamHandle& stream, std::uint64_t value);
  // For `awaited` in its incarnation of the handle.
  wire::ControlBlock event_wait(StreamHandle& stream, const StreamHandle& awaited, std::uint64_t value,
                                std::uint64_t budget = 0);
  // For the stream of another function, in its incarnation of the handle.
  wire::ControlBlock granted_wait(StreamHandle& stream, const GrantHandle& grant, const StreamHandle& awaited,
                                  std::uint64_t value, std::uint64_t budget = 0);
  wire::ControlBlock fill(StreamHandle& stream, const RegionHandle& region, std::uint64_t offset, std::uint64_t bytes,
                          std::uint64_t pattern);
  wire::ControlBlock dma(StreamHandle& stream, const wire::Endpoint& from, const wire::Endpoint& to,
                         std::uint64_t bytes);
  wire::ControlBlock strided(StreamHandle& stream, const wire::Endpoint& from, const wire::Endpoint& to,
                             std::uint32_t element_bytes, std::span<const wire::StridedLevel> levels);
  wire::ControlBlock compute(StreamHandle& stream, const RegionHandle& program, std::uint64_t offset,
                             std::uint64_t bytes, std::uint64_t core_mask);
  static wire::Endpoint host(std::uint64_t offset) { return {0, offset, 0, wire::EndpointKind::HostMemory, {}}; }
  static wire::Endpoint device(const RegionHandle& region, std::uint64_t offset) {
    return {region.id, offset, region.generation, wire::EndpointKind::Region, {}};
  }
  void seal(wire::ControlBlock& block) const;  // sets the CRC when it was negotiated

  bool block_slot_free() const { return free_slots_ != 0; }
  unsigned blocks_under_way() const { return wire::kControlBlockSlots - free_slots_; }
  // Writes the block to a free slot and makes it available. Returns the slot.
  std::uint16_t submit(const wire::ControlBlock& block);
  std::uint16_t submit_sticks(const wire::ControlBlock& block, unsigned sticks);
  // What has ended since the last call, in the order of the ring.
  std::vector<Ended> collect();
  // Submits and waits.
  wire::Completion run(const wire::ControlBlock& block);
  std::vector<Ended> wait_for(std::size_t count);

  void post_event_buffers(unsigned count);
  std::vector<wire::DeviceEvent> events();

 private:
  std::span<std::byte> window_;
  std::function<void()> pump_;
  std::uint16_t token_ = 0;
  std::uint64_t generation_ = 0;
  std::uint64_t features_ = 0;
  std::uint64_t cookie_ = 0;
  std::uint32_t fifo_written_ = 0;
  std::uint32_t fifo_read_ = 0;
  std::array<RawRing, wire::kQueueCount> rings_;
  std::array<bool, wire::kControlBlockSlots> slot_busy_{};
  unsigned free_slots_ = wire::kControlBlockSlots;
  std::array<bool, wire::kAdminSlots> admin_busy_{};
  std::array<bool, wire::kAdminSlots> admin_done_{};
};

}  // namespace raw
