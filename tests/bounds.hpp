// SPDX-License-Identifier: Apache-2.0
// The bounds of tests and benchmarks. Far above what is usual, because they only make a hang a failure; properties
// about time are expectations of their tests. A bound of tests is at least twice as long as the product's longest
// time-out, or says that it is meant to be reached (scripts/check-waits).
#pragma once

#include <chrono>

namespace test_bounds {

// What one step of a test takes at most: the native firmware's answer, threads, local sockets. Microseconds, also under
// a sanitizer; the bound is for a machine with twenty times more to run than it has CPUs.
inline constexpr std::chrono::seconds kAnswer{120};
inline constexpr std::chrono::seconds kThread{120};
inline constexpr std::chrono::seconds kConnection{120};

// qemu::Machine with an emulator that is played (start, event, end: < 50 ms), and with the real one and a probe.
inline constexpr std::chrono::milliseconds kPlayedEmulator{120'000};
inline constexpr std::chrono::milliseconds kEmulator{120'000};
// All proofs of the probe firmware; the longest takes 8 s on a busy machine.
inline constexpr std::chrono::milliseconds kProbe{120'000};

// Work on a card: a few thousand blocks, a small matmul, kernels that use their whole budget.
inline constexpr std::chrono::seconds kWork{120};
inline constexpr std::chrono::seconds kCompute{120};
// A program of ours from exec to exit: a boot, the product of scripts/demo and its check.
inline constexpr std::chrono::seconds kProgram{300};
// The whole fault campaign, which takes 45 s on an idle machine with two cores.
inline constexpr std::chrono::seconds kCampaign{270};
// A line of a helper process, which boots or attaches before.
inline constexpr std::chrono::seconds kHelperLine{120};

// A bound that is meant to be reached: the test is about what happens then.
// reached: nothing else can end the wait
inline constexpr std::chrono::milliseconds kExpires{20};
// So long a debugger holds a boot: longer than Timeouts::post_progress.
// reached: the boot is held for all of it
inline constexpr std::chrono::milliseconds kHeldBoot{6'000};
// A debugger holds a card while requests wait: longer than Timeouts::admin.
// reached: the card is held for all of it
inline constexpr std::chrono::milliseconds kHeldRequest{12'000};
// Time in which nothing may happen, or in which something may that must not: a wrong wake-up comes in microseconds, a
// busy loop burns a tick of the scheduler every 10 ms.
// reached: what is right happens after it
inline constexpr std::chrono::milliseconds kQuiet{50};
// reached: what is right happens after it
inline constexpr std::chrono::milliseconds kRest{500};
// What the driver of a test waits for the next POST code of a boot that is played.
// reached: a test doubles it until the code came in time
inline constexpr std::chrono::milliseconds kPlayedBound{100};
// A kernel image under the bare card, with every size of its loops.
inline constexpr std::chrono::seconds kBareKernel{120};
// A doorbell of the probe's, which comes at once.
inline constexpr std::chrono::milliseconds kProbeDoorbell{120'000};

// An input of a fuzzer that waits for nothing may not cost the run: so long a wait takes at most.
// reached: the input is given up, and judged no more
inline constexpr std::chrono::milliseconds kFuzzedWait{2};

// Between two looks at a state that tells nobody about its change (another process's folder, /proc).
// reached: each is followed by the next look
inline constexpr std::chrono::microseconds kBriefLook{100};
// reached: each is followed by the next look
inline constexpr std::chrono::milliseconds kLook{1};
// reached: each is followed by the next look
inline constexpr std::chrono::milliseconds kRareLook{5};

// A tenant that scribbles over its window pauses so long, or two CPUs would be busy with nothing else.
// reached: a pause ends by itself
inline constexpr std::chrono::milliseconds kScribblePause{2};

// What poll() takes.
constexpr int in_milliseconds(std::chrono::milliseconds bound) { return static_cast<int>(bound.count()); }

// A soak whose card lacks a check ends with the first complaint, and one of a whole card when it has done enough. On an
// idle machine both take less than 10 s.
inline constexpr std::chrono::seconds kEnough{120};
inline constexpr std::chrono::seconds kComplaint{120};

// Without timers a lost wake-up is found by the last look at this deadline only, however long it is.
inline constexpr std::chrono::seconds kStalledRoundTrip{120};

}  // namespace test_bounds

namespace bench_bounds {

// 50 owners of a function in a second.
// reached: it is the rhythm that is played
inline constexpr std::chrono::milliseconds kOwnerEvery{20};

// One block, a batch, or the end of a flood's round; the longest is a whole-memory scrub.
inline constexpr std::chrono::seconds kBlock{120};
inline constexpr std::chrono::seconds kDrain{120};
inline constexpr std::chrono::seconds kScrub{120};
// Until a submitted kernel runs; its launch takes 100 µs on a card that is awake.
// reached: a pause ends by itself
inline constexpr std::chrono::milliseconds kKernelBegins{3};
// Until a caller that was answered has stopped spinning (Timeouts::spin_max, ten times).
// reached: a pause ends by itself
inline constexpr std::chrono::milliseconds kSpinEnds{1};
// The end of a loaded device after a reset level.
inline constexpr std::chrono::seconds kLevel{120};
// A measurement that was given no end.
// reached: it is how long is measured
inline constexpr std::chrono::seconds kRounds{3};

}  // namespace bench_bounds
