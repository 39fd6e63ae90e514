// SPDX-License-Identifier: Apache-2.0
// Making, changing and destroying command buffers: BUFFER_CREATE, BUFFER_DESTROY and PATCH. What comes from the host is
// copied once into memory of the card, and judged there.
#pragma once

#include "firmware/core/function.hpp"
#include "firmware/core/function_commands.hpp"
#include "shared/admin.hpp"

namespace fw {

class Card;

// Copies everything when it begins (`resumed` false), and judges as many blocks each time as a quarter of a quantum
// has: what begins is looked at again in the same iteration.
Progress create_buffer(Card& card, Function& function, PendingAdmin& pending, bool resumed, wire::AdminReply& reply);
// Calls under way go on; their memory is freed when the last of them has ended.
void destroy_buffer(Card& card, Function& function, const wire::AdminRequest& request, wire::AdminReply& reply);

// The PATCH at the head of a stream. A block that is refused changes nothing.
void step_patch(Card& card, Function& function, unsigned stream);

}  // namespace fw
