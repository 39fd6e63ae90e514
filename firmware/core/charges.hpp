// SPDX-License-Identifier: Apache-2.0
// What a function is charged with for everything that it can ask hart 0 for, in bytes of a copy: kBytesOfAStep are an
// empty block, kQuantumBytes a quantum. A quantum of commands, like one of blocks, is over by what it was charged with
// (dispatcher.hpp, admin.cpp). docs/isolation.md has the same table for its readers; fw_charges_test compares them.
#pragma once

#include <cstdint>

#include "firmware/core/dispatcher.hpp"
#include "shared/admin.hpp"
#include "shared/control_block.hpp"

namespace fw {

// What a block costs to be judged once more or copied into a command buffer.
inline constexpr std::uint64_t kBytesOfABlock = 4 * 1024;

// A command that looks at a few words, of which a quantum has as many as its budget allows.
inline constexpr std::uint64_t kLightCommand = kQuantumBytes / 8;
// One of which a quantum has one.
inline constexpr std::uint64_t kHeavyCommand = kQuantumBytes;

// Of each command, refused ones too. BUFFER_CREATE is charged with its pages and blocks besides, TRACE with each part
// of the ring that is emptied (Traces::kEmptyingCost).
constexpr std::uint64_t charge_of(wire::AdminCommand command) {
  using wire::AdminCommand;
  switch (command) {
    case AdminCommand::StreamOpen:
    case AdminCommand::TimelineCreate:
    case AdminCommand::Stats:
    case AdminCommand::FaultArm:
    case AdminCommand::QuotaSet:
    case AdminCommand::FirmwareRestart:
    case AdminCommand::Trace:
    case AdminCommand::BufferCreate:  // and its blocks: one of 64 blocks is a quantum
    case AdminCommand::BufferDestroy:
    case AdminCommand::RegionAcquire:
    case AdminCommand::RegionRelease:
    case AdminCommand::Query:
    case AdminCommand::FunctionQuery:
    case AdminCommand::EventGrant: return kLightCommand;
    case AdminCommand::StreamReset:  // ends every block of the stream
    case AdminCommand::StreamClose:
    case AdminCommand::Cancel:         // walks along the stream
    case AdminCommand::FunctionReset:  // revokes grants, stops launches
    case AdminCommand::SlotBind:       // writes a window's header
    case AdminCommand::SlotRetire:
    case AdminCommand::SelfTest:                           // lasts as long as nobody else wants anything
    case AdminCommand::EventRevoke: return kHeavyCommand;  // calls the waiters
  }
  return kLightCommand;  // no command
}

// A correction tensor of so many bytes is a part of the empty block that its COMPUTE is; a larger one is charged
// besides.
inline constexpr std::uint64_t kFreeCorrectionBytes = 4 * 1024;

// What a step of a block is charged with besides itself (kBytesOfAStep, by the budget of steps).
enum class BlockCharge : std::uint8_t {
  Nothing,
  Bytes,   // moved; of a strided transfer kBytesOfARow and kBytesOfAnElement besides
  Image,   // bytes of the image that are summed and copied, of pools that are cleared, of a large correction tensor for
           // each core; and the time of its slices
  Looks,   // kBytesOfALook for each wait that is looked at
  Judged,  // a step judges eight blocks of the buffer, which is one empty block; then what each of its blocks is
  Patch,   // its bytes and kBytesOfABlock
};
constexpr BlockCharge charge_of(wire::Opcode opcode) {
  switch (opcode) {
    case wire::Opcode::Nop: return BlockCharge::Nothing;
    case wire::Opcode::Dma:
    case wire::Opcode::Fill: return BlockCharge::Bytes;
    case wire::Opcode::Compute: return BlockCharge::Image;
    case wire::Opcode::EventSignal:
    case wire::Opcode::EventWait: return BlockCharge::Looks;
    case wire::Opcode::Call:
    case wire::Opcode::Prepared: return BlockCharge::Judged;
    case wire::Opcode::Patch: return BlockCharge::Patch;
  }
  return BlockCharge::Nothing;
}

}  // namespace fw
