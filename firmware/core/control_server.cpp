// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/control_server.hpp"

#include <algorithm>
#include <cstring>
#include <optional>

#include "firmware/core/card.hpp"
#include "firmware/core/function_commands.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/hal/array.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/record.hpp"
#include "firmware/mutants/mutants.hpp"
#include "shared/memory_order.hpp"
#include "shared/version.hpp"

namespace fw {

using wire::Message;
using wire::MessageOp;
using wire::Status;

namespace {

wire::Fifo& to_card(Function& function) { return *function.at<wire::Fifo>(wire::kFifoToCard.offset); }
wire::Fifo& to_host(Function& function) { return *function.at<wire::Fifo>(wire::kFifoToHost.offset); }

// Messages the host has written and we have not read; 0 when its index is nonsense.
std::uint32_t waiting(Function& function) {
  wire::Fifo& fifo = to_card(function);
  const std::uint32_t distance = wire::load_acquire(fifo.written) - function.control.read;
  if (distance > wire::kFifoSlots && mutated(Mutant::FifoIndex)) return wire::kFifoSlots;
  return distance <= wire::kFifoSlots ? distance : 0;
}

// Drops the message when the host does not read its FIFO: it asked, it must make room. The driver's bounded wait ends
// in a typed error there; nothing blocks here.
void send(Function& function, const Message& message) {
  wire::Fifo& fifo = to_host(function);
  if (function.control.written - wire::load_acquire(fifo.read) >= wire::kFifoSlots) {
    ++function.counters().ring_violations;
    note_violation(function, wire::Status::BadChain);
    return;
  }
  wire::store_shared_words(reinterpret_cast<std::uint64_t*>(&fifo.slots[function.control.written % wire::kFifoSlots]),
                           reinterpret_cast<const std::uint64_t*>(&message), sizeof message / 8);
  ++function.control.written;
  wire::store_release(fifo.written, function.control.written);
}

template <typename T>
void respond(Function& function, const Message& request, const T& payload) {
  send(function, wire::make_message(request.header.type | wire::kMessageResponse, request.header.op,
                                    request.header.token, payload));
}
void refuse(Function& function, const Message& request) {
  if (mutated(Mutant::AnswerRefused)) return;
  if (!mutated(Mutant::CountRefusals)) note_violation(function, wire::Status::NotPermitted);
  send(function,
       wire::make_bare_message(request.header.type | wire::kMessageResponse, request.header.op, request.header.token));
}

wire::DeviceConfig config_of(const Card& card, const Function& function) {
  wire::DeviceConfig config{};
  config.abi_version = wire::kAbiVersion;
  config.kind = function.kind();
  config.function_index = function.index();
  config.slot = function.place().slot;
  config.generation = function.generation();
  config.boot_epoch = card.boot_epoch();
  config.window_bytes = function.window().size();
  config.memory_bytes = card.pool.total_bytes();
  config.cores = card.core_count();
  config.streams = wire::kStreamsPerFunction;
  config.stream_credits = wire::kStreamCredits;
  config.max_control_blocks = wire::kControlBlockSlots;
  config.timer_hz = static_cast<std::uint32_t>(wire::kTicksPerSecond);
  config.virtual_functions = card.options.virtual_functions;
  config.watchdog_slices = card.options.watchdog_slices;
  config.array_version = hal::array_version();
  config.quota_bytes = function.quota_bytes();
  config.share_bytes = share_bytes(card, function);
  if (!function.manages()) config.budget_bytes = std::min(card.pool.budget_bytes(function.id()), config.share_bytes);
  return config;
}

void get_config(const Card& card, Function& function, const Message& request, const wire::ConfigRange& range) {
  wire::ConfigData data{function.config_generation(), range.offset, 0, {}};
  const Status wrong = range.bytes > wire::kConfigChunk ? Status::BadSize : Status::OutOfBounds;
  if (mutated(Mutant::ConfigRange, wrong)) data.bytes = std::min(range.bytes, std::uint32_t{wire::kConfigChunk});
  if (range.bytes <= wire::kConfigChunk && wire::range_inside(range.offset, range.bytes, sizeof(wire::DeviceConfig))) {
    const wire::DeviceConfig config = config_of(card, function);
    data.bytes = range.bytes;
    std::memcpy(data.data, reinterpret_cast<const std::uint8_t*>(&config) + range.offset, range.bytes);
  }
  respond(function, request, data);
}

void set_features(Function& function, const Message& request, const wire::FeatureBlocks& blocks) {
  const bool too_late = function.has_status(wire::kStatusFeaturesOk);
  const std::uint64_t bits = blocks.bits[0] | std::uint64_t{blocks.bits[1]} << 32;
  const Status wrong = too_late                                        ? Status::NotPermitted
                       : blocks.first_block != 0 || blocks.blocks != 2 ? Status::BadCount
                       : (bits & ~wire::kOfferedFeatures) != 0         ? Status::BadFlags
                                                                       : Status::None;
  if (wrong != Status::None && !mutated(Mutant::FeatureRules, wrong)) return refuse(function, request);
  function.accept_features(bits);
  respond(function, request, blocks);
}

// Bits that may be added to a status, given what is set: the driver walks ACKNOWLEDGE → DRIVER → FEATURES_OK →
// DRIVER_OK and never clears a bit except by writing 0 (VIRTIO 1.4 §2.1.1).
bool status_step_legal(const Function& function, std::uint32_t wanted) {
  const std::uint32_t now = function.device_status() & ~std::uint32_t{wire::kStatusNeedsReset};
  const std::uint32_t asked = wanted & ~std::uint32_t{wire::kStatusNeedsReset};
  if ((now & wire::kStatusFailed) != 0) return asked == now;  // only a reset helps
  if (asked == (now | wire::kStatusFailed)) return true;
  switch (now) {
    case wire::kStatusReset: return asked == wire::kStatusAcknowledge;
    case wire::kStatusAcknowledge: return asked == (wire::kStatusAcknowledge | wire::kStatusDriver);
    case wire::kStatusAcknowledge | wire::kStatusDriver: return asked == (now | wire::kStatusFeaturesOk);
    case wire::kStatusAcknowledge | wire::kStatusDriver | wire::kStatusFeaturesOk:
      return asked == (now | wire::kStatusDriverOk);
    default: return asked == now;
  }
}

void set_status(Card& card, Function& function, const Message& request, std::uint32_t wanted) {
  if (wanted == wire::kStatusReset) {
    begin_driver_reset(card, function, request);  // answers when the reset has ended
    return;
  }
  const bool features_step = (wanted & wire::kStatusFeaturesOk) != 0 && !function.has_status(wire::kStatusFeaturesOk);
  const bool features_good = (function.features() & wire::kMandatoryFeatures) == wire::kMandatoryFeatures;
  const bool banished = function.violations.count() != 0 && mutated(Mutant::OffenderReturns);
  const bool step_legal = (status_step_legal(function, wanted) && !banished) || mutated(Mutant::StatusSteps);
  if (step_legal && (!features_step || features_good || mutated(Mutant::FeatureRules, Status::Unsupported))) {
    function.set_driver_status(wanted);
    for (auto& queue : function.queues) {
      queue.set_features(function.has_feature(wire::kFeatureEventIdx),
                         function.has_feature(wire::kFeatureIndirectDesc));
    }
    wire::store_relaxed(function.header().device_status, function.device_status());
  }
  respond(function, request, wire::StatusValue{function.device_status()});
}

wire::QueueState state_of(const Function& function, std::uint32_t index) {
  const PackedQueue& queue = function.queues[index];
  return {index,
          wire::kQueueLayouts[index].size,
          queue.size(),
          0,
          queue.descriptors(),
          queue.driver_area(),
          queue.device_area()};
}

// Which queue a message means. Nothing: there is none of this index.
std::optional<std::uint32_t> queue_of(std::uint32_t index) {
  if (index < wire::kQueueCount) return index;
  return mutated(Mutant::QueueIndex) ? std::optional<std::uint32_t>(wire::kControlBlockQueue) : std::nullopt;
}

void set_queue(Function& function, const Message& request, const wire::SetQueue& wanted) {
  const bool features_latched = function.has_status(wire::kStatusFeaturesOk);
  const auto index = queue_of(wanted.index);
  if (!index) return refuse(function, request);
  const Status wrong = !features_latched                                ? Status::NotPermitted
                       : function.queues[*index].active()               ? Status::Busy
                       : wanted.reserved != 0 || wanted.reserved1 != 0  ? Status::ReservedBits
                       : wanted.size > wire::kQueueLayouts[*index].size ? Status::BadSize
                                                                        : Status::None;
  if (wrong != Status::None && !mutated(Mutant::QueueRules, wrong)) return refuse(function, request);
  if ((wanted.size & (wanted.size - 1)) != 0 && mutated(Mutant::QueueAnySize)) return refuse(function, request);
  PackedQueue& queue = function.queues[*index];
  if (!queue.set(function.window(), wanted.size, wanted.descriptors, wanted.driver_area, wanted.device_area)) {
    return refuse(function, request);
  }
  queue.set_features(function.has_feature(wire::kFeatureEventIdx), function.has_feature(wire::kFeatureIndirectDesc));
  respond(function, request, state_of(function, *index));
}

void reset_queue(Card& card, Function& function, const Message& request, const wire::QueueIndex& named) {
  const auto index = queue_of(named.index);
  const bool set_up = index && (function.queues[*index].active() || mutated(Mutant::QueueNotSet));
  if (!set_up || mutated(Mutant::ResetQueue)) return refuse(function, request);
  begin_queue_reset(card, function, *index, request);
}

template <typename T, typename Handle>
void with_payload(Function& function, const Message& request, Handle handle) {
  T payload{};
  if (wire::read_payload(request, payload) || mutated(Mutant::MessagePayload)) {
    handle(payload);
  } else {
    refuse(function, request);
  }
}

void handle_device_message(Card& card, Function& function, const Message& request) {
  switch (static_cast<MessageOp>(request.header.op)) {
    case MessageOp::GetDeviceInfo:
      return respond(
          function, request,
          wire::DeviceInfo{wire::kDeviceId, wire::kVendorId, 64, sizeof(wire::DeviceConfig), wire::kQueueCount, 0, 0});
    case MessageOp::GetDeviceFeatures:
      return respond(function, request,
                     wire::FeatureBlocks{0,
                                         2,
                                         {static_cast<std::uint32_t>(wire::kOfferedFeatures),
                                          static_cast<std::uint32_t>(wire::kOfferedFeatures >> 32)}});
    case MessageOp::SetDriverFeatures:
      return with_payload<wire::FeatureBlocks>(function, request,
                                               [&](const auto& p) { set_features(function, request, p); });
    case MessageOp::GetConfig:
      return with_payload<wire::ConfigRange>(function, request,
                                             [&](const auto& p) { get_config(card, function, request, p); });
    case MessageOp::GetDeviceStatus:
      if (function.violations.count() != 0 && mutated(Mutant::AnswerOffender)) return;
      return respond(function, request, wire::StatusValue{function.device_status()});
    case MessageOp::SetDeviceStatus:
      return with_payload<wire::StatusValue>(function, request,
                                             [&](const auto& p) { set_status(card, function, request, p.status); });
    case MessageOp::GetVirtqueue:
      return with_payload<wire::QueueIndex>(function, request, [&](const auto& p) {
        const auto index = queue_of(p.index);
        if (!index) return refuse(function, request);
        respond(function, request, state_of(function, *index));
      });
    case MessageOp::SetVirtqueue:
      return with_payload<wire::SetQueue>(function, request, [&](const auto& p) { set_queue(function, request, p); });
    case MessageOp::ResetVirtqueue:
      return with_payload<wire::QueueIndex>(function, request,
                                            [&](const auto& p) { reset_queue(card, function, request, p); });
    case MessageOp::EventConfig: break;
  }
  if (mutated(Mutant::MessageOperation)) return respond(function, request, wire::StatusValue{function.device_status()});
  refuse(function, request);
}

// Status 0: overtakes the reset of a queue, joins the reset of the function.
bool asks_for_reset(const Message& request) {
  wire::StatusValue value;
  return (request.header.type & wire::kMessageBus) == 0 &&
         static_cast<MessageOp>(request.header.op) == MessageOp::SetDeviceStatus &&
         wire::read_payload(request, value) && value.status == wire::kStatusReset;
}

// GET_DEVICE_INFO: the same in every state of a function. A driver asks for it first, also of a function whose last
// owner's reset still runs, and then joins that reset.
bool asks_for_identity(const Message& request) {
  return (request.header.type & wire::kMessageBus) == 0 &&
         static_cast<MessageOp>(request.header.op) == MessageOp::GetDeviceInfo;
}

Status frame_error(const wire::MessageHeader& header) {
  if (header.size < sizeof(wire::MessageHeader) || header.size > wire::kMessageBytes) return Status::BadSize;
  if (header.device != 0) return Status::UnknownFunction;
  return (header.type & ~wire::kMessageBus) != 0 ? Status::BadType : Status::None;
}

void handle(Card& card, Function& function, const Message& request) {
  const auto& header = request.header;
  const Status wrong = frame_error(header);
  if (wrong != Status::None && !mutated(Mutant::MessageFrame, wrong)) return refuse(function, request);
  // No state may be built on what is being torn down.
  const bool told_during_resets = asks_for_reset(request) || asks_for_identity(request);
  if (function.reset.running() && !told_during_resets) return refuse(function, request);
  if ((header.type & wire::kMessageBus) != 0) {
    const bool ping = header.op == static_cast<std::uint8_t>(wire::BusOp::Ping);
    if (!ping && !mutated(Mutant::BusOperation)) return refuse(function, request);
    return with_payload<wire::Ping>(function, request, [&](const auto& p) { respond(function, request, p); });
  }
  handle_device_message(card, function, request);
}

}  // namespace

void respond_status(Function& function, const Message& request) {
  respond(function, request, wire::StatusValue{function.device_status()});
  signal_doorbell(function);
}
void respond_queue(Function& function, const Message& request, std::uint32_t queue) {
  respond(function, request, wire::QueueIndex{queue});
  signal_doorbell(function);
}
void respond_refused(Function& function, const Message& request) {
  refuse(function, request);
  signal_doorbell(function);
}

bool control_pending(Function& function) { return waiting(function) != 0; }

namespace {

[[gnu::noinline]] void serve_messages(Card& card, Function& function, std::uint32_t count) {
  hal::mark(wire::Waypoint::Control);
  wire::Fifo& fifo = to_card(function);
  for (std::uint32_t i = 0; i < count; ++i) {
    Message request;
    wire::copy_shared_words(
        reinterpret_cast<std::uint64_t*>(&request),
        reinterpret_cast<const std::uint64_t*>(&fifo.slots[function.control.read % wire::kFifoSlots]),
        sizeof request / 8);
    ++function.control.read;
    wire::store_release(fifo.read, function.control.read);
    handle(card, function, request);
  }
  signal_doorbell(function);  // bring-up is rare: always ring
}

}  // namespace

bool serve_control(Card& card, Function& function, unsigned budget) {
  const std::uint32_t count = std::min<std::uint32_t>(waiting(function), budget);
  if (count == 0) [[likely]]
    return false;
  serve_messages(card, function, count);
  return true;
}

void send_config_event(Function& function, std::uint32_t status) {
  send(function, wire::make_message(0, static_cast<std::uint8_t>(MessageOp::EventConfig), 0,
                                    wire::ConfigEvent{status, function.config_generation()}));
  signal_doorbell(function);
}

void raise_needs_reset(Function& function) {
  if (function.has_status(wire::kStatusNeedsReset)) return;
  function.need_reset();
  wire::store_relaxed(function.header().device_status, function.device_status());
  send_config_event(function, function.device_status());
}

}  // namespace fw
