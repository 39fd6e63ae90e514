// SPDX-License-Identifier: Apache-2.0
// Exit codes of `spyre` (docs/faults.md) that more than one command ends with.
#pragma once

namespace cli {

inline constexpr int kOk = 0;
inline constexpr int kNotAsWanted = 1;  // it ran, and showed something else than what was asked for
inline constexpr int kRefused = 2;      // the command line, or a file that it names
inline constexpr int kInvalid = 4;      // nothing was shown either way: what was to happen did not

}  // namespace cli
