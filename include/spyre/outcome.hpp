// SPDX-License-Identifier: Apache-2.0
// How a submitted unit ends. Every launch, transfer and command to the card ends in exactly one Outcome; Status says
// why. The numbers are those of the contract between driver and card (docs/protocol.md): they never change meaning, new
// ones are appended. The names are upper case for outcomes ("REJECTED") and plain words for statuses ("stray load").
#pragma once

#include <cstdint>
#include <string_view>

namespace spyre::inline v0 {

enum class Outcome : std::uint8_t {
  Ok = 0,             // done, data visible
  Rejected = 1,       // refused before any side effect; fix the request
  Fault = 2,          // began and failed, or was stopped by its owner (Status::Stopped)
  Timeout = 3,        // the source exceeded its budget and was stopped
  Aborted = 4,        // removed by a reset or by an earlier error of its stream; never started
  Lost = 5,           // the card died before the unit started (decided by the host)
  Indeterminate = 6,  // the card died after the unit started (decided by the host)
};
inline constexpr std::uint8_t kOutcomeCount = 7;

// Why. Grouped by hundred: 1xx request form, 2xx addressing, 3xx state, 4xx execution, 5xx resources.
enum class Status : std::uint16_t {
  None = 0,
  // request form: names the first field that was wrong
  BadMagic = 100,
  BadSize = 101,
  BadOpcode = 102,
  Unsupported = 103,
  ReservedBits = 104,
  BadFlags = 105,
  BadCrc = 106,
  BadChain = 107,
  BadDescriptor = 108,
  BadEndpointKind = 109,
  BadCount = 110,
  BadAlignment = 111,
  BadCoreMask = 112,
  BadBudget = 113,
  BadPriority = 114,
  BadType = 115,
  Overflow = 116,
  BadAccess = 117,
  Overlap = 118,
  // addressing
  StaleGeneration = 200,
  UnknownRegion = 201,
  StaleRegion = 202,
  OutOfBounds = 203,
  WrongRegionType = 204,
  NotHostMemory = 205,
  BadSegment = 206,
  UnknownFunction = 207,
  UnknownSlot = 208,
  // state
  UnknownStream = 300,
  StaleIncarnation = 301,
  BadSequence = 302,
  StreamPoisoned = 303,
  StreamCreditsExceeded = 304,
  NotPermitted = 305,
  FunctionResetting = 306,
  Busy = 307,
  SlotUsed = 308,
  FunctionUnbound = 309,
  StreamBanned = 310,
  AlreadyEnded = 311,
  NotArmed = 312,
  StreamResetting = 313,
  EventRegressed = 314,
  EventFailed = 315,
  EventDeadlock = 316,
  UnknownCommandBuffer = 317,
  StaleCommandBuffer = 318,
  UnknownGrant = 319,
  GrantRevoked = 320,
  // execution
  Stopped = 400,
  WatchdogExpired = 401,
  BudgetExpired = 402,
  LoadFault = 403,
  StoreFault = 404,
  FetchFault = 405,
  IllegalInstruction = 406,
  MisalignedAccess = 407,
  Breakpoint = 408,
  BadEnvironmentCall = 409,
  KernelStatus = 410,
  ImageMagic = 411,
  ImageVersion = 412,
  ImageCrc = 413,
  ImageLayout = 414,
  MemoryBudget = 415,
  CorrectionTooLarge = 416,
  ScratchpadTooLarge = 417,
  UncorrectableMemory = 418,
  ChecksumMismatch = 419,
  TransferAborted = 420,
  RegionEntryDamaged = 421,
  // resources
  OutOfDeviceMemory = 500,
  OutOfRegions = 501,
  OutOfStreams = 502,
  OutOfExecutionAreas = 503,
  QuotaExceeded = 504,
  OutOfSlots = 505,
  OutOfCommandBuffers = 506,
  OutOfGrants = 507,
};

constexpr std::string_view name(Outcome outcome) {
  constexpr std::string_view kNames[] = {"OK", "REJECTED", "FAULT", "TIMEOUT", "ABORTED", "LOST", "INDETERMINATE"};
  const auto index = static_cast<std::uint8_t>(outcome);
  return index < kOutcomeCount ? kNames[index] : std::string_view("unknown outcome");
}

constexpr std::string_view name(Status status) {
  switch (status) {
    case Status::None: return "none";
    case Status::BadMagic: return "bad magic";
    case Status::BadSize: return "bad size";
    case Status::BadOpcode: return "bad opcode";
    case Status::Unsupported: return "unsupported";
    case Status::ReservedBits: return "reserved bits set";
    case Status::BadFlags: return "bad flags";
    case Status::BadCrc: return "bad CRC";
    case Status::BadChain: return "bad descriptor chain";
    case Status::BadDescriptor: return "bad descriptor";
    case Status::BadEndpointKind: return "bad endpoint kind";
    case Status::BadCount: return "bad count";
    case Status::BadAlignment: return "bad alignment";
    case Status::BadCoreMask: return "bad core mask";
    case Status::BadBudget: return "bad budget";
    case Status::BadPriority: return "bad priority";
    case Status::BadType: return "bad region type";
    case Status::Overflow: return "address arithmetic overflows";
    case Status::BadAccess: return "bad access rights";
    case Status::Overlap: return "elements overlap";
    case Status::StaleGeneration: return "stale function generation";
    case Status::UnknownRegion: return "unknown region";
    case Status::StaleRegion: return "stale region generation";
    case Status::OutOfBounds: return "out of bounds";
    case Status::WrongRegionType: return "wrong region type";
    case Status::NotHostMemory: return "not host memory";
    case Status::BadSegment: return "bad segment table entry";
    case Status::UnknownFunction: return "unknown function";
    case Status::UnknownSlot: return "unknown slot";
    case Status::UnknownStream: return "unknown stream";
    case Status::StaleIncarnation: return "stale stream incarnation";
    case Status::BadSequence: return "bad sequence number";
    case Status::StreamPoisoned: return "stream poisoned by an earlier error";
    case Status::StreamCreditsExceeded: return "stream exceeds its share of the ring";
    case Status::NotPermitted: return "not permitted for this function";
    case Status::FunctionResetting: return "function is being reset";
    case Status::Busy: return "busy";
    case Status::SlotUsed: return "slot was bound before";
    case Status::FunctionUnbound: return "function has no slot";
    case Status::StreamBanned: return "stream is banned after too many time-outs";
    case Status::AlreadyEnded: return "no such block: it has ended";
    case Status::NotArmed: return "no fault in this row";
    case Status::StreamResetting: return "stream is being reset or closed";
    case Status::EventRegressed: return "event value does not grow";
    case Status::EventFailed: return "the awaited stream failed or was reset";
    case Status::EventDeadlock: return "waits of streams form a cycle";
    case Status::UnknownCommandBuffer: return "unknown command buffer";
    case Status::StaleCommandBuffer: return "stale command buffer";
    case Status::UnknownGrant: return "no grant of this function";
    case Status::GrantRevoked: return "the grant was revoked";
    case Status::Stopped: return "stopped by its owner";
    case Status::WatchdogExpired: return "watchdog expired";
    case Status::BudgetExpired: return "budget expired";
    case Status::LoadFault: return "stray load";
    case Status::StoreFault: return "stray store";
    case Status::FetchFault: return "stray jump";
    case Status::IllegalInstruction: return "illegal instruction";
    case Status::MisalignedAccess: return "misaligned access";
    case Status::Breakpoint: return "breakpoint";
    case Status::BadEnvironmentCall: return "unknown environment call";
    case Status::KernelStatus: return "kernel returned a non-zero status";
    case Status::ImageMagic: return "image: bad magic";
    case Status::ImageVersion: return "image: wrong ABI version";
    case Status::ImageCrc: return "image: bad CRC";
    case Status::ImageLayout: return "image: bad layout";
    case Status::MemoryBudget: return "populated-memory budget exhausted";
    case Status::CorrectionTooLarge: return "correction tensor larger than the image allows";
    case Status::ScratchpadTooLarge: return "image needs more scratchpad than a core has";
    case Status::UncorrectableMemory: return "uncorrectable memory error";
    case Status::ChecksumMismatch: return "checksum of the moved bytes does not match";
    case Status::TransferAborted: return "transfer aborted by the DMA engine";
    case Status::RegionEntryDamaged: return "region table entry damaged";
    case Status::OutOfDeviceMemory: return "out of device memory";
    case Status::OutOfRegions: return "region table full";
    case Status::OutOfStreams: return "stream table full";
    case Status::OutOfExecutionAreas: return "no free execution area";
    case Status::QuotaExceeded: return "memory quota of the function exceeded";
    case Status::OutOfSlots: return "the slot cannot be mapped";
    case Status::OutOfCommandBuffers: return "no room for a command buffer";
    case Status::OutOfGrants: return "the function holds too many grants";
  }
  return "unknown status";
}

}  // namespace spyre::inline v0
