// SPDX-License-Identifier: Apache-2.0
// What a card is to be, for whoever boots one. Plain data.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/base/timeouts.hpp"
#include "shared/units.hpp"

namespace svp {

// The program that emulates the card; what the card's own options say is not repeated here.
struct EmulatorOptions {
  // A name without '/' is looked up in PATH.
  std::string program = "qemu-system-riscv64";
  // The console is also appended to this file (created if absent). Empty: no file.
  std::filesystem::path console_file{};
  // Where a debugger may attach, in the emulator's own notation: "tcp:127.0.0.1:1234" or
  // "unix:<path>,server=on,wait=off". With "wait=on" the first instruction waits for the debugger's "continue". The
  // driver's bounds do not count while a debugger holds the card. Empty: where SPYRE_GDB of the environment says, else
  // nowhere.
  std::string gdb_endpoint{};
  // Appended to the command line as they are. For experiments: they can break every promise made here.
  std::vector<std::string> extra_arguments{};
  // The first instruction waits for Machine::cont().
  bool start_paused = false;
  // For tests of the ids' end: the first id that a renewed doorbell peer gets.
  std::uint16_t first_renewed_peer = 2;
  // Called exactly once per emulator, on a thread of its own, also for an end that the owner caused: "signal 9
  // (Killed)".
  std::function<void(const std::string& how)> on_exit{};
};

struct CardOptions {
  // For records of errors (host_driver/ras); a long-lived card has its own.
  std::string name = "embedded";
  // Empty: found by find_firmware().
  std::filesystem::path firmware{};
  // Whether the card has the compute array (docs/array.md): "off", "auto", or the plugin's path. Empty: as SPYRE_ARRAY
  // says, else "auto" (find_array()).
  std::filesystem::path array{};
  // Harts; hart 0 is management and core 0. 0: min(2, CPUs of this machine).
  unsigned cores = 0;
  std::uint64_t memory_bytes = 98 * wire::kGiB;  // sparse: 8 regions of 12 GiB and the firmware's own
  unsigned virtual_functions = 4;                // 0 … 16
  // Region memory is divided among the functions: each is guaranteed an equal part (protocol §6), so with fewer
  // functions each has more. Set: this one (0: the PF, n: VF n) is guaranteed everything, the others nothing.
  std::optional<unsigned> sole_function{};
  unsigned spare_slots = 0;  // fixed ones; a long-lived card has renewable ones instead
  unsigned ports = 0;        // renewable slots behind them: for windows that are plugged while the card runs
  std::uint64_t window_bytes = 256 * wire::kMiB;
  // How much of its memory the card may touch before it refuses more with a typed fault (protocol §6); whole MiB,
  // rounded down. 0: default_populated_budget() as the machine is at boot. `budget_mib` among boot_arguments wins over
  // this.
  std::uint64_t populated_budget_bytes = 0;
  // More words for the card's boot command line (shared/boot_arguments.hpp), separated by blanks.
  std::string boot_arguments{};
  Timeouts timeouts{};
  EmulatorOptions emulator{};
};

}  // namespace svp
