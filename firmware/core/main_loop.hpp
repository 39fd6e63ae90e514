// SPDX-License-Identifier: Apache-2.0
// What hart 0 and the other harts do from boot on.
#pragma once

namespace fw {

class Card;
class Function;

// Control messages come in conversations: a driver that is awake sends the next one about 8 µs after an answer. To wait
// for it is cheaper than to run a kernel meanwhile and be signalled out of it (25 µs). Bounded, so that a flood of
// messages gets its share and no more.
inline constexpr unsigned kSpinIterations = 40;
inline constexpr unsigned kMostSpins = 32;

// Whether anybody but `function` has something for hart 0 (in a ring, in the middle of a transfer, in a reset, or a
// part of a kernel on core 0), or the function wants a message answered: what may take long on hart 0 asks it now and
// then.
bool somebody_waits(Card& card, const Function& function);
// Likewise anybody: they wait for their quantum from now on.
bool anything_ready(Card& card);

// Increments the heartbeat when it is due. Called between any two things that hart 0 does; reads the clock only now and
// then, and at once when work has read it already and it was time.
void beat(Card& card);

// One iteration of hart 0's loop: everything that is ready, within budgets. True when there was something.
bool run_iteration(Card& card);
// What hart 0 does with an iteration that found nothing: run a kernel slice, or sleep until something can have changed.
void idle(Card& card, unsigned& quiet_iterations);
// An iteration and what follows from it: the body of hart 0's loop. Restarts the board when M has asked for it.
void loop_step(Card& card, unsigned& quiet_iterations);

// Boots and serves for ever.
[[noreturn]] void boot_main(unsigned hart);
// What harts 1 … n do.
[[noreturn]] void core_main(unsigned hart);

}  // namespace fw
