// SPDX-License-Identifier: Apache-2.0
// What no caller of a broker chooses, each with its reason.
#pragma once

#include <chrono>

namespace svp {

// A broker that could not write card.json tries again: a full disk is not a matter of milliseconds.
inline constexpr std::chrono::seconds kRewriteAfter{1};
// card.json follows a change of owners after this time: bring-up has ended then, and several changes are one file.
inline constexpr std::chrono::milliseconds kWriteAfter{5};

// An unplugged window is let go of by a thread of the emulator that collects about every 10 ms: looked at this often …
inline constexpr std::chrono::milliseconds kUnplugLook{2};
// … and after so many looks (4 s) for one that the card never bound, unless the card has said that it did.
inline constexpr unsigned kUnplugLooks = 2'000;
// Bring-up of a function takes 0.3 ms on a card that has time; so long nothing is plugged that can wait …
inline constexpr std::chrono::milliseconds kBringUpTakes{2};
// … but for so many owners in a row at most.
inline constexpr unsigned kMostPutOffs = 4;
// A window that could not be plugged, or a peer that could not be connected, is tried again: most often the system had
// no descriptor left. After so many times in a row (10 s) the functions that wait for it are given up.
inline constexpr std::chrono::milliseconds kRenewAgain{100};
inline constexpr unsigned kRenewalsInVain = 100;
// From the acknowledged SLOT_BIND to its doorbell: two wake-ups, 0.1 ms.
inline constexpr std::chrono::seconds kFirstDoorbell{2};

// After the system had no descriptor or memory for a connection; the client waits in the listener's queue.
inline constexpr std::chrono::milliseconds kAcceptAgain{100};

}  // namespace svp
