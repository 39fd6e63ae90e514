// SPDX-License-Identifier: Apache-2.0
// The bounds of the campaign and the soak, each with its reason.
#pragma once

#include <chrono>

namespace campaign_bounds {

// What one step of a scenario takes at most: a block, a tenant's answer, the end of what was stopped.
inline constexpr std::chrono::seconds kTimeout{20};
inline constexpr std::chrono::seconds kBlock{20};
inline constexpr std::chrono::seconds kLoad{10};
// A command that is answered takes microseconds: on a busy machine it may take a while until somebody looks.
inline constexpr std::chrono::seconds kAdmin{20};
// Scenarios in which a reply never comes wait for just that: half of the driver's own bound. Their other commands take
// microseconds.
inline constexpr std::chrono::seconds kMissingReply{5};
// A scenario whose check is disabled has to be told that it failed, and no more.
inline constexpr std::chrono::seconds kShortTimeout{5};
// An emulator's end, its reaper's and a thread's are seen a moment later; scrubbing what a scenario released takes
// longer.
inline constexpr std::chrono::seconds kSettle{5};
// A function's reset that is stuck is given up after this time; one that works takes milliseconds.
inline constexpr std::chrono::seconds kStuckReset{5};
// A kernel with budget that is left alone has run so long; and so long nothing comes of a completion that is not
// posted.
inline constexpr std::chrono::milliseconds kLeftAlone{50};
inline constexpr std::chrono::milliseconds kNothingComes{100};
// A tenant that nobody ends leaves by itself.
inline constexpr std::chrono::seconds kOccupation{60};
// Between two looks at /proc, or at what other threads have done.
inline constexpr std::chrono::milliseconds kLook{2};

}  // namespace campaign_bounds

namespace soak_bounds {

// A batch takes milliseconds, and the watchdog ends what hangs in tens of them. A completion that a fault keeps back
// costs this once.
inline constexpr std::chrono::seconds kTimeout{3};
// So long it may take on a machine that gives the card no CPU.
inline constexpr std::chrono::seconds kLongestWait{60};
// Replies are lost on purpose.
inline constexpr std::chrono::seconds kAdmin{1};
// A round in which hart 0 was ready to run and had no CPU for so long, half of what is waited for an answer, is not
// judged by its answer's being late; it is counted.
inline constexpr std::chrono::milliseconds kStarved{500};
// A function can be had again when the card is back: a boot takes 0.1 s, an emulator that is stopped or starved more.
inline constexpr std::chrono::seconds kAttach{30};
// Between two looks of who disturbs at its calendar.
inline constexpr std::chrono::milliseconds kCalendar{1};
// An emulator that stands still for so long is less than anybody's idea of a dead card.
inline constexpr std::chrono::milliseconds kLongestStop{60};
// Between two lines for whoever watches.
inline constexpr std::chrono::seconds kProgress{10};
// A firmware that was told to trap has gone down by then.
inline constexpr std::chrono::seconds kTrap{5};

}  // namespace soak_bounds
