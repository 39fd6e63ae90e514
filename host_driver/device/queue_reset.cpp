// SPDX-License-Identifier: Apache-2.0
// ResetLevel::Queue of the escalation: the card lets go of the control-block queue and everything behind it, and gets a
// new one.
#include "host_driver/device/device_impl.hpp"
#include "shared/virtio.hpp"

namespace svp {

namespace {

ErrorInfo busy() {
  return {.layer = Layer::Driver,
          .source = "control-block queue",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "wait until the other reset has returned",
          .message = "the queue, or one of its streams, is being reset",
          .status = wire::Status::Busy};
}

}  // namespace

Expected<void> Device::Impl::reset_queues() {
  if (inside_sink()) return std::unexpected(not_in_sink());
  const std::unique_lock structure(stream_commands);
  if (outstanding_failed()) return std::unexpected(failure_or("the card is gone"));
  if (!blocks->begin_queue_reset()) return std::unexpected(failure() ? *failure() : busy());
  auto renewed = [&] {
    const Claim claim(*this);
    return renew_block_queue();
  }();
  blocks->end_queue_reset();
  if (!renewed) {
    // The card may hold the old ring, a new one or none: only a function reset tells.
    fail(renewed.error(), OutstandingEnd::Unknown, Health::NeedsReset);
    return renewed;
  }
  tell_credits();
  wait_for_deliveries();
  return {};
}

// Holds a claim.
Expected<void> Device::Impl::renew_block_queue() {
  progress();
  if (outstanding_failed()) return std::unexpected(failure_or("the card is gone"));
  const auto needs_function_reset = [](ErrorInfo error) {
    error.recoverable = false;
    error.next_step = "attach again (Context::recover() does): that resets the function";
    return std::unexpected(std::move(error));
  };
  const auto gone = channel.transact<wire::QueueIndex>(
      wire::MessageOp::ResetVirtqueue, wire::QueueIndex{wire::kControlBlockQueue}, options.timeouts.queue_reset);
  if (!gone) return needs_function_reset(gone.error());
  // Everything that the card took has a completion now.
  // There are no more completions than the ring holds.
  while (blocks->has_used() && !failing()) progress();
  if (failing()) return std::unexpected(failure_or("the card is gone"));
  const wire::QueueLayout& layout = wire::kQueueLayouts[wire::kControlBlockQueue];
  const bool event_idx = (link.features & wire::kFeatureEventIdx) != 0;
  deliver(blocks->renew(PackedQueue(window->bytes(), layout, wire::kControlBlockSlots, event_idx)));
  wire::SetQueue wanted{};
  wanted.index = wire::kControlBlockQueue;
  wanted.size = layout.size;
  wanted.descriptors = layout.descriptors;
  wanted.driver_area = layout.driver_area;
  wanted.device_area = layout.device_area;
  const auto set = channel.transact<wire::QueueState>(wire::MessageOp::SetVirtqueue, wanted);
  if (!set) return needs_function_reset(set.error());
  return {};
}

}  // namespace svp
