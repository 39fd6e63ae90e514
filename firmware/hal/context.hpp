// SPDX-License-Identifier: Apache-2.0
// Running kernels: a resumable U-mode context is entered, runs until something stops it, and is resumed or dropped.
// A context belongs to one hart at a time. In the native build no context can run (an x86 process cannot run an RV64
// image): contexts_supported() is false there.
#pragma once

#include <array>
#include <cstdint>

#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory.hpp"
#include "shared/array.hpp"
#include "shared/outcome.hpp"

namespace hal {

bool contexts_supported();

// Everything a stopped kernel needs to go on. Opaque to core/ but for the orders; is in firmware memory, one per
// context slot.
struct alignas(128) Context {
  std::array<std::uint64_t, 35> integer;  // x1 … x31, pc, satp, and two words owned by arch/
  wire::array::Orders array_orders;       // to the compute array, of this context's requests; start() makes it serve
  std::array<std::uint64_t, 2> played;    // of the native build
  // Float and vector state; saved only when something else is about to use the registers (lazily, see run()).
  std::array<std::uint64_t, 40> floating;
  std::array<std::uint64_t, 8> vector_control;
  alignas(128) std::array<std::uint64_t, 512> vector;
};

enum class StopReason : std::uint8_t {
  Exit,         // environment call; argument = a0. Of all others but TraceMark, Claim and BadCall it is what the kernel
                // is at (wire::kProgressMark), or 0
  Barrier,      // environment call; resume() continues behind it
  TraceMark,    // environment call; argument = a0; resume() continues behind it
  ArrayOrder,   // environment call; resume() continues behind it
  Claim,        // environment call; argument = a0; answer() says what it returns, resume() continues behind it
  BadCall,      // unknown environment call; argument = a7
  Fault,        // see status, address, pc, access
  Timer,        // the slice ended
  Interrupted,  // a doorbell or a wake() came
};

enum class Access : std::uint8_t { Load, Store, Fetch };

struct Stop {
  StopReason reason;
  Access access;        // Fault only
  wire::Status status;  // Fault only: LoadFault, StoreFault, FetchFault, IllegalInstruction, …
  std::uint64_t argument;
  std::uint64_t address;    // Fault only: faulting virtual address (mtval)
  std::uint64_t pc;         // virtual
  std::uint64_t began;      // device time of the entry and of the stop, so that nobody reads the clock again: reading
  std::uint64_t ended;      // it costs 90 ns
  std::uint64_t ran_ticks;  // ended - began
};

// Makes the context ready to enter at `entry` with a0 = `argument`, sp = `stack_end`, every other register zero
// (x, f, v, fcsr, vcsr, vl/vtype/vstart, reservation). `root` names the page table (see address_space.hpp).
void start(Context& context, std::uint64_t root, std::uint64_t entry, std::uint64_t stack_end, std::uint64_t argument);

// What a stopped context says that it is at (wire::kProgressMark); 0: nothing, or it has not been entered.
std::uint64_t progress(const Context& context);

// Runs the context on the calling hart until it stops, at the latest when `slice_ticks` have passed since the call: the
// timer is armed here, at most one device access, and none while an earlier slice's timer still serves. A doorbell or a
// wake that came before the call ends the slice at once. A fault leaves the context as it was before the faulting
// instruction: run it again when the cause is gone. Changing the root against the last run on this hart costs a
// translation flush (3 to 5 µs). Call start() before the first run; a context stays on the hart of its first run.
// `now` is for who has just read the clock.
Stop run(Context& context, std::uint64_t now, std::uint64_t slice_ticks);
inline Stop run(Context& context, std::uint64_t slice_ticks) { return run(context, now(), slice_ticks); }

// What the environment call returns that the context has stopped with. After StopReason::Claim, before the next run.
void answer(Context& context, std::uint64_t value);

// What a kernel can be made to run into in place of its own code (FaultPoint::Kernel).
enum class Planted : std::uint8_t { Hang, Illegal, StrayLoad };
// Writes the instructions of all of them into a page of firmware memory, to be mapped ReadExecute.
void plant(PhysicalAddress page);
// The next run of the context goes on at the planted instructions; `page` is where the context's root maps them.
void divert(Context& context, std::uint64_t page, Planted planted);

// The context will not be run again (before a new start()), and its memory may be reused when this returns: forgets its
// float and vector state where it is still in the registers of any hart. From any hart; no hart may be running the
// context. Not needed after StopReason::Exit.
void drop(Context& context);

}  // namespace hal
