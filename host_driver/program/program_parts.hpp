// SPDX-License-Identifier: Apache-2.0
// A device program (shared/device_program.hpp) before it is bytes. Whoever makes programs ends here: the operations of
// spyre::ops and the compiler of bundles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shared/device_program.hpp"

namespace svp {

struct ProgramParts {
  std::vector<wire::program::Argument> arguments;
  std::vector<wire::program::Operation> operations;
  std::vector<std::byte> data;
  std::uint64_t pool_bytes = 0;
  std::uint32_t slices = 0;
  std::uint32_t scratchpad_bytes = 0;  // of each slice
  std::uint32_t flags = 0;             // of the header

  // Whole sticks of `data`; the bytes behind `bytes` are zero. Returns their offset.
  std::uint64_t add_data(std::span<const std::byte> bytes);
};

// Header, parts and checksum. Nothing is checked: svp::DeviceProgram does that.
std::vector<std::byte> assemble(const ProgramParts& parts);

}  // namespace svp
