// SPDX-License-Identifier: Apache-2.0
// Every bound on a wait in this tree, in one place, with its reason: firmware, driver, emulator's owner, commands, tests.
// scripts/check-waits refuses a wait without a bound, and a bound that is not from here. The defaults are for a loaded
// two-core machine; on something slower (an emulated host, a sanitizer build) scale a whole set (svp::Timeouts,
// qemu::Timeouts) instead of tuning single values.
#pragma once

#include <cstdint>

#include "shared/units.hpp"

#ifndef __riscv  // the card counts device ticks and has no <chrono>
#include <chrono>
#endif

// ---- the card: device ticks --------------------------------------------------------------------------------------------

namespace wire {

inline constexpr std::uint64_t kTicksPerMillisecond = 1000 * kTicksPerMicrosecond;

// The heartbeat increments at least this often while the card is alive (protocol §8); a card that has nothing to do wakes
// for it, which costs 200 wake-ups a second.
inline constexpr std::uint64_t kHeartbeatTicks = 5 * kTicksPerMillisecond;

// A self-test holds hart 0 for so long at most: long enough for a million round trips of a benchmark, short enough that
// the driver does not report a silent card before it is over (Timeouts::silent counts only while work is outstanding).
inline constexpr std::uint64_t kSelfTestTicks = 2 * kTicksPerSecond;

}  // namespace wire

namespace fw {

// The timer is armed once per first slice and serves the launches that follow in it; arming it wakes the emulator's main
// loop. 50 µs cost an empty kernel a quarter of its rate; 200 µs is what a ring may wait for at most meanwhile.
inline constexpr std::uint64_t kFirstSliceTicks = 200 * wire::kTicksPerMicrosecond;

// A slice that is run between two turns while several functions are busy is as long as a turn of one of them took, within
// these: to enter, to leave and to arm the timer takes about 3 µs, and a turn of two steps of a transfer about 150 (one
// that seems to take longer was interrupted by the machine that emulates us).
inline constexpr std::uint64_t kShortestSharedTicks = 20 * wire::kTicksPerMicrosecond;
inline constexpr std::uint64_t kLongestSharedTicks = 200 * wire::kTicksPerMicrosecond;

// Slices of a hart that has stopped listening to bells (firmware/core/bell_moderation.hpp): as long as the longest that a
// ring may wait for anyway.
inline constexpr std::uint64_t kDeafSliceTicks = kLongestSharedTicks;

// A kernel is left alone for so long: the unit of its budget (protocol §7), and what a reset waits for at most.
inline constexpr std::uint64_t kSliceTicks = wire::kTicksPerMillisecond;

// While others are busy a function's turn is over after this time (times its weight) as well as after its bytes: bytes
// that are in no cache take four times as long as those that are, and everybody else would wait for them.
inline constexpr std::uint64_t kTurnTicks = 60 * wire::kTicksPerMicrosecond;

// With nobody else busy as well, for the heartbeat: from the first step that costs bytes on. Checksums of transfers and of
// images are what takes so long; a quantum of plain copies is over by its bytes.
inline constexpr std::uint64_t kUncontendedTurnTicks = wire::kTicksPerMillisecond;

// To reset a function that was at work and to bring it up again costs everybody about half a millisecond of hart 0: twenty
// messages, each with a bell. So a function may have so many resets in a row, and from then on, while other functions are
// at work, each is answered that much later.
inline constexpr std::uint64_t kResetTicks = 50 * wire::kTicksPerMillisecond;
inline constexpr std::uint64_t kResetsInARow = 4;

// Bounds the sleep of a core whose wake-up went astray; wake-ups are stores, so this is a second line only.
inline constexpr std::uint64_t kCoreNapTicks = 50 * wire::kTicksPerMillisecond;

// The native board's "for ever" ends as well: a test whose bell was lost must fail by its own check, not hang.
inline constexpr std::uint64_t kLongestNativeSleepTicks = 10 * wire::kTicksPerSecond;

}  // namespace fw

namespace probe {

// The host's answer by memory and bell, on a machine that runs many emulators at a time; less than the host's own bound
// on the probe (test_bounds::kProbe), so that the probe says itself what was missing.
inline constexpr std::uint64_t kHostAnswerTicks = 10 * wire::kTicksPerSecond;
// Another hart's answer: its slice, and twenty thousand times what a wake-up takes.
inline constexpr std::uint64_t kHelperAnswerTicks = 20 * wire::kTicksPerSecond;
// The helper's sleep between two looks for an order, and its caller's between two looks for the answer.
inline constexpr std::uint64_t kHelperIdleTicks = wire::kTicksPerSecond / 100;
inline constexpr std::uint64_t kHelperCheckTicks = 10 * wire::kTicksPerMicrosecond;

}  // namespace probe

#ifndef __riscv

// ---- the driver ----------------------------------------------------------------------------------------------------------

namespace svp {

struct Timeouts {
  using Duration = std::chrono::nanoseconds;

  // Bring-up gives up when the card shows no new POST code for this long (protocol §3). A whole boot takes 60 ms; 5 s
  // without any progress is a card that hangs, also on a machine that is 50 times too busy.
  Duration post_progress{std::chrono::seconds{5}};

  // While the driver waits for a control message it looks at the header this often (protocol §3): a bell may have been
  // lost before the emulator knew our peer.
  Duration header_check{std::chrono::milliseconds{1}};

  // Status 0 is answered when every kernel has stopped and touched memory is scrubbed. Scrubbing runs at 3.5 GB/s or
  // more: a card with 96 GiB dirty needs 30 s. Applies only while the heartbeat advances; else post_progress.
  Duration function_reset{std::chrono::seconds{60}};

  // One admin command. Most take microseconds; the longest are a region's release (scrub of 16 GiB: 5 s) and a stream
  // reset whose kernel has to be stopped (two 1 ms slices).
  Duration admin{std::chrono::seconds{10}};

  // A sleeping waiter looks at the rings again after at least the first and at most the second of these (protocol §8).
  // It doubles from one to the other, so that a lost bell costs 1 ms and a long kernel 50 wake-ups per second.
  Duration recheck_min{std::chrono::milliseconds{1}};
  Duration recheck_max{std::chrono::milliseconds{20}};

  // Longest busy wait before sleeping; the actual budget adapts between the two. Sleeping and being woken costs 65–135 µs
  // (both sides): a wait that is shorter than that is cheaper spun. The lower bound must catch the answer of a card that
  // is awake (1.5 µs, several times that on a busy machine): with 2 µs a loaded machine fell into a state in which both
  // sides always slept and never found out that they need not.
  Duration spin_min{std::chrono::microseconds{10}};
  Duration spin_max{std::chrono::microseconds{100}};

  // The driver's own tick while work is outstanding and nobody waits: finds completions whose bell was lost, an epoch
  // change, a silent heartbeat. It stops when the device is idle.
  Duration tick{std::chrono::milliseconds{5}};

  // The card increments its heartbeat at least every 5 ms. 200 missed beats with work outstanding are reported as
  // Health::Silent: a card on a starved machine was seen to pause for 300 ms.
  Duration silent{std::chrono::seconds{1}};

  // From the first sign of the emulator's death (its end of a pipe closed) to the report of its owner's watch, which
  // says how it ended. Measured 1–3 ms; 366 ms were seen on two CPUs with ten busy processes. It only improves an error's
  // text, so nobody waits longer.
  Duration death_report{std::chrono::seconds{1}};

  // Detaching resets the function so that the card lets go of the window. A card that does not answer in this time is
  // left alone: its owner is about to end it.
  Duration detach{std::chrono::seconds{2}};

  // A tenant's wait for the broker's answer. A free function is answered in 1 ms. One whose last owner has just gone is
  // answered when the card has retired it (milliseconds; bounded by `admin`), one of a card that is being power-cycled when
  // that has booted (0.3 s; bounded by `post_progress` and the emulator's own bounds).
  Duration attach{std::chrono::seconds{15}};

  // A broker drops a client that has connected and not said what it wants: a program says it in its next system call.
  Duration hello{std::chrono::seconds{2}};

  // Stop, reset or power cycle of a long-lived card: the emulator's end (qemu::Timeouts::kill, 15 s), a boot, and a
  // function's reset (`admin`) together.
  Duration card_command{std::chrono::seconds{60}};

  // ---- rungs of the ladder (recovery/rung.hpp). A stream reset is bounded by `admin`, a function reset by
  // `function_reset`. What a rung may take is counted in heartbeats of the card (one per 5 ms while it is served) and in
  // silence, so that a slow machine is no false alarm.

  // Queue reset: every kernel of the function has to leave its core (two 1 ms slices), every queued block is told. Applies
  // while the heartbeat advances; else post_progress.
  Duration queue_reset{std::chrono::seconds{10}};

  // From the request of a firmware restart or a card reset to POST "ready" of the next life: so many heartbeats of the
  // old life may still pass (it was told, and ends in the next turn of its loop), and so long nothing may move. A boot
  // takes 60 ms and shows a new POST code every few; post_progress has the reason for the factor.
  unsigned restart_beats = 200;
  Duration restart_silence{std::chrono::seconds{5}};

  // A recovery waits so long for launches that are being written by other threads, and for host copies of chunks.
  Duration quiesce{std::chrono::seconds{5}};

  // A broker looks at its card's header this often: a card that restarted by itself has nobody else to tell it.
  Duration broker_look{std::chrono::milliseconds{20}};

  // So many deaths within so long mean that a new emulator does not help either: wedged (a boot takes 0.3 s, so four in a
  // minute is a card that dies of what it is asked to do).
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

// Synchronize() without a deadline is a wait for work whose end the card guarantees (watchdog) or its death does; it looks
// around this often, so that no clock arithmetic overflows.
inline constexpr std::chrono::hours kLookAround{1};

// Without timers (a fault hook of tests) only the caller's deadline bounds a sleep. TimePoint::max() would overflow: a day
// is enough.
inline constexpr std::chrono::hours kWithoutTimers{24};

// After the card is gone all that is left are host copies of a few chunks: 16 MiB at 1 GB/s, times a hundred.
inline constexpr std::chrono::seconds kCopiesAfterDeath{2};
// A reset has ended everything on the card when it returns; what is left are the same copies.
inline constexpr std::chrono::seconds kCopiesAfterReset{2};

// From the hang-up of a bell, the first sign of a death during a boot, to the exit that completes the console (1-3 ms;
// 366 ms were seen on two CPUs with ten busy processes). It only improves an error's text.
inline constexpr std::chrono::milliseconds kExitIsKnown{500};

// Somebody who removes a stale folder holds its lock for a few system calls; nobody waits longer than this for one that
// is not a running broker's.
inline constexpr std::chrono::seconds kFolderCleanUp{2};

// A thread of the emulator that is frozen stops at its next return from the kernel.
inline constexpr std::chrono::milliseconds kFreezeLimit{2000};

// Of one error's records in the RAS log a few are written in this time; of what comes in a storm, people read the first.
inline constexpr std::chrono::seconds kRasPeriod{1};

// A broker that could not write card.json tries again: a full disk is not a matter of milliseconds.
inline constexpr std::chrono::seconds kRewriteAfter{1};
// The CPUs that a process may use are counted again when a device is attached later than this after the last count.
inline constexpr std::chrono::milliseconds kCountCpusAgain{10};
// card.json follows a change of owners after this time: bring-up has ended then, and several changes are one file.
inline constexpr std::chrono::milliseconds kWriteAfter{5};

// An unplugged window is let go of by a thread of the emulator that collects about every 10 ms: looked at this often …
inline constexpr std::chrono::milliseconds kUnplugLook{2};
// … and after so many looks (4 s) it is taken for one that is still plugged.
inline constexpr unsigned kUnplugLooks = 2'000;
// Bring-up of a function takes 0.3 ms on a card that has time; so long nothing is plugged that can wait …
inline constexpr std::chrono::milliseconds kBringUpTakes{2};
// … but for so many owners in a row at most.
inline constexpr unsigned kMostPutOffs = 4;
// A window that could not be plugged, or a peer that could not be connected, is tried again: most often the system had no
// descriptor left. After so many times in a row (10 s) the functions that wait for it are given up.
inline constexpr std::chrono::milliseconds kRenewAgain{100};
inline constexpr unsigned kRenewalsInVain = 100;
// From the acknowledged SLOT_BIND to its doorbell: two wake-ups, 0.1 ms.
inline constexpr std::chrono::seconds kFirstDoorbell{2};

// After the system had no descriptor or memory for a connection; the client waits in the listener's queue.
inline constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace svp

// ---- the owner of an emulator --------------------------------------------------------------------------------------------

namespace qemu {

// A thread that serves an emulator that lives and says nothing wakes this often, for nothing: no wait is without an end.
inline constexpr std::chrono::hours kLookAround{1};

struct Timeouts {
  using Duration = std::chrono::milliseconds;

  // Reaper's report that the emulator was executed. Two execve calls of small files: < 2 ms idle, so 5 s can only
  // mean a machine that is out of memory or a file system that hangs.
  Duration spawn{5'000};

  // Emulator's QMP greeting after exec. Measured 18-45 ms (dynamic linking dominates); cold page cache on a slow disk
  // needs about 2 s for the 60 MB of emulator and libraries.
  Duration greeting{20'000};

  // From the greeting to "every slot knows its peers". Measured 1-5 ms per slot; 240 slots on a loaded machine ~3 s.
  Duration handshake{20'000};

  // One QMP command and its answer. The emulator's main loop answers in < 1 ms, but `system_reset` and `stop` wait for
  // all harts to leave their translation block, which a machine with more harts than CPUs delays.
  Duration request{5'000};

  // From SIGKILL to the reaper's report. The kernel tears down the touched pages of up to 98 GiB (0.1 s per GiB).
  Duration kill{15'000};

  // From the emulator's end to the reaper's report of how it ended. Two wake-ups, 1-3 ms; 135 ms were seen on two CPUs
  // with ten busy processes.
  Duration report{2'000};

  // From the report of the death to the end of console and error output. The last bytes already lie in the pipes;
  // only a descriptor that a foreign fork still holds keeps them from ending, and nobody shall wait for that one.
  Duration drain{100};

  // From the reaper's last report to its own exit: it has nothing left to do.
  Duration reaper_exit{1'000};

  // `emulator --version`, run only to explain a failed start.
  Duration version_probe{5'000};

  // The same set with every bound multiplied.
  [[nodiscard]] constexpr Timeouts scaled(int factor) const {
    return {spawn * factor,  greeting * factor, handshake * factor,   request * factor,      kill * factor,
            report * factor, drain * factor,    reaper_exit * factor, version_probe * factor};
  }
};

}  // namespace qemu

// ---- the campaign of faults --------------------------------------------------------------------------------------------

namespace campaign_bounds {

// What one step of a scenario takes at most: a block, a tenant's answer, the end of what was stopped.
inline constexpr std::chrono::seconds kPatience{20};
inline constexpr std::chrono::seconds kBlock{20};
inline constexpr std::chrono::seconds kLoad{10};
// A command that is answered takes microseconds: on a busy machine it may take a while until somebody looks.
inline constexpr std::chrono::seconds kAdmin{20};
// Scenarios in which a reply never comes wait for just that.
inline constexpr std::chrono::seconds kMissingReply{1};
// A scenario whose detector is off has to be told that it failed, and no more.
inline constexpr std::chrono::seconds kShortPatience{5};
// An emulator's end, its reaper's and a thread's are seen a moment later; scrubbing what a scenario released takes longer.
inline constexpr std::chrono::seconds kSettle{5};
// A boot that was stopped says so after this silence: the steps are told apart by their POST codes.
inline constexpr std::chrono::milliseconds kPostProgress{500};
// A kernel with budget that is left alone has run so long; and so long nothing comes of a completion that is not posted.
inline constexpr std::chrono::milliseconds kLeftAlone{50};
inline constexpr std::chrono::milliseconds kNothingComes{100};
// A tenant that nobody ends leaves by itself.
inline constexpr std::chrono::seconds kOccupation{60};
// Between two looks at /proc.
inline constexpr std::chrono::milliseconds kLook{2};

}  // namespace campaign_bounds

// ---- soaks -------------------------------------------------------------------------------------------------------------

namespace soak_bounds {

// A batch takes milliseconds, and the watchdog ends what hangs in tens of them. A completion that a fault keeps back costs
// this once.
inline constexpr std::chrono::seconds kPatience{3};
// Replies are lost on purpose.
inline constexpr std::chrono::seconds kAdmin{1};
// A round in which hart 0 was ready to run and had no CPU for so long, half of what is waited for an answer, is not judged
// by its answer's being late; it is counted.
inline constexpr std::chrono::milliseconds kStarved{500};
// A function can be had again when the card is back: a boot takes 0.1 s, an emulator that is stopped or starved more.
inline constexpr std::chrono::seconds kAttach{30};
inline constexpr std::chrono::milliseconds kBetweenAttaches{3};
// Between two looks of who disturbs at its calendar.
inline constexpr std::chrono::milliseconds kCalendar{1};
// An emulator that stands still for so long is less than anybody's idea of a dead card.
inline constexpr std::chrono::milliseconds kLongestStop{60};
// Between two lines for whoever watches.
inline constexpr std::chrono::seconds kProgress{10};
// A firmware that was told to trap has gone down by then.
inline constexpr std::chrono::seconds kTrap{5};

}  // namespace soak_bounds

// ---- tests and benchmarks ----------------------------------------------------------------------------------------------
// Far above what is usual, because they only turn a hang into a failure; laws about time are expectations of their tests.

namespace test_bounds {

// What one step of a test takes at most: the native firmware's answer, threads, local sockets. Microseconds, also under a
// sanitizer; the bound is for a machine with twenty times more to run than it has CPUs.
inline constexpr std::chrono::seconds kAnswer{20};
inline constexpr std::chrono::seconds kThread{10};
inline constexpr std::chrono::seconds kConnection{5};

// qemu::Machine with an emulator that is played (start, event, end: < 50 ms), and with the real one and a probe.
inline constexpr std::chrono::milliseconds kPlayedEmulator{10'000};
inline constexpr std::chrono::milliseconds kEmulator{20'000};
// All proofs of the probe firmware; the longest takes 8 s on a busy machine.
inline constexpr std::chrono::milliseconds kProbe{60'000};

// Work on a card: a few thousand blocks, a small matmul, kernels that use their whole budget.
inline constexpr std::chrono::seconds kWork{30};
inline constexpr std::chrono::seconds kCompute{60};
// A program of ours from exec to exit: a boot, a small matmul.
inline constexpr std::chrono::seconds kProgram{60};
// A line of a helper process, which boots or attaches before.
inline constexpr std::chrono::seconds kHelperLine{30};
// Descriptors, processes and threads of something that has been ended are gone.
inline constexpr std::chrono::seconds kLeftOvers{3};

// A bound that is meant to be reached: the test is about what happens then.
inline constexpr std::chrono::milliseconds kExpires{20};
// Time in which nothing may happen, or in which something may that must not: a wrong wake-up comes in microseconds, a busy
// loop burns a tick of the scheduler every 10 ms.
inline constexpr std::chrono::milliseconds kQuiet{50};
inline constexpr std::chrono::milliseconds kRest{500};
// Between two POST codes of a boot that is played: half of what the test's driver waits for one.
inline constexpr std::chrono::milliseconds kPlayedStep{50};
// A kernel image under the bare card, with every size of its loops.
inline constexpr std::chrono::seconds kBareKernel{60};
// A bell of the probe's: one comes at once, so that twelve boots do not wait for a lost one.
inline constexpr std::chrono::milliseconds kProbeBell{2'000};

// An input of a fuzzer that waits for nothing may not cost the run: so long a wait takes at most.
inline constexpr std::chrono::milliseconds kFuzzedWait{2};

// Between two looks at a state that tells nobody about its change (another process's folder, /proc).
inline constexpr std::chrono::microseconds kBriefLook{100};
inline constexpr std::chrono::milliseconds kLook{1};
inline constexpr std::chrono::milliseconds kRareLook{5};

// A tenant that scribbles over its window pauses so long, or two CPUs would be busy with nothing else.
inline constexpr std::chrono::milliseconds kScribblePause{2};

// What poll() takes.
constexpr int in_milliseconds(std::chrono::milliseconds bound) { return static_cast<int>(bound.count()); }

// Without timers a lost wake-up is found by the last look at this deadline only, however long it is.
inline constexpr std::chrono::seconds kStalledRoundTrip{30};

}  // namespace test_bounds

namespace bench_bounds {

// 50 owners of a function in a second.
inline constexpr std::chrono::milliseconds kOwnerEvery{20};

// One block, a batch, or the end of a flood's round; the longest is a whole-memory scrub.
inline constexpr std::chrono::seconds kBlock{20};
inline constexpr std::chrono::seconds kDrain{10};
inline constexpr std::chrono::seconds kScrub{20};
// Until a submitted kernel runs; its launch takes 100 µs on a card that is awake.
inline constexpr std::chrono::milliseconds kKernelBegins{3};
// Until a caller that was answered has stopped spinning (Timeouts::spin_max, ten times).
inline constexpr std::chrono::milliseconds kSpinEnds{1};
// The end of a loaded device after a rung, and what it leaves behind for a moment.
inline constexpr std::chrono::seconds kRung{60};
inline constexpr std::chrono::seconds kSettle{5};
// A measurement that was given no end.
inline constexpr std::chrono::seconds kRounds{3};

}  // namespace bench_bounds

#endif  // __riscv
