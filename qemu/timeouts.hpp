// SPDX-License-Identifier: Apache-2.0
// The bounds of whoever owns an emulator, each with its reason.
#pragma once

#include <chrono>

namespace qemu {

// A thread that serves an emulator that runs and says nothing wakes this often, for nothing: no wait is without an end.
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
