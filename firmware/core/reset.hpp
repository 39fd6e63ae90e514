// SPDX-License-Identifier: Apache-2.0
// Resets of a stream, a queue and a function (protocol §9). Each is begun at once and ends when every kernel concerned
// has left U-mode; meanwhile hart 0 serves everything else. What was begun is answered exactly once, when it has ended.
#pragma once

#include <cstdint>

#include "firmware/core/function.hpp"
#include "firmware/core/timeouts.hpp"
#include "shared/message.hpp"

namespace fw {

class Card;

// A function may have fw::kResetsInARow resets in a row, and from then on, while other functions are at work, each is
// answered kResetTicks later (shared/timeouts.hpp); what ran is stopped at once all the same. M's SLOT_RETIRE, and
// status 0 of a function that no driver has used, are never made to wait.

// Generation first, rings off, kernels stopped; then regions released to quarantine and state as new. Nothing of the
// old generation completes afterwards: the driver ends what was outstanding. Joins a function reset that runs;
// overtakes the reset of a queue. A driver that did not ask is told to attach again.
void begin_function_reset(Card& card, Function& function);
// The same for status 0, which is answered last.
void begin_driver_reset(Card& card, Function& function, const wire::Message& request);

// RESET_VQUEUE. For the control-block queue every stream is reset and every outstanding block completed before the
// answer (VIRTIO 1.4 §2.6.1: no use of the queue after it).
void begin_queue_reset(Card& card, Function& function, std::uint32_t queue, const wire::Message& request);

// `state` is Resetting or Closing. Incarnation + 1; queued blocks end ABORTED, a running transfer or kernel FAULT
// "stopped by its owner". The stream may be in that state for a while (settle_stream_reset ends it) and refuses blocks
// meanwhile. Joins a reset or close that runs.
void begin_stream_reset(Card& card, Function& function, unsigned stream, StreamState state);

// Goes on with begun resets. True when something ended.
bool progress_resets(Card& card, Function& function);

}  // namespace fw
