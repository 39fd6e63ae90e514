// SPDX-License-Identifier: Apache-2.0
// Functions and their slots: a function is reachable while it is bound to one. Hart 0 only.
#pragma once

#include <cstdint>

#include "firmware/core/function.hpp"
#include "firmware/core/slot_table.hpp"

namespace fw {

class Card;

// Sets up function `id` as kind and number say; it has no slot yet.
void create_function(Card& card, unsigned id, wire::FunctionKind kind, std::uint32_t index);

// Maps the window, opens the doorbell device and shows the function in its window, as after a reset. The window was
// never bound, or an earlier boot bound it here. False when it cannot be mapped or is too small; the function stays
// unbound.
bool bind_slot(Card& card, Function& function, const Place& place);

// Takes window and doorbells away for good: whatever the old owner still does to them reaches nothing. A renewable
// slot's window is unplugged. The function's reset is begun first when none runs, and goes on without a window.
void retire_slot(Card& card, Function& function);

// At boot: unplugs what the last boot had retired when it ended, before it could unplug it.
void finish_retirements(Card& card);

}  // namespace fw
