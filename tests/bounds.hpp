// SPDX-License-Identifier: Apache-2.0
// The bounds of tests and benchmarks. Far above what is usual, because they only make a hang a failure; properties
// about time are expectations of their tests.
#pragma once

#include <chrono>

namespace test_bounds {

// What one step of a test takes at most: the native firmware's answer, threads, local sockets. Microseconds, also under
// a sanitizer; the bound is for a machine with twenty times more to run than it has CPUs.
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
// The whole fault campaign, which takes 45 s on an idle machine with two cores.
inline constexpr std::chrono::seconds kCampaign{270};
// A line of a helper process, which boots or attaches before.
inline constexpr std::chrono::seconds kHelperLine{30};

// A bound that is meant to be reached: the test is about what happens then.
inline constexpr std::chrono::milliseconds kExpires{20};
// So long a debugger holds a boot: longer than Timeouts::post_progress.
inline constexpr std::chrono::milliseconds kHeldBoot{6'000};
// Time in which nothing may happen, or in which something may that must not: a wrong wake-up comes in microseconds, a
// busy loop burns a tick of the scheduler every 10 ms.
inline constexpr std::chrono::milliseconds kQuiet{50};
inline constexpr std::chrono::milliseconds kRest{500};
// What the driver of a test waits for the next POST code of a boot that is played.
inline constexpr std::chrono::milliseconds kPlayedBound{100};
// A kernel image under the bare card, with every size of its loops.
inline constexpr std::chrono::seconds kBareKernel{60};
// A doorbell of the probe's: one comes at once, so that twelve boots do not wait for a lost one.
inline constexpr std::chrono::milliseconds kProbeDoorbell{2'000};

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

// A soak whose card lacks a check ends with the first complaint, and one of a whole card when it has done enough. On an
// idle machine both take less than 10 s.
inline constexpr std::chrono::seconds kEnough{120};
inline constexpr std::chrono::seconds kComplaint{100};

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
// The end of a loaded device after a reset level.
inline constexpr std::chrono::seconds kLevel{60};
// A measurement that was given no end.
inline constexpr std::chrono::seconds kRounds{3};

}  // namespace bench_bounds
