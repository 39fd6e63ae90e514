// SPDX-License-Identifier: Apache-2.0
// What a scenario context keeps for the case that it fails: what was armed, what was asked of the card and how it
// ended, and what card and firmware said.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "shared/control_block.hpp"
#include "shared/fault.hpp"

namespace svp::campaign {

// A control block of a test stream, and how it ended; as submitted by the driver.
struct TracedBlock {
  std::uint32_t stream = 0;
  wire::Opcode opcode{};
  std::uint64_t bytes = 0;  // DMA, FILL
  bool ended = false;
  wire::Outcome outcome{};
  wire::Status status{};
  std::uint64_t start_time = 0;  // device ticks
  std::uint64_t end_time = 0;
};
inline constexpr std::size_t kTracedBlocks = 512;  // of a test stream, the first ones

struct ArmedFault {
  wire::FaultSpec spec{};
  wire::FaultEvidence evidence{};
  bool asked = false;  // the evidence is there
};

struct Artifacts {
  std::vector<ArmedFault> armed;
  std::vector<TracedBlock> trace;
  std::map<std::string, std::string> headers;  // by function: its window's header, as hexadecimal bytes
  std::string record;                          // what a boot of the firmware left, likewise; empty: nothing
  std::string console;
  std::map<std::string, std::string> versions;

  // "OK, none" → 3. Which of them a second run shows again: bundle.hpp.
  std::map<std::string, std::uint64_t> outcomes() const;
};

}  // namespace svp::campaign
