// SPDX-License-Identifier: Apache-2.0
// The driver's bounds on its waits, each with its reason. The defaults are for a loaded two-core machine; on something
// slower (an emulated host, a sanitizer build) scale the whole set instead of tuning single values.
#pragma once

#include <chrono>

namespace svp {

struct Timeouts {
  using Duration = std::chrono::nanoseconds;

  // Bring-up gives up when the card shows no new POST code for this long (protocol §3). A whole boot takes 60 ms; 5 s
  // without any progress is a card that hangs, also on a machine that is 50 times too busy. Progress is a POST code in
  // the window, or before that on the console of a card that this process boots.
  Duration post_progress{std::chrono::seconds{5}};

  // While the driver waits for a control message it looks at the header this often (protocol §3): a doorbell may have
  // been lost before the emulator knew our peer.
  Duration header_check{std::chrono::milliseconds{1}};

  // Status 0 is answered when every kernel has stopped and touched memory is scrubbed. Scrubbing runs at 3.5 GB/s or
  // more: a card with 96 GiB dirty needs 30 s. Applies only while the heartbeat advances; else post_progress.
  Duration function_reset{std::chrono::seconds{60}};

  // One admin command. Most take microseconds; the longest are a region's release (scrub of 16 GiB: 5 s) and a stream
  // reset whose kernel has to be stopped (two 1 ms slices).
  Duration admin{std::chrono::seconds{10}};

  // A sleeping waiter looks at the rings again after at least the first and at most the second of these (protocol §8).
  // It doubles from one to the other, so that a lost doorbell costs 1 ms and a long kernel 50 wake-ups per second.
  Duration recheck_min{std::chrono::milliseconds{1}};
  Duration recheck_max{std::chrono::milliseconds{20}};

  // Longest busy wait before sleeping; the actual budget adapts between the two. Sleeping and being woken costs 65–135
  // µs (both sides): a wait that is shorter than that is cheaper spun. The lower bound must catch the answer of a card
  // that is awake (1.5 µs, several times that on a busy machine): with 2 µs a loaded machine fell into a state in which
  // both sides always slept and never found out that they need not.
  Duration spin_min{std::chrono::microseconds{10}};
  Duration spin_max{std::chrono::microseconds{100}};

  // The driver's own tick while work is outstanding and nobody waits: finds completions whose doorbell was lost, an
  // epoch change, a silent heartbeat. It stops when the device is idle.
  Duration tick{std::chrono::milliseconds{5}};

  // The card increments its heartbeat at least every 5 ms. 200 missed beats with work outstanding are reported as
  // Health::Silent: a card on a starved machine was seen to pause for 300 ms.
  Duration silent{std::chrono::seconds{1}};

  // From the first sign of the emulator's death (its end of a pipe closed) to the report of its owner's watch, which
  // says how it ended. Measured 1–3 ms; 366 ms were seen on two CPUs with ten busy processes. It only improves an
  // error's text, so nobody waits longer.
  Duration death_report{std::chrono::seconds{1}};

  // Detaching resets the function so that the card lets go of the window. A card that does not answer in this time is
  // left alone: its owner is about to end it.
  Duration detach{std::chrono::seconds{2}};

  // A tenant's wait for the broker's answer. A free function is answered in 1 ms. One whose last owner has just gone is
  // answered when the card has retired it (milliseconds; bounded by `admin`), one of a card that is being power-cycled
  // when that has booted (0.3 s; bounded by `post_progress` and the emulator's own bounds).
  Duration attach{std::chrono::seconds{15}};

  // A broker drops a client that has connected and not said what it wants: a program says it in its next system call.
  // Likewise what a tenant waits for the broker's word whether a debugger holds the card, which it has at hand.
  Duration hello{std::chrono::seconds{2}};

  // Stop, reset or power cycle of a long-lived card: the emulator's end (qemu::Timeouts::kill, 15 s), a boot, and a
  // function's reset (`admin`) together.
  Duration card_command{std::chrono::seconds{60}};

  // ---- reset levels (recovery/reset level.hpp). A stream reset is bounded by `admin`, a function reset by
  // `function_reset`. What a reset level may take is counted in heartbeats of the card (one per 5 ms while it is
  // served) and in silence, so that a slow machine is no false alarm.

  // Queue reset: every kernel of the function has to leave its core (two 1 ms slices), every queued block is told.
  // Applies while the heartbeat advances; else post_progress.
  Duration queue_reset{std::chrono::seconds{10}};

  // From the request of a firmware restart or a card reset to POST "ready" of the next boot: so many heartbeats of the
  // old boot may still pass (it was told, and ends in the next iteration of its loop), and so long nothing may move. A
  // boot takes 60 ms and shows a new POST code every few; post_progress has the reason for the factor.
  unsigned restart_beats = 200;
  Duration restart_silence{std::chrono::seconds{5}};

  // A recovery waits so long for launches that are being written by other threads, and for host copies of chunks.
  Duration quiesce{std::chrono::seconds{5}};

  // A broker looks at its card's header this often: a card that restarted by itself has nobody else to tell it.
  Duration broker_look{std::chrono::milliseconds{20}};

  // So many deaths within so long mean that a new emulator does not help either: wedged (a boot takes 0.3 s, so four in
  // a minute is a card that dies of what it is asked to do).
  unsigned wedge_deaths = 4;
  Duration wedge_within{std::chrono::seconds{60}};

  [[nodiscard]] constexpr Timeouts scaled(int factor) const {
    Timeouts t = *this;
    for (Duration* d : {&t.post_progress, &t.function_reset, &t.admin, &t.silent, &t.detach, &t.attach, &t.hello,
                        &t.card_command, &t.queue_reset, &t.restart_silence, &t.quiesce}) {
      *d *= factor;
    }
    return t;
  }
};

// What no caller chooses.

// Synchronize() without a deadline is a wait for work whose end the card guarantees (watchdog) or its death does; it
// looks around this often, so that no clock arithmetic overflows.
inline constexpr std::chrono::hours kLookAround{1};

// A wait for one copy that is not the stream's own looks this often whether the stream is to be recovered, which only
// callers do (RecoveryPolicy::Recover). No wait is longer for it: the end of the copy wakes it.
inline constexpr std::chrono::milliseconds kLookForRecovery{20};

// Without timers (a fault hook of tests) only the caller's deadline bounds a sleep. TimePoint::max() would overflow: a
// day is enough.
inline constexpr std::chrono::hours kWithoutTimers{24};

// After the card is gone all that is left are host copies of a few chunks: 16 MiB at 1 GB/s, times a hundred.
inline constexpr std::chrono::seconds kCopiesAfterDeath{2};
// A reset has ended everything on the card when it returns; what is left are the same copies.
inline constexpr std::chrono::seconds kCopiesAfterReset{2};

// From the hang-up of a doorbell, the first sign of a death during a boot, to the exit that completes the console (1-3
// ms; 366 ms were seen on two CPUs with ten busy processes). It only improves an error's text.
inline constexpr std::chrono::milliseconds kExitIsKnown{500};

// Somebody who removes a stale folder holds its lock for a few system calls; nobody waits longer than this for one that
// is not a running broker's.
inline constexpr std::chrono::seconds kFolderCleanUp{2};

// A thread of the emulator that is frozen stops at its next return from the kernel.
inline constexpr std::chrono::milliseconds kFreezeLimit{2000};

// Of one error's records in the RAS log a few are written in this time; of what comes in a burst, people read the
// first.
inline constexpr std::chrono::seconds kRasPeriod{1};

// The CPUs that a process may use are counted again when a device is attached later than this after the last count.
inline constexpr std::chrono::milliseconds kCountCpusAgain{10};
// A workload, of a fault script or a soak, that lost its function tries to have it again after this time.
inline constexpr std::chrono::milliseconds kAttachAgain{3};

}  // namespace svp
