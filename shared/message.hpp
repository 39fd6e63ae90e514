// SPDX-License-Identifier: Apache-2.0
// Control plane: virtio-msg messages (draft, first proposal's shapes; not part of VIRTIO 1.4) in two single-producer
// single-consumer FIFOs of 64-byte slots. The draft still moves: every shape is in this one file.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "shared/units.hpp"
#include "shared/window.hpp"

namespace wire {

inline constexpr std::uint16_t kMessageBytes = 64;

enum class MessageOp : std::uint8_t {
  GetDeviceInfo = 0x02,
  GetDeviceFeatures = 0x03,
  SetDriverFeatures = 0x04,
  GetConfig = 0x05,
  GetDeviceStatus = 0x07,
  SetDeviceStatus = 0x08,
  GetVirtqueue = 0x09,
  SetVirtqueue = 0x0a,
  ResetVirtqueue = 0x0b,
  EventConfig = 0x40,
};
enum class BusOp : std::uint8_t { Ping = 0x03 };

constexpr std::string_view name(MessageOp op) {
  switch (op) {
    case MessageOp::GetDeviceInfo: return "GET_DEVICE_INFO";
    case MessageOp::GetDeviceFeatures: return "GET_DEVICE_FEATURES";
    case MessageOp::SetDriverFeatures: return "SET_DRIVER_FEATURES";
    case MessageOp::GetConfig: return "GET_CONFIG";
    case MessageOp::GetDeviceStatus: return "GET_DEVICE_STATUS";
    case MessageOp::SetDeviceStatus: return "SET_DEVICE_STATUS";
    case MessageOp::GetVirtqueue: return "GET_VQUEUE";
    case MessageOp::SetVirtqueue: return "SET_VQUEUE";
    case MessageOp::ResetVirtqueue: return "RESET_VQUEUE";
    case MessageOp::EventConfig: return "EVENT_CONFIG";
  }
  return "unknown message";
}

inline constexpr std::uint8_t kMessageResponse = 1;  // type bit 0
inline constexpr std::uint8_t kMessageBus = 2;       // type bit 1

struct MessageHeader {
  std::uint8_t type;
  std::uint8_t op;
  std::uint16_t device;  // always 0: one device per window
  std::uint16_t token;   // chosen by the requester, echoed; 0 for events
  std::uint16_t size;    // header and payload
};
static_assert(sizeof(MessageHeader) == 8);

// A whole slot. Payloads are read and written through payload<T>() only.
struct alignas(8) Message {
  MessageHeader header;
  std::array<std::uint8_t, kMessageBytes - sizeof(MessageHeader)> bytes;
};
static_assert(sizeof(Message) == kMessageBytes);

// Payloads. Status of a refused request: a response whose header.size is only the header ("error response").
struct DeviceInfo {
  std::uint32_t device_id;
  std::uint32_t vendor_id;
  std::uint32_t feature_bits;
  std::uint32_t config_bytes;
  std::uint32_t queues;
  std::uint16_t admin_queue;
  std::uint16_t admin_queues;
};
struct FeatureBlocks {  // request of Get carries first/count only
  std::uint32_t first_block;
  std::uint32_t blocks;
  std::uint32_t bits[2];
};
struct ConfigRange {
  std::uint32_t offset;
  std::uint32_t bytes;
};
inline constexpr std::uint32_t kConfigChunk = 40;
struct ConfigData {
  std::uint32_t generation;  // of the config space (VIRTIO 2.5), not of the function
  std::uint32_t offset;
  std::uint32_t bytes;
  std::uint8_t data[kConfigChunk];
};
struct StatusValue {
  std::uint32_t status;
};
struct QueueIndex {
  std::uint32_t index;
};
struct QueueState {
  std::uint32_t index;
  std::uint32_t max_size;
  std::uint32_t size;  // 0 = not set up
  std::uint32_t reserved;
  std::uint64_t descriptors;  // window offsets
  std::uint64_t driver_area;
  std::uint64_t device_area;
};
struct SetQueue {
  std::uint32_t index;
  std::uint32_t reserved;
  std::uint32_t size;
  std::uint32_t reserved1;
  std::uint64_t descriptors;
  std::uint64_t driver_area;
  std::uint64_t device_area;
};
struct ConfigEvent {
  std::uint32_t status;
  std::uint32_t generation;
};
struct Ping {
  std::uint32_t value;
};

template <typename T>
Message make_message(std::uint8_t type, std::uint8_t op, std::uint16_t token, const T& payload) {
  static_assert(sizeof(T) <= sizeof(Message::bytes));
  Message message{};
  message.header = {type, op, 0, token, static_cast<std::uint16_t>(sizeof(MessageHeader) + sizeof(T))};
  std::memcpy(message.bytes.data(), &payload, sizeof(T));
  return message;
}
inline Message make_bare_message(std::uint8_t type, std::uint8_t op, std::uint16_t token) {
  Message message{};
  message.header = {type, op, 0, token, sizeof(MessageHeader)};
  return message;
}

// False when the message is too short for T or longer than a slot; `payload` is untouched then.
template <typename T>
bool read_payload(const Message& message, T& payload) {
  if (message.header.size < sizeof(MessageHeader) + sizeof(T) || message.header.size > kMessageBytes) return false;
  std::memcpy(&payload, message.bytes.data(), sizeof(T));
  return true;
}

// ---- config space ---------------------------------------------------------------------------------------------------

// Read by the driver after every status 0. Fixed while DRIVER_OK, except device_status which is a message of its own.
struct DeviceConfig {
  std::uint32_t abi_version;
  FunctionKind kind;
  std::uint32_t function_index;
  std::uint32_t slot;
  std::uint64_t generation;
  std::uint64_t boot_epoch;
  std::uint64_t window_bytes;
  std::uint64_t memory_bytes;  // region memory of the whole card
  std::uint32_t cores;
  std::uint32_t streams;
  std::uint32_t stream_credits;
  std::uint32_t max_control_blocks;
  std::uint32_t timer_hz;
  std::uint32_t virtual_functions;
  std::uint64_t watchdog_slices;  // default budget of a compute block whose budget is 0
  std::uint64_t quota_bytes;      // of region memory that this function may hold; 0: none but the card's memory
  std::uint64_t share_bytes;      // of region memory that this function is guaranteed, whatever others do
  std::uint64_t budget_bytes;     // of them, that it can touch, whatever others do; 0: all
  std::uint32_t array_version;    // of the compute array (shared/array.hpp); 0: the card has none
  std::uint8_t reserved[20];
};
static_assert(sizeof(DeviceConfig) == kStickBytes);

// ---- FIFO -----------------------------------------------------------------------------------------------------------

inline constexpr std::uint32_t kFifoSlots =
    static_cast<std::uint32_t>((kFifoToCard.bytes - 2 * kStickBytes) / kMessageBytes);

// Free-running indices; each on its own line. The reader bounds-checks the writer's index: a distance above kFifoSlots
// is a protocol violation and reads as an empty FIFO (firmware) or as a dead device (driver).
struct Fifo {
  std::uint32_t written;
  std::uint8_t pad0[kStickBytes - 4];
  std::uint32_t read;
  std::uint8_t pad1[kStickBytes - 4];
  Message slots[kFifoSlots];
};
static_assert(sizeof(Fifo) == 4 * kKiB && kFifoSlots == 60);
static_assert(offsetof(Fifo, slots) == 2 * kStickBytes);

}  // namespace wire
