// SPDX-License-Identifier: Apache-2.0
// Where something can be broken, and how: one numbering for the card, the driver, the transport and the emulator. What
// the pairs mean and which of them make sense stands in the catalogue (host_driver/faults/fault_points.hpp).
#pragma once

#include <cstdint>

#include "shared/fault.hpp"

namespace svp::fault {

// The card's points have their numbers of wire::FaultPoint.
enum class Point : std::uint16_t {
  CardDispatcher = static_cast<std::uint16_t>(wire::FaultPoint::Dispatcher),
  CardDmaStep = static_cast<std::uint16_t>(wire::FaultPoint::DmaStep),
  CardRegionEntry = static_cast<std::uint16_t>(wire::FaultPoint::RegionEntry),
  CardHeartbeat = static_cast<std::uint16_t>(wire::FaultPoint::Heartbeat),
  CardFirmware = static_cast<std::uint16_t>(wire::FaultPoint::Firmware),
  CardCompletion = static_cast<std::uint16_t>(wire::FaultPoint::Completion),
  CardAdminReply = static_cast<std::uint16_t>(wire::FaultPoint::AdminReply),
  CardDoorbell = static_cast<std::uint16_t>(wire::FaultPoint::Doorbell),
  CardFunctionReset = static_cast<std::uint16_t>(wire::FaultPoint::FunctionReset),
  CardFirmwareHart = static_cast<std::uint16_t>(wire::FaultPoint::FirmwareHart),
  CardKernel = static_cast<std::uint16_t>(wire::FaultPoint::Kernel),
  CardKernelResult = static_cast<std::uint16_t>(wire::FaultPoint::KernelResult),
  CardArray = static_cast<std::uint16_t>(wire::FaultPoint::Array),
  CardMemory = static_cast<std::uint16_t>(wire::FaultPoint::Memory),
  // driver
  Allocation = 0x100,
  SystemCall,
  BringUpStep,
  AdminReply,
  // transport
  DoorbellToCard = 0x200,
  DoorbellToHost,
  Completion,
  Window,
  ControlFifo,
  // emulator; an occurrence is a millisecond since the script was armed
  Stop = 0x300,
  FreezeHart,
  SystemReset,
  Kill,
  SocketCut,
};

// Those that the card knows have their numbers of wire::FaultAction.
enum class Action : std::uint16_t {
  Stall = static_cast<std::uint16_t>(wire::FaultAction::Stall),
  Abort = static_cast<std::uint16_t>(wire::FaultAction::Abort),
  Corrupt = static_cast<std::uint16_t>(wire::FaultAction::Corrupt),
  Slow = static_cast<std::uint16_t>(wire::FaultAction::Slow),
  Suppress = static_cast<std::uint16_t>(wire::FaultAction::Suppress),
  Duplicate = static_cast<std::uint16_t>(wire::FaultAction::Duplicate),
  Trap = static_cast<std::uint16_t>(wire::FaultAction::Trap),
  Assert = static_cast<std::uint16_t>(wire::FaultAction::Assert),
  StackOverflow = static_cast<std::uint16_t>(wire::FaultAction::StackOverflow),
  Hang = static_cast<std::uint16_t>(wire::FaultAction::Hang),
  Illegal = static_cast<std::uint16_t>(wire::FaultAction::Illegal),
  Stray = static_cast<std::uint16_t>(wire::FaultAction::Stray),
  FlipScratchpad = static_cast<std::uint16_t>(wire::FaultAction::FlipScratchpad),
  Corrected = static_cast<std::uint16_t>(wire::FaultAction::Corrected),
  Uncorrectable = static_cast<std::uint16_t>(wire::FaultAction::Uncorrectable),
  FlipSegment = static_cast<std::uint16_t>(wire::FaultAction::FlipSegment),
  FlipResult = static_cast<std::uint16_t>(wire::FaultAction::FlipResult),
  Refuse = static_cast<std::uint16_t>(wire::FaultAction::Refuse),
  Fail = 0x100,
  Delay,
  Reset,
  Kill,
  Cut,
};

}  // namespace svp::fault
