// SPDX-License-Identifier: Apache-2.0
// Admin commands (queue 0): regions, streams, statistics. Answered at once, or, when a kernel has to stop or memory has
// to be scrubbed first, later; every command gets exactly one reply. Works while the control-block queue is stalled.
#pragma once

#include "firmware/core/function.hpp"

namespace fw {

class Card;

// A REJECTED reply that names the field.
wire::AdminReply refusal(wire::Status status, wire::Field field);

// Handles at most `budget` commands. True when there were any.
bool serve_admin(Card& card, Function& function, unsigned budget);

// Goes on with waiting commands. True when one was answered.
bool progress_admin(Card& card, Function& function);

}  // namespace fw
