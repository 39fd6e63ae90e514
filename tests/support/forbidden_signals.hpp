// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace svp::test {

// From now on the kernel refuses every signal that this thread sends to a process, as it does to a daemon that was
// started as root and has changed its user; likewise those of threads and processes that it starts. Works without
// privileges. Ends the program when the kernel does not take the filter.
void forbid_signals();

}  // namespace svp::test
