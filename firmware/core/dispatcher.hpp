// SPDX-License-Identifier: Apache-2.0
// From the control-block ring to completions: fetch, judge, queue per stream, execute, give back. Every block fetched
// ends in exactly one completion. Hart 0 only.
#pragma once

#include <cstdint>

#include "firmware/core/function.hpp"
#include "firmware/core/launches.hpp"
#include "shared/units.hpp"

namespace fw {

class Card;

// Takes at most `budget` chains from the ring into stream queues. True when there were any.
bool fetch_blocks(Card& card, Function& function, unsigned budget);

// What a function was charged with, and launches that were made ready, since boot: the difference over a quantum is the
// quantum's, as long as only `function` is stepped.
std::uint64_t charged_so_far(const Card& card, const Function& function);

// Lets runnable streams make at most `budget` steps and move about kQuantumBytes: a block that is short runs to its
// end, a transfer moves at most kDmaStepBytes, or kContendedStepBytes. True when anything moved.
// `charged_before`: charged_so_far() when the quantum began, before its blocks were fetched.
bool run_streams(Card& card, Function& function, unsigned budget, std::uint64_t charged_before);

// A launch of one of the function's streams has ended.
void launch_ended(Function& function, const LaunchResult& result);

// Ends the head block of a stream now. The stream goes on with the next one (or ABORTs it, when poisoned).
void finish_head(Function& function, unsigned stream, wire::Outcome outcome, Verdict why);

// CANCEL of one block. Not started: it ends ABORTED, and its stream goes on without it; that is no error of the stream.
// Under way: it is stopped, ends FAULT "stopped by its owner" and poisons its stream like every fault, because what
// follows may have counted on it. Each in exactly one completion.
enum class Cancelled : std::uint8_t {
  Yes,
  Ended,       // no such block: it has ended, is ending already, or never was
  NotFetched,  // may still be in the ring: try again
};
Cancelled cancel_block(Card& card, Function& function, unsigned stream, std::uint64_t sequence);

// The end of a stream's reset or close, or a part of it: what was queued ends ABORTED, kEndedInAStep blocks at a time;
// with the last of them the stream is as new, or closed. Until then it stays runnable, and its next step goes on.
inline constexpr unsigned kEndedInAStep = 32;
void settle_stream_reset(Function& function, unsigned stream);

// A launch has ended: one stream of the function that waits for room on the cores tries again, in turn.
void retry_waiting_launch(Function& function);

// A transfer goes in steps of this size, so that a ring is never left alone for long: 256 KiB take about 50 µs at
// emulated copy speed, the length of a kernel's first slice.
inline constexpr std::uint64_t kDmaStepBytes = 256 * 1024;
// While others are busy in shorter ones, because a quantum ends by time only between two steps: 256 KiB that are in no
// cache took 200 µs.
inline constexpr std::uint64_t kContendedStepBytes = 64 * 1024;
// A step that is summed is shorter: CRC32C under emulation goes at a twentieth of the speed of a copy.
inline constexpr std::uint64_t kChecksumStepBytes = 32 * 1024;
// While others are busy and no compute array sums.
inline constexpr std::uint64_t kContendedChecksumStepBytes = 8 * 1024;
// A transfer of so much goes around the host's caches: what it has moved first has left them when it ends.
inline constexpr std::uint64_t kStreamedBytes = std::uint64_t{16} << 20;
// A step of a strided transfer is bounded by the same numbers, in which a row costs so much besides its bytes, and an
// element of a row that is not dense as much as this (measured: docs/performance.md).
inline constexpr std::uint64_t kBytesOfARow = 256;
inline constexpr std::uint64_t kBytesOfAnElement = 32;
// Rows that lie equally far apart move at once; each time costs so much more, and a step of a strided transfer besides.
inline constexpr std::uint64_t kBytesOfRowsAtOnce = 6 * 1024;
inline constexpr std::uint64_t kBytesOfAStridedStep = 24 * 1024;
// And a function moves no more than this in a quantum, before the others and the admin queues are looked at, times its
// weight. Less would be fair, and slow: after a kernel's slice the emulator has forgotten translations, and the first
// step costs twice as much as the next.
inline constexpr std::uint64_t kQuantumBytes = 2 * kDmaStepBytes;
// What an empty block costs, in bytes: a quantum of blocks and one of bytes are about the same.
inline constexpr std::uint64_t kBytesOfAStep = 16 * 1024;
// What a transfer costs besides its bytes: as much as an empty block, once more.
inline constexpr std::uint64_t kBytesOfATransfer = 16 * 1024;
// What it costs to look at one wait: in a list of waiters, or on the way along a chain of waits (natively a twelfth of
// an empty block).
inline constexpr std::uint64_t kBytesOfALook = 1536;
// What an event costs besides an empty block and its own looks, in looks: a quantum has two thirds of them.
inline constexpr std::uint32_t kLooksOfAnEvent = 8;

}  // namespace fw
