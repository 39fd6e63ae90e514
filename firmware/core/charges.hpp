// SPDX-License-Identifier: Apache-2.0
// What a function is charged with for everything that it can ask hart 0 for, in bytes of a copy: kBytesOfAStep are an
// empty block, kQuantumBytes a quantum. A quantum of commands, like one of blocks, is over by what it was charged with
// (dispatcher.hpp, admin.cpp). docs/isolation.md has the same table for its readers; fw_charges_test compares them.
#pragma once

#include <cstdint>

#include "firmware/core/dispatcher.hpp"
#include "firmware/hal/array.hpp"
#include "shared/admin.hpp"
#include "shared/control_block.hpp"

namespace fw {

// What a block costs to be judged: when it comes to a command buffer, by BUFFER_CREATE or PATCH, when a CALL judges it
// again, and, of a strided transfer, when it is fetched. Others are fetched as a part of the empty block that they are.
constexpr std::uint64_t charge_of_judging(const wire::ControlBlock& block) {
  switch (block.header.opcode) {
    case wire::Opcode::Compute: return 24 * 1024;  // up to eight operands
    case wire::Opcode::Dma: return wire::is_strided(block) ? 32 * 1024 : 10 * 1024;
    case wire::Opcode::Fill: return 10 * 1024;
    default: return 6 * 1024;
  }
}
// What summing so many bytes costs while others are busy: CRC32C under emulation goes at a twentieth of the speed of a
// copy, or less. With nobody else busy a quantum of sums ends by its time alone.
inline std::uint64_t charge_of_summing(std::uint64_t bytes) {
  constexpr std::uint64_t kCopies = 24;
  return hal::array_version() != 0 ? bytes : kCopies * bytes;
}
// What a launch costs on each of its cores, besides the empty block that its COMPUTE is and its operands' bytes.
inline constexpr std::uint64_t kBytesOfALaunch = 24 * 1024;
// What a PATCH costs besides its bytes and its block.
inline constexpr std::uint64_t kBytesOfAPatch = 24 * 1024;

// A command that looks at a few words, of which a quantum has as many as its budget allows.
inline constexpr std::uint64_t kLightCommand = kQuantumBytes / 8;
// One of which a quantum has one.
inline constexpr std::uint64_t kHeavyCommand = kQuantumBytes;

// Of each command, refused ones too. BUFFER_CREATE is charged with twice its pages and charge_of_judging() of its
// blocks besides, TRACE with each part of the ring that is emptied (Traces::kEmptyingCost).
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
    case AdminCommand::BufferCreate:  // and its blocks, some in each quantum
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
  Bytes,  // moved; of a strided transfer what dispatcher.hpp says of its parts, and charge_of_judging()
  // kBytesOfALaunch on each core, AddressSpaces::kBytesOfALoad, bytes of the image that are summed
  // (charge_of_summing()) and copied, of pools that are cleared, of a large correction tensor for each core; and the
  // time of its slices
  Image,
  Looks,   // kBytesOfALook for each wait that is looked at
  Judged,  // charge_of_judging() of each block that is judged again; then what each of its blocks is
  Patch,   // its bytes, kBytesOfAPatch and charge_of_judging() of its block
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
