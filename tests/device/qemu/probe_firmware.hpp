// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdint.h>

/// What the probe firmware (probe_firmware.cpp) and its tests agree on: 64-bit words at the start of every window.
namespace qemu::probe {

/// The card is booted with exactly this memory, because the place of the 64-bit PCI window follows from it.
inline constexpr uint64_t kMemoryBytes = uint64_t{98} << 30;
inline constexpr uint64_t kWindowBytes = uint64_t{256} << 20;

enum Word : unsigned {
  kCommand = 0,   ///< host: only in slot 0; then ring it
  kArgument = 1,  ///< host
  kMagic = 16,    ///< card: kReady + slot number, written before the first ring
  kDevfn = 17,    ///< card: where the slot was found
  kEchoes = 18,   ///< card: interrupts answered since boot
  kBoots = 19,    ///< card: incremented by every boot; survives a reset of the machine
};

inline constexpr uint64_t kReady = 0x600d'0000;

enum Command : uint64_t {
  kNone = 0,
  kExit = 1,   ///< end the emulator with code `argument`
  kPrint = 2,  ///< write `argument` numbered lines to the console
};

}  // namespace qemu::probe
