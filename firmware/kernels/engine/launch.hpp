// SPDX-License-Identifier: Apache-2.0
// What the correction tensor of a launch says: where the program, its arguments, the workspace and the scratchpads lie.
#pragma once

#include <cstdint>

#include "shared/device_program.hpp"
#include "shared/kernel_abi.hpp"

namespace kernel::engine {

// One address for each symbol, in the address space of the launch. In the scratchpad of each core: its correction
// program fills it, its compute program reads it. Entries that the launch has no symbol for are undefined.
struct Launch {
  wire::program::Refusal refusal;
  std::uint32_t count;
  std::uint64_t address[wire::program::kMaxLaunchOperands];
};

// A tensor that is too short, or has a symbol that is no address of a granted region: Refusal{Where::Correction}.
void read_correction(const wire::KernelArguments& arguments, Launch& launch);

}  // namespace kernel::engine
