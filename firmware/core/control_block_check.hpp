// SPDX-License-Identifier: Apache-2.0
// Whether a control block is well formed, judged on the card's private copy. Pure: no memory but the arguments.
#pragma once

#include <cstdint>

#include "firmware/core/stream.hpp"
#include "shared/control_block.hpp"

namespace fw {

// Magic and size: without these the block is not a control block and names no stream.
Verdict check_frame(const wire::ControlBlockHeader& header, std::uint32_t readable_bytes);

// Everything else that depends on the block alone: opcode, flags, reserved bytes, CRC, payload form.
Verdict check_form(const wire::ControlBlock& block, bool crc_negotiated, std::uint64_t existing_cores);

}  // namespace fw
