// SPDX-License-Identifier: Apache-2.0
// Control blocks: what the host asks for (queue 1), and completions: how it ended (protocol §5). One block is 1–4
// sticks that the card copies once; one completion is a stick that the card writes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/kernel_abi.hpp"
#include "shared/outcome.hpp"
#include "shared/units.hpp"

namespace wire {

inline constexpr std::uint32_t kControlBlockMagic = 0x42435953;  // "SYCB"
inline constexpr unsigned kMaxControlBlockSticks = 4;

enum class Opcode : std::uint8_t {
  Nop = 0,
  Dma = 1,
  Fill = 2,
  Compute = 3,
  EventSignal = 4,
  EventWait = 5,
  Call = 6,      // the blocks of a command buffer (command_buffer.hpp), in order
  Prepared = 7,  // likewise, of one that is a single COMPUTE
  Patch = 8,     // replaces a block of a command buffer
};
inline constexpr Opcode kLastOpcode = Opcode::Patch;

constexpr std::string_view name(Opcode opcode) {
  switch (opcode) {
    case Opcode::Nop: return "NOP";
    case Opcode::Dma: return "DMA";
    case Opcode::Fill: return "FILL";
    case Opcode::Compute: return "COMPUTE";
    case Opcode::EventSignal: return "EVENT_SIGNAL";
    case Opcode::EventWait: return "EVENT_WAIT";
    case Opcode::Call: return "CALL";
    case Opcode::Prepared: return "PREPARED";
    case Opcode::Patch: return "PATCH";
  }
  return "unknown opcode";
}

struct ControlBlockHeader {
  std::uint32_t magic;
  std::uint8_t sticks;
  Opcode opcode;
  std::uint16_t flags;  // none defined yet
  std::uint32_t stream;
  std::uint32_t incarnation;
  std::uint64_t generation;  // of the function
  std::uint64_t sequence;    // 1, 2, 3, … within an incarnation
  std::uint64_t cookie;      // the host's; echoed
  std::uint64_t budget;      // COMPUTE: watchdog slices (0 = the card's default), at most kMaxBudgetSlices; DMA and
                             // EVENT_WAIT: device ticks (0 = none)
  std::uint32_t crc32c;      // over the block with this field zero; only when negotiated, else zero
  std::uint32_t reserved0;
  std::uint64_t reserved1;
};
static_assert(sizeof(ControlBlockHeader) == 64);
inline constexpr std::uint64_t kMaxBudgetSlices = 1'000'000'000;  // twice of it still counts device ticks in 64 bits
static_assert(offsetof(ControlBlockHeader, generation) == 16 && offsetof(ControlBlockHeader, crc32c) == 48);

// An end of a transfer: bytes in the function's own window, or in a granted region.
enum class EndpointKind : std::uint8_t {
  HostMemory = 0,
  Region = 1,
  BufferData = 2,  // bytes behind the blocks of the command buffer; `correction` of a COMPUTE in one, and nowhere else
};

struct Endpoint {
  std::uint64_t region_id;   // 0 for host memory and a buffer's data
  std::uint64_t offset;      // bytes: in the window, in the region, or in the buffer's data
  std::uint32_t generation;  // of the region; 0 for host memory and a buffer's data
  EndpointKind kind;
  std::uint8_t reserved[3];
};
static_assert(sizeof(Endpoint) == 24);

struct DmaPayload {
  Endpoint source;
  Endpoint destination;
  std::uint64_t bytes;
  std::uint32_t checksum;  // with kDmaChecksum, to the card: CRC32C over the source bytes; else zero
  std::uint32_t flags;
};
static_assert(sizeof(DmaPayload) == 64);
// Elements by nested loops, in a block of three sticks (StridedDmaPayload). `bytes` is what all of them are together;
// the offsets of the ends are where the indices 0, 0, … lie, and multiples of the element's size.
inline constexpr std::uint32_t kDmaStrided = 1;
// To the card: what arrived is read back and must match `checksum`; else it is moved again, kDmaRetries times, and then
// ends FAULT. From the card and on it: the completion tells the checksum of the source, and the host compares. Of a
// strided transfer: over its elements in the order of its loops.
inline constexpr std::uint32_t kDmaChecksum = 2;
inline constexpr unsigned kDmaRetries = 3;
// The card may move it while a COMPUTE that stands directly in front of it runs: nothing else uses the destination from
// then on until the block has ended. After another end than OK its content is not defined. All else is as without the
// flag: the order of completions, and that the block ends ABORTED when the COMPUTE fails. From host memory into a
// region, linear, at most kMaxCorrectionBytes.
inline constexpr std::uint32_t kDmaAhead = 4;

// The loops of a strided transfer: the element of the indices i lies at offset + element_bytes × Σ i · stride of either
// end. Rules and their arithmetic: shared/strided.hpp.
struct StridedLevel {
  std::uint64_t count;              // at least 1
  std::int64_t source_stride;       // elements; 0: the same one again
  std::int64_t destination_stride;  // elements; no element of the destination is written twice
};
static_assert(sizeof(StridedLevel) == 24);
inline constexpr unsigned kStridedLevels = 8;

struct StridedPayload {
  std::uint32_t depth;          // levels in use, at least 1
  std::uint32_t element_bytes;  // 1, 2, 4 or 8
  std::uint64_t reserved[7];
  StridedLevel levels[kStridedLevels];  // innermost first; those not in use are zero
};
static_assert(sizeof(StridedPayload) == 256);

// DMA with kDmaStrided.
struct StridedDmaPayload {
  DmaPayload dma;
  StridedPayload loops;
};
static_assert(sizeof(StridedDmaPayload) == 320);

struct FillPayload {
  Endpoint destination;
  std::uint64_t bytes;
  std::uint64_t pattern;
  std::uint8_t reserved[24];
};
static_assert(sizeof(FillPayload) == 64);

// What a kernel is said to touch: checked by the resolver before the launch, and used to attribute a fault to an
// operand. Page protection itself is per function: a kernel can reach every Tensor region of its own function.
enum SegmentAccess : std::uint8_t { kSegmentUnused = 0, kSegmentRead = 1, kSegmentWrite = 2, kSegmentReadWrite = 3 };

struct Segment {
  std::uint64_t region_id;
  std::uint64_t offset;
  std::uint64_t bytes;
  std::uint32_t generation;
  std::uint8_t access;  // SegmentAccess
  std::uint8_t reserved[3];
};
static_assert(sizeof(Segment) == 32);
inline constexpr unsigned kSegments = 8;

struct ComputePayload {
  Endpoint image;
  std::uint64_t image_bytes;
  Endpoint correction;  // in a Program region; ignored when correction_bytes is 0
  std::uint64_t correction_bytes;
  std::uint64_t core_mask;  // bit c = core c; must name cores that exist; 0 = the card chooses
  std::uint64_t reserved[7];
  Segment segments[kSegments];
};
static_assert(sizeof(ComputePayload) == 384);

// Each stream has a timeline: the value of its last EVENT_SIGNAL, 0 at first. It only grows, also over resets of the
// stream; STREAM_OPEN begins at 0 again. A wait holds its stream back until the awaited timeline has come to `value`.
struct EventPayload {
  std::uint64_t value;  // EVENT_SIGNAL: larger than the timeline's; EVENT_WAIT: at least 1
  // EVENT_WAIT: whose timeline, of the same function, or 0 with kEventGranted; EVENT_SIGNAL: 0, it is the block's own
  std::uint32_t stream;
  std::uint32_t incarnation;  // EVENT_WAIT: of that stream, in which the value is signalled; EVENT_SIGNAL: 0
  std::uint32_t flags;        // EVENT_WAIT: kEventGranted or 0; EVENT_SIGNAL: 0
  std::uint32_t grant;        // with kEventGranted, else 0: the grant that names the timeline …
  std::uint64_t epoch;        // … and its epoch, as the reply to EVENT_GRANT said them
  std::uint64_t reserved[4];
};
static_assert(sizeof(EventPayload) == 64);
// The timeline is another function's. M has granted it to the block's own function (EVENT_GRANT).
inline constexpr std::uint32_t kEventGranted = 1;
// That a function can hold at a time.
inline constexpr unsigned kGrantsPerFunction = 64;

// CALL and PREPARED. The buffer's blocks run in order, as if they stood in the stream; the CALL ends once, behind the
// last one or with the first that does not end OK.
struct CallPayload {
  std::uint32_t buffer;  // AdminReply::Values::buffer
  std::uint32_t reserved0;
  std::uint64_t epoch;        // likewise
  std::uint64_t signal_base;  // added to the values of the buffer's EVENT_SIGNALs; PREPARED: 0
  std::uint64_t reserved[5];
};
static_assert(sizeof(CallPayload) == 64);

// Replaces block `block` of a buffer, and the bytes of its correction tensor, by what lies in host memory: the block
// (kBufferBlockBytes, its opcode as before), then the tensor.
struct PatchPayload {
  std::uint32_t buffer;
  std::uint32_t block;
  std::uint64_t epoch;
  std::uint64_t offset;  // in the window's host memory, stick-aligned
  std::uint64_t bytes;   // of the block and the tensor together
  std::uint64_t reserved[4];
};
static_assert(sizeof(PatchPayload) == 64);

// A block in its largest form; smaller opcodes use fewer sticks. Unused bytes are zero.
struct alignas(8) ControlBlock {
  ControlBlockHeader header;
  union Payload {
    std::uint64_t words[(kMaxControlBlockSticks * kStickBytes - sizeof(ControlBlockHeader)) / 8];
    DmaPayload dma;
    StridedDmaPayload strided;
    FillPayload fill;
    ComputePayload compute;
    EventPayload event;
    CallPayload call;
    PatchPayload patch;
  } payload;
};
static_assert(sizeof(ControlBlock) == kMaxControlBlockSticks * kStickBytes);

inline bool is_strided(const ControlBlock& block) {
  return block.header.opcode == Opcode::Dma && (block.payload.dma.flags & kDmaStrided) != 0;
}

// Size in sticks that a block must have; 0 for opcodes that are not known.
inline unsigned required_sticks(const ControlBlock& block) {
  switch (block.header.opcode) {
    case Opcode::Nop:
    case Opcode::Fill:
    case Opcode::EventSignal:
    case Opcode::EventWait:
    case Opcode::Call:
    case Opcode::Prepared:
    case Opcode::Patch: return 1;
    case Opcode::Dma: return is_strided(block) ? 3 : 1;
    case Opcode::Compute: return 4;
    default: return 0;
  }
}

// ---- completion -----------------------------------------------------------------------------------------------------

// Which field of the request was wrong; 0 when the status says it all. Numbers are append-only.
enum class Field : std::uint16_t {
  None = 0,
  Chain,
  Magic,
  Sticks,
  OpcodeField,
  Flags,
  Stream,
  Incarnation,
  Generation,
  Sequence,
  Budget,
  Crc,
  Reserved,
  DmaSource,
  DmaDestination,
  DmaBytes,
  DmaFlags,
  FillDestination,
  FillBytes,
  ComputeImage,
  ComputeImageBytes,
  ComputeCorrection,
  ComputeCorrectionBytes,
  ComputeCoreMask,
  ComputeSegment,  // Completion::fault.argument = index
  ImageHeaderField,
  AdminCommand,
  AdminRegion,
  AdminBytes,
  AdminType,
  AdminStream,
  AdminPriority,
  AdminSelfTest,
  AdminTarget,
  AdminSlot,
  AdminWeight,
  AdminFault,
  DmaChecksum,
  AdminSerial,
  AdminDoorbell,
  AdminPeer,
  StridedDepth,
  StridedElement,
  StridedCount,  // Completion::fault.argument = level; likewise the next
  StridedLevelUnused,
  StridedSource,       // the source's strides
  StridedDestination,  // the destination's
  EventValue,
  EventStream,
  AdminTrace,
  CallBuffer,
  CallEpoch,
  CallSignalBase,
  PatchBlock,
  PatchSource,
  PatchBytes,
  AdminSource,
  AdminBlocks,
  AdminBuffer,
  EventFlags,
  EventGrant,
  AdminGrantee,
  AdminGrant,
};

constexpr std::string_view name(Field field) {
  switch (field) {
    case Field::None: return "";
    case Field::Chain: return "descriptor chain";
    case Field::Magic: return "header.magic";
    case Field::Sticks: return "header.sticks";
    case Field::OpcodeField: return "header.opcode";
    case Field::Flags: return "header.flags";
    case Field::Stream: return "header.stream";
    case Field::Incarnation: return "header.incarnation";
    case Field::Generation: return "header.generation";
    case Field::Sequence: return "header.sequence";
    case Field::Budget: return "header.budget";
    case Field::Crc: return "header.crc32c";
    case Field::Reserved: return "reserved bytes";
    case Field::DmaSource: return "dma.source";
    case Field::DmaDestination: return "dma.destination";
    case Field::DmaBytes: return "dma.bytes";
    case Field::DmaFlags: return "dma.flags";
    case Field::FillDestination: return "fill.destination";
    case Field::FillBytes: return "fill.bytes";
    case Field::ComputeImage: return "compute.image";
    case Field::ComputeImageBytes: return "compute.image_bytes";
    case Field::ComputeCorrection: return "compute.correction";
    case Field::ComputeCorrectionBytes: return "compute.correction_bytes";
    case Field::ComputeCoreMask: return "compute.core_mask";
    case Field::ComputeSegment: return "compute.segments";
    case Field::ImageHeaderField: return "image header";
    case Field::AdminCommand: return "admin.command";
    case Field::AdminRegion: return "admin.region";
    case Field::AdminBytes: return "admin.bytes";
    case Field::AdminType: return "admin.type";
    case Field::AdminStream: return "admin.stream";
    case Field::AdminPriority: return "admin.priority";
    case Field::AdminSelfTest: return "admin.self_test";
    case Field::AdminTarget: return "admin.target";
    case Field::AdminSlot: return "admin.slot";
    case Field::AdminWeight: return "admin.weight";
    case Field::AdminFault: return "admin.fault";
    case Field::DmaChecksum: return "dma.checksum";
    case Field::AdminSerial: return "admin.serial";
    case Field::AdminDoorbell: return "admin.doorbell";
    case Field::AdminPeer: return "admin.peer";
    case Field::StridedDepth: return "strided.depth";
    case Field::StridedElement: return "strided.element_bytes";
    case Field::StridedCount: return "strided.levels.count";
    case Field::StridedLevelUnused: return "strided.levels not in use";
    case Field::StridedSource: return "strided.levels.source_stride";
    case Field::StridedDestination: return "strided.levels.destination_stride";
    case Field::EventValue: return "event.value";
    case Field::EventStream: return "event.stream";
    case Field::AdminTrace: return "admin.trace";
    case Field::CallBuffer: return "call.buffer";
    case Field::CallEpoch: return "call.epoch";
    case Field::CallSignalBase: return "call.signal_base";
    case Field::PatchBlock: return "patch.block";
    case Field::PatchSource: return "patch.offset";
    case Field::PatchBytes: return "patch.bytes";
    case Field::AdminSource: return "admin.offset";
    case Field::AdminBlocks: return "admin.blocks";
    case Field::AdminBuffer: return "admin.buffer";
    case Field::EventFlags: return "event.flags";
    case Field::EventGrant: return "event.grant";
    case Field::AdminGrantee: return "admin.grantee";
    case Field::AdminGrant: return "admin.grant";
  }
  return "unknown field";
}

enum class FaultAccess : std::uint8_t { None = 0, Load = 1, Store = 2, Fetch = 3 };
inline constexpr std::uint32_t kNoRegionOrdinal = ~std::uint32_t{0};

// Never holds a physical address: a region ordinal and an offset in it, and a pc relative to the image's text.
struct FaultRecord {
  FaultAccess access;
  std::uint8_t waiting;  // cores of the launch that waited at the barrier when it failed
  std::uint16_t core;
  std::uint32_t region_ordinal;  // kNoRegionOrdinal: outside every region window
  std::uint64_t offset;          // in the region's window; outside: the virtual address
  std::uint64_t pc;              // bytes from the start of text; ~0 when outside of it
  std::uint64_t argument;  // KernelStatus: the kernel's status; of other faults and time-outs of a kernel: what it
      // was at (kProgressMark of kernel_abi.hpp); ComputeSegment, Strided…: index; EventFailed: the
      // awaited stream, or the grant (field EventGrant), likewise of UnknownGrant and
      // GrantRevoked; EventDeadlock: number of streams; else 0
};
static_assert(sizeof(FaultRecord) == 32);

// EventDeadlock: the streams of the cycle, beginning with the one whose wait is ended and followed by the one that it
// waits for: 8 bytes of FaultRecord::offset, then 8 of its pc, lowest first. FaultRecord::argument is their number;
// those that find no room are not told, nor are streams of other functions.
inline constexpr unsigned kCycleStreams = 16;

struct Completion {
  Outcome outcome;
  std::uint8_t reserved0;
  Status status;
  Field field;
  std::uint16_t reserved1;
  std::uint32_t stream;
  std::uint32_t incarnation;
  std::uint64_t generation;
  std::uint64_t sequence;
  std::uint64_t cookie;
  std::uint64_t start_time;  // device ticks since boot; 0 when it never started; of a wait: when it began to wait
  std::uint64_t end_time;
  std::uint64_t bytes;  // moved (DMA, FILL) or 0
  FaultRecord fault;
  std::uint64_t slices;    // COMPUTE: watchdog slices taken
  std::uint64_t checksum;  // DMA with kDmaChecksum that ended OK: CRC32C over the bytes of the source
  std::uint32_t block;     // CALL: the block of the buffer that ended it, or its last one
  std::uint32_t reserved2;
  std::uint64_t reserved3;
};
static_assert(sizeof(Completion) == kStickBytes);
static_assert(offsetof(Completion, generation) == 16 && offsetof(Completion, fault) == 64);

}  // namespace wire
