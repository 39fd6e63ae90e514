// SPDX-License-Identifier: Apache-2.0
#include "host_driver/device/bring_up.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "host_driver/base/mutants.hpp"
#include "shared/version.hpp"

namespace svp {

namespace {

using Clock = std::chrono::steady_clock;
using wire::MessageOp;

// How many chains may be in flight: a control block and its completion, a request and its reply, one event.
constexpr std::array<std::uint16_t, wire::kQueueCount> kMaxChains{wire::kAdminSlots, wire::kControlBlockSlots,
                                                                  wire::kEventQueueSize};
// The configuration may change while it is read; a card that changes it without end is broken.
constexpr int kConfigAttempts = 8;

wire::ConfigRange config_range(std::uint32_t at) {
  return {at, std::min<std::uint32_t>(wire::kConfigChunk, sizeof(wire::DeviceConfig) - at)};
}

wire::SetQueue wanted_queue(std::uint32_t index) {
  const wire::QueueLayout& layout = wire::kQueueLayouts[index];
  wire::SetQueue wanted{};
  wanted.index = index;
  wanted.size = layout.size;
  wanted.descriptors = layout.descriptors;
  wanted.driver_area = layout.driver_area;
  wanted.device_area = layout.device_area;
  return wanted;
}

template <typename Payload>
wire::Message announcement(wire::MessageOp op, const Payload& payload) {
  return ControlChannel::announcement(op, payload);
}

bool is_ready(const HeaderView& header) {
  return header.magic == wire::kWindowMagic && header.post_code == wire::PostCode::Ready;
}
// The card numbers its POST codes upwards; from here on it has stopped by itself.
bool boot_failed(wire::PostCode code) { return code >= wire::PostCode::Failed; }

}  // namespace

BringUp::BringUp(Window& window, ControlChannel& channel, Doorbells& doorbells, int exit_fd, const Timeouts& timeouts,
                 std::uint64_t optional_features)
    : window_(window),
      channel_(channel),
      doorbells_(doorbells),
      exit_fd_(exit_fd),
      timeouts_(timeouts),
      optional_features_(optional_features & wire::kOptionalFeatures) {}

ErrorInfo BringUp::failure(std::string message, std::string next, wire::Outcome outcome) const {
  return {.layer = Layer::Firmware,
          .source = "slot " + std::to_string(doorbells_.slot().index()),
          .outcome = outcome,
          .recoverable = false,
          .next_step = std::move(next),
          .message = std::move(message)};
}

ErrorInfo BringUp::in_step(ErrorInfo error) const {
  const auto post = window_.header().post_code;
  error.message = "bring-up of slot " + std::to_string(doorbells_.slot().index()) + " failed in step \"" +
                  std::string(name(step_)) + "\" at POST " + std::to_string(static_cast<std::uint32_t>(post)) + " (" +
                  std::string(wire::name(post)) + "): " + error.message;
  error.recoverable = false;
  return error;
}

Expected<FunctionLink> BringUp::run() {
  while (step_ != BringUpStep::Ready) {
    auto done = perform_unless_told_to_fail(step_);
    if (!done) {
      const ErrorInfo error = in_step(std::move(done.error()));
      const bool answers = error.outcome == wire::Outcome::Rejected && step_ > BringUpStep::Reset;
      step_ = next_step(step_, false);
      if (answers) tell_failure();
      return std::unexpected(error);
    }
    step_ = next_step(step_, true);
  }
  return std::move(link_);
}

void BringUp::tell_failure() {
  // The card may be further than the steps whose answers were looked at.
  if (channel_.forget_announced()) {
    const auto now = channel_.transact<wire::StatusValue>(MessageOp::GetDeviceStatus, wire::StatusValue{});
    if (now) status_ = now->status & ~std::uint32_t{wire::kStatusNeedsReset};
  }
  (void)channel_.transact<wire::StatusValue>(MessageOp::SetDeviceStatus,
                                             wire::StatusValue{status_ | wire::kStatusFailed});
}

void BringUp::announce_features() {
  const std::uint32_t acknowledged = status_ | wire::kStatusAcknowledge;
  const std::array messages{
      announcement(MessageOp::SetDeviceStatus, wire::StatusValue{acknowledged}),
      announcement(MessageOp::SetDeviceStatus, wire::StatusValue{acknowledged | wire::kStatusDriver}),
      announcement(MessageOp::GetDeviceFeatures, wire::FeatureBlocks{0, 2, {}})};
  channel_.announce(messages);
}

void BringUp::announce_acceptance(const wire::FeatureBlocks& wanted) {
  std::vector messages{announcement(MessageOp::SetDriverFeatures, wanted),
                       announcement(MessageOp::SetDeviceStatus, wire::StatusValue{status_ | wire::kStatusFeaturesOk}),
                       announcement(MessageOp::GetDeviceStatus, wire::StatusValue{})};
  for (std::uint32_t at = 0; at < sizeof link_.config; at += wire::kConfigChunk) {
    messages.push_back(announcement(MessageOp::GetConfig, config_range(at)));
  }
  channel_.announce(messages);
}

void BringUp::announce_queues() {
  std::vector<wire::Message> messages;
  messages.reserve(wire::kQueueCount);
  for (std::uint32_t q = 0; q < wire::kQueueCount; ++q) {
    messages.push_back(announcement(MessageOp::SetVirtqueue, wanted_queue(q)));
  }
  channel_.announce(messages);
}

Expected<void> BringUp::perform_unless_told_to_fail(BringUpStep step) {
  const FaultSite& faults = doorbells_.faults();
  if (!faults.armed(fault::Point::BringUpStep) || !faults.occur(fault::Point::BringUpStep)) return perform(step);
  if (mutated(HostMutant::FailedStep)) return {};
  return std::unexpected(failure("the driver was told to fail here", "attach again"));
}

Expected<void> BringUp::perform(BringUpStep step) {
  switch (step) {
    case BringUpStep::WaitForCard: return wait_for_card();
    case BringUpStep::CheckAbi: return check_abi();
    case BringUpStep::Identify: return identify();
    case BringUpStep::Reset: return reset();
    case BringUpStep::Acknowledge: announce_features(); return add_status(wire::kStatusAcknowledge);
    case BringUpStep::Driver: return add_status(wire::kStatusDriver);
    case BringUpStep::Features: return negotiate_features();
    case BringUpStep::FeaturesOk: return confirm_features();
    case BringUpStep::ReadConfig: return read_config();
    case BringUpStep::SetUpQueues: return set_up_queues();
    case BringUpStep::DriverOk: return add_status(wire::kStatusDriverOk);
    case BringUpStep::PostEvents: return post_events();
    case BringUpStep::Ready:
    case BringUpStep::Failed: break;
  }
  return {};
}

bool BringUp::console_shows_more() {
  if (!codes_shown_ || boot_waits_ == kMostBootWaits) return false;
  ++boot_waits_;
  const std::uint64_t codes = codes_shown_();
  return std::exchange(codes_known_, codes) != codes;
}

Expected<void> BringUp::wait_for_card() {
  auto progress = channel_.clock().now();
  wire::PostCode last = window_.header().post_code;
  if (codes_shown_ && !is_ready(window_.header())) codes_known_ = codes_shown_();
  for (;;) {
    const HeaderView header = window_.header();
    if (is_ready(header)) return {};
    if (boot_failed(header.post_code)) {
      return std::unexpected(failure("the card's boot ended with an error", "read the card's console for the reason"));
    }
    // A version that is known to differ will not become right by waiting.
    if (header.magic == wire::kWindowMagic && header.abi_version != wire::kAbiVersion) return {};
    const auto now = channel_.clock().now();
    if (std::exchange(last, header.post_code) != header.post_code) progress = now;
    if (now - progress >= timeouts_.post_progress && console_shows_more()) progress = now;
    if (now - progress >= timeouts_.post_progress) {
      const auto waited = std::chrono::duration_cast<std::chrono::milliseconds>(now - progress).count();
      return std::unexpected(failure(header.magic == wire::kWindowMagic
                                         ? "no new POST code in " + std::to_string(waited) + " ms"
                                         : "the card has not set up this window in " + std::to_string(waited) + " ms",
                                     "read the card's console; check that the card boots with this many functions",
                                     wire::Outcome::Indeterminate));
    }
    // Only the window's state counts: the first doorbell of a card may be lost.
    if (doorbells_.sleep(exit_fd_, -1, timeouts_.header_check).gone) {
      return std::unexpected(failure("the card died while it booted",
                                     "read the emulator's messages and start a new card", wire::Outcome::Lost));
    }
  }
}

Expected<void> BringUp::check_abi() {
  const HeaderView header = window_.header();
  if (header.abi_version != wire::kAbiVersion && !mutated(HostMutant::AbiVersion)) {
    return std::unexpected(failure("the card speaks ABI version " + std::to_string(header.abi_version) +
                                       ", this driver version " + std::to_string(wire::kAbiVersion),
                                   "build firmware and driver from the same sources"));
  }
  if (header.kind == wire::FunctionKind::Unbound || header.kind > wire::FunctionKind::Unbound) {
    return std::unexpected(failure("the slot is bound to no function", "use the slot that belongs to the function"));
  }
  return {};
}

Expected<void> BringUp::identify() {
  const auto info = channel_.transact<wire::DeviceInfo>(wire::MessageOp::GetDeviceInfo, wire::StatusValue{});
  if (!info) return std::unexpected(info.error());
  if (info->device_id != wire::kDeviceId || info->vendor_id != wire::kVendorId || info->queues < wire::kQueueCount ||
      info->config_bytes < sizeof(wire::DeviceConfig)) {
    return std::unexpected(failure("device " + std::to_string(info->vendor_id) + ":" + std::to_string(info->device_id) +
                                       " with " + std::to_string(info->queues) + " queues is not ours",
                                   "attach to a slot of a card that runs this project's firmware"));
  }
  return {};
}

Expected<void> BringUp::reset() {
  const auto now = channel_.transact<wire::StatusValue>(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0},
                                                        timeouts_.function_reset);
  if (!now) return std::unexpected(now.error());
  if (now->status != 0) {
    return std::unexpected(failure("status is " + std::to_string(now->status) + " after a reset", "start a new card"));
  }
  channel_.forget_needs_reset();
  status_ = 0;
  return {};
}

Expected<void> BringUp::add_status(std::uint32_t bit) {
  const std::uint32_t wanted = status_ | bit;
  const auto now = channel_.transact<wire::StatusValue>(wire::MessageOp::SetDeviceStatus, wire::StatusValue{wanted});
  if (!now) return std::unexpected(now.error());
  if (now->status != wanted) {
    const bool needs_reset = (now->status & wire::kStatusNeedsReset) != 0;
    return std::unexpected(
        failure("asked for status " + std::to_string(wanted) + ", the card is at " + std::to_string(now->status),
                needs_reset ? "attach again; if it fails again, start a new card"
                            : "read the card's console for what it did not accept"));
  }
  status_ = wanted;
  return {};
}

Expected<void> BringUp::negotiate_features() {
  const auto offered =
      channel_.transact<wire::FeatureBlocks>(wire::MessageOp::GetDeviceFeatures, wire::FeatureBlocks{0, 2, {}});
  if (!offered) return std::unexpected(offered.error());
  const std::uint64_t bits = offered->bits[0] | std::uint64_t{offered->bits[1]} << 32;
  if (const std::uint64_t missing = wire::kMandatoryFeatures & ~bits; missing != 0) {
    return std::unexpected(failure("the card does not offer the mandatory feature bits " + std::to_string(missing),
                                   "build firmware and driver from the same sources"));
  }
  const std::uint64_t wanted = wire::kMandatoryFeatures | (bits & optional_features_);
  const wire::FeatureBlocks blocks{
      0, 2, {static_cast<std::uint32_t>(wanted), static_cast<std::uint32_t>(wanted >> 32)}};
  announce_acceptance(blocks);
  const auto taken = channel_.transact<wire::FeatureBlocks>(wire::MessageOp::SetDriverFeatures, blocks);
  if (!taken) return std::unexpected(taken.error());
  link_.features = wanted;
  return {};
}

Expected<void> BringUp::confirm_features() {
  if (auto set = add_status(wire::kStatusFeaturesOk); !set) return set;
  // VIRTIO 1.4 §3.1.1 step 6: read it again, the device may have taken it back.
  const auto now = channel_.transact<wire::StatusValue>(wire::MessageOp::GetDeviceStatus, wire::StatusValue{});
  if (!now) return std::unexpected(now.error());
  if ((now->status & wire::kStatusFeaturesOk) == 0) {
    return std::unexpected(failure("the card does not accept the features " + std::to_string(link_.features),
                                   "attach with fewer optional features"));
  }
  return {};
}

Expected<void> BringUp::read_config() {
  for (int attempt = 0; attempt < kConfigAttempts; ++attempt) {
    std::uint32_t generation = 0;
    bool consistent = true;
    for (std::uint32_t at = 0; at < sizeof link_.config && consistent; at += wire::kConfigChunk) {
      const wire::ConfigRange range = config_range(at);
      const auto [offset, bytes] = range;
      const auto part = channel_.transact<wire::ConfigData>(wire::MessageOp::GetConfig, range);
      if (!part) return std::unexpected(part.error());
      if (part->offset != at || part->bytes != bytes) {
        return std::unexpected(failure("asked for " + std::to_string(bytes) + " bytes of configuration at " +
                                           std::to_string(at) + ", got " + std::to_string(part->bytes) + " at " +
                                           std::to_string(part->offset),
                                       "build firmware and driver from the same sources"));
      }
      if (at == 0) generation = part->generation;
      consistent = part->generation == generation;
      std::memcpy(reinterpret_cast<std::byte*>(&link_.config) + at, part->data, bytes);
    }
    if (consistent) return check_config();
  }
  return std::unexpected(failure(
      "the configuration changed in each of " + std::to_string(kConfigAttempts) + " readings", "start a new card"));
}

Expected<void> BringUp::check_config() const {
  const wire::DeviceConfig& config = link_.config;
  const auto wrong = [&](const std::string& what) {
    return std::unexpected(
        failure("the card's configuration is not usable: " + what, "build firmware and driver from the same sources"));
  };
  if (config.abi_version != wire::kAbiVersion) {
    return wrong("ABI version " + std::to_string(config.abi_version) + ", this driver has " +
                 std::to_string(wire::kAbiVersion));
  }
  if (config.window_bytes != window_.bytes().size()) {
    return wrong("a window of " + std::to_string(config.window_bytes) + " bytes, mapped are " +
                 std::to_string(window_.bytes().size()));
  }
  if (config.streams == 0 || config.streams > wire::kStreamsPerFunction) {
    return wrong(std::to_string(config.streams) + " streams");
  }
  if (config.stream_credits == 0 || config.max_control_blocks < wire::kControlBlockSlots) {
    return wrong(std::to_string(config.stream_credits) + " credits per stream, " +
                 std::to_string(config.max_control_blocks) + " control blocks");
  }
  const std::uint64_t most = config.quota_bytes == 0 ? config.memory_bytes : config.quota_bytes;
  if (config.share_bytes > std::min(most, config.memory_bytes) ||
      !wire::is_aligned(config.share_bytes, wire::kGranuleBytes)) {
    return wrong("a guaranteed share of " + std::to_string(config.share_bytes) + " bytes of memory, of " +
                 std::to_string(most));
  }
  if (config.budget_bytes > config.share_bytes || !wire::is_aligned(config.budget_bytes, wire::kGranuleBytes)) {
    return wrong("a budget of " + std::to_string(config.budget_bytes) + " bytes of populated memory, of a share of " +
                 std::to_string(config.share_bytes));
  }
  return {};
}

Expected<void> BringUp::set_up_queues() {
  const bool event_idx = (link_.features & wire::kFeatureEventIdx) != 0;
  announce_queues();
  for (std::uint32_t q = 0; q < wire::kQueueCount; ++q) {
    const wire::QueueLayout& layout = wire::kQueueLayouts[q];
    link_.queues.emplace_back(window_.bytes(), layout, kMaxChains[q], event_idx);
    const auto set = channel_.transact<wire::QueueState>(wire::MessageOp::SetVirtqueue, wanted_queue(q));
    if (!set) return std::unexpected(set.error());
    if (set->index != q || set->size != layout.size || set->descriptors != layout.descriptors ||
        set->driver_area != layout.driver_area || set->device_area != layout.device_area) {
      return std::unexpected(
          failure("the card set up queue \"" + std::string(wire::queue_name(q)) + "\" in another way than asked",
                  "build firmware and driver from the same sources"));
    }
  }
  return {};
}

Expected<void> BringUp::post_events() {
  PackedQueue& queue = link_.queues[wire::kEventQueue];
  while (queue.can_add(1)) {
    const RingBuffer buffer{wire::kEvents.offset + queue.peek_id() * wire::kStickBytes, wire::kStickBytes, true};
    (void)queue.add({&buffer, 1});
  }
  queue.publish();
  if (queue.kick_needed()) doorbells_.ring();
  return {};
}

}  // namespace svp
