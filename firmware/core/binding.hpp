// SPDX-License-Identifier: Apache-2.0
// Functions and their slots: a function is reachable while it is bound to one. Hart 0 only.
#pragma once

#include <cstdint>

#include "firmware/core/function.hpp"

namespace fw {

struct Card;

// Sets up function `id` as kind and number say; it has no slot yet.
void create_function(Card& card, unsigned id, wire::FunctionKind kind, std::uint32_t index);

// Maps the slot and shows the function in its window, as after a reset. The slot is fresh, or the one that an earlier
// boot bound. False when the slot cannot be mapped or its window is too small; the function stays unbound.
bool bind_slot(Card& card, Function& function, unsigned slot);

// Takes window and bells away for good: whatever the old owner still does to them reaches nothing. The function's reset
// is begun first when none runs, and goes on without a window.
void retire_slot(Card& card, Function& function);

}  // namespace fw
