// SPDX-License-Identifier: Apache-2.0
// Exit codes of `spyre` (docs/cli.md).
#pragma once

namespace cli {

inline constexpr int kOk = 0;
inline constexpr int kNotAsWanted = 1;    // it ran, and showed something else than what was asked for
inline constexpr int kRefused = 2;        // the command line, or a file that it names; it could not run
inline constexpr int kInvalid = 4;        // nothing was shown either way: what was to happen did not
inline constexpr int kInterrupted = 130;  // SIGINT or SIGTERM came; what there was until then was printed

// `spyre exec`: its own failures, so that they are not taken for its command's (the codes that docker and env use).
inline constexpr int kExecFailed = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;
inline constexpr int kEndedBySignal = 128;  // + the signal's number

}  // namespace cli
