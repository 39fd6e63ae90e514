// SPDX-License-Identifier: Apache-2.0
// The bounds of the campaign and the soak, each with its reason. One that only makes a hang a failure is at least twice
// as long as the product's longest time-out (tests/bounds.hpp): no run that passes waits for its end.
#pragma once

#include <chrono>

namespace campaign_bounds {

// What one step of a scenario takes at most: a block, a tenant's answer, the end of what was stopped.
inline constexpr std::chrono::seconds kTimeout{120};
inline constexpr std::chrono::seconds kBlock{120};
inline constexpr std::chrono::seconds kLoad{120};
// A command that is answered takes microseconds: on a busy machine it may take a while until somebody looks.
inline constexpr std::chrono::seconds kAdmin{120};
// Scenarios in which a reply never comes wait for just that: half of the driver's own bound. Their other commands take
// microseconds.
// reached: the fault table suppresses the reply
inline constexpr std::chrono::seconds kMissingReply{5};
// A scenario whose check is disabled has to be told that it failed, and no more.
// reached: nothing does what the disabled check would
inline constexpr std::chrono::seconds kShortTimeout{5};
// An emulator's end, its reaper's and a thread's are seen a moment later; scrubbing what a scenario released takes
// longer.
inline constexpr std::chrono::seconds kSettle{120};
// A function's reset that is stuck is given up after this time; one that works takes milliseconds.
// reached: the fault table stalls the reset
inline constexpr std::chrono::seconds kStuckReset{5};
// A kernel with budget that is left alone has run so long; and so long nothing comes of a completion that was not
// posted, nor of a card that stands still.
// reached: doubled until the kernel has run for more slices than the endless one
inline constexpr std::chrono::milliseconds kLeftAlone{50};
// reached: the fault has fired before
inline constexpr std::chrono::milliseconds kNothingComes{100};
// A tenant that nobody ends leaves by itself.
inline constexpr std::chrono::seconds kOccupation{120};
// Between two looks at /proc, or at what other threads have done.
// reached: each is followed by the next look
inline constexpr std::chrono::milliseconds kLook{2};

}  // namespace campaign_bounds

namespace soak_bounds {

// A batch takes milliseconds, and the watchdog ends what hangs in tens of them. A completion that a fault keeps back
// costs this once.
// reached: a completion is suppressed, or it is waited longer for the time in which hart 0 had no CPU
inline constexpr std::chrono::seconds kTimeout{3};
// So long it may take on a machine that gives the card no CPU.
inline constexpr std::chrono::seconds kLongestWait{120};
// Replies are lost on purpose.
// reached: a reply is suppressed, and a late one is not judged
inline constexpr std::chrono::seconds kAdmin{1};
// A round in which hart 0 was ready to run and had no CPU for so long, half of what is waited for an answer, is not
// judged by its answer's being late; it is counted.
// reached: a measure for a round, for which nobody waits
inline constexpr std::chrono::milliseconds kStarved{500};
// A function can be had again when the card is back: a boot takes 0.1 s, an emulator that is stopped or starved more.
inline constexpr std::chrono::seconds kAttach{120};
// Between two looks of who disturbs at its calendar.
// reached: each is followed by the next look
inline constexpr std::chrono::milliseconds kCalendar{1};
// An emulator that stands still for so long is less than anybody's idea of a dead card.
// reached: a pause ends by itself
inline constexpr std::chrono::milliseconds kLongestStop{60};
// Between two lines for whoever watches.
// reached: each is followed by the next line
inline constexpr std::chrono::seconds kProgress{10};
// A firmware that was told to trap has gone down by then.
inline constexpr std::chrono::seconds kTrap{120};

}  // namespace soak_bounds
