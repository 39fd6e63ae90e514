// SPDX-License-Identifier: Apache-2.0
// Every interval of the command line, with its reason.
#pragma once

#include <chrono>

namespace cli {

// Between two looks at whether an interrupt came: a person does not notice it.
inline constexpr std::chrono::milliseconds kInterruptLook{200};
// logs --follow looks at the file at least so often: a folder that was removed is the end, and the kernel need not say
// so.
inline constexpr std::chrono::milliseconds kLogLook{500};
// smi: between the two looks at the counters of which the first utilisation is made.
inline constexpr std::chrono::milliseconds kUtilisationSample{100};
// What takes longer shows a line, which is rewritten as often.
inline constexpr std::chrono::seconds kProgressInterval{1};

}  // namespace cli
