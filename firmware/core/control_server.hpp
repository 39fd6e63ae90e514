// SPDX-License-Identifier: Apache-2.0
// Control plane of a function: answers virtio-msg requests from its FIFO and walks the VIRTIO status machine
// (VIRTIO 1.4 §2.1, §3.1). Every well-framed request gets exactly one response; a refused one an error response (header
// only). A FIFO whose indices make no sense is ignored until they do.
#pragma once

#include <cstdint>

#include "firmware/core/function.hpp"
#include "shared/message.hpp"

namespace fw {

class Card;

// Handles at most `budget` messages. True when there were any.
bool serve_control(Card& card, Function& function, unsigned budget);

// True when a request waits: the check behind arming, before sleep.
bool control_pending(Function& function);

// Late answers of resets (reset.hpp).
void respond_status(Function& function, const wire::Message& request);
void respond_queue(Function& function, const wire::Message& request, std::uint32_t queue);
void respond_refused(Function& function, const wire::Message& request);

// Tells the driver that status or configuration changed (VIRTIO 1.4 §2.1.2: DEVICE_NEEDS_RESET is sticky until status
// 0).
void send_config_event(Function& function, std::uint32_t status);

// Marks the function as needing a reset and tells the driver.
void raise_needs_reset(Function& function);

}  // namespace fw
