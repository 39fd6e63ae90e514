// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// Device programs: lists of tensor operations that the engine (firmware/kernels/engine) executes on the cores of a
// launch. A program is data in card memory, one image executes all of them. docs/device-programs.md describes the
// format byte by byte and the meaning of each operation; device_program_check.hpp judges a program.
//
// A program is a Header, then arguments, operations and data at the offsets that the header names, each a multiple of
// 128. Little-endian. Reserved bytes are zero.
//
// The launch of a program has the symbols (shared/kernel_abi.hpp, all of kind Address, operand i for symbol i):
//   0               the program
//   1 … n           its arguments
//   then            the tables of functions, when uses_tables(): those of all functions, in order of the opcodes
//   then            the workspace, which is the pool, when workspace_bytes() is not 0
//   then            the scratchpads of the function, when scratchpads_bytes() is not 0: that of slice s begins
//                   kScratchpadStride · s bytes from there. What a program leaves in them the next one finds
//
// An operation has an iteration space of up to eight dimensions, and operands: inputs first, then outputs. An element
// of an operand lies, for the indices n, at
//
//   base + offset + Σ loop_stride[l] · i_l + Σ over present d of stride[d] · u(d) + lane · bytes of one element
//
// u(d) = n_d, but n_s div eps for the stick dimension s of the operand; lane = n_s mod eps, or 0 when the operand has
// no stick dimension; eps = 128 / bytes of one element; i_l is the iteration of the enclosing loop l, outermost first.
// An operand without a stick dimension has one element in each stick, in lane 0; written, all lanes get it.
//
// A scratchpad operand is cut into slices: dimension d into split[d] parts of extent[d] / split[d] each (whole sticks).
// Index n belongs to part p_d = n_d div (extent[d] / split[d]), lies in the scratchpad of slice Σ p_d ·
// split_stride[d], and is addressed there by its place in the part, n_d mod (extent[d] / split[d]), in place of n_d. A
// dimension that is not present may be split too: then there is a copy in each of those slices. Outputs write all
// copies.
//
// Operations run one after the other: what one writes is visible to the next. The results do not depend on the number
// of cores that execute a program.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/units.hpp"

namespace wire::program {

inline constexpr std::uint64_t kMagic = 0x3147525045525953;  // "SYREPRG1" little-endian
inline constexpr std::uint32_t kVersion = 1;

inline constexpr unsigned kMaxOperations = 4096;
inline constexpr unsigned kMaxArguments = 120;
inline constexpr unsigned kMaxOperands = 6;
inline constexpr unsigned kMaxRank = 8;
inline constexpr unsigned kMaxLoops = 4;  // nested
inline constexpr unsigned kMaxMasks = 4;
inline constexpr unsigned kMaxSlices = 32;
inline constexpr std::uint64_t kMaxProgramBytes = 32 * kMiB;
inline constexpr std::uint64_t kMaxSliceScratchpadBytes = 2 * kMiB;
inline constexpr std::uint64_t kScratchpadStride = kMaxSliceScratchpadBytes;  // from one slice to the next
inline constexpr std::uint64_t kMaxPoolBytes = 14 * kGiB;

struct Header {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t crc32c;  // over the program with this field zero; checked by the host, not by the engine
  std::uint64_t program_bytes;
  std::uint32_t argument_count;
  std::uint32_t operation_count;
  std::uint64_t arguments_offset;
  std::uint64_t operations_offset;
  std::uint64_t data_offset;  // constants and tables: read-only memory of the program
  std::uint64_t data_bytes;
  std::uint64_t pool_bytes;        // memory of one launch, undefined at its start; a multiple of 128
  std::uint32_t slices;            // 0 … kMaxSlices
  std::uint32_t scratchpad_bytes;  // of each slice, as far as the program uses it; a multiple of 128
  std::uint32_t flags;             // kOneStorage, kFunctionTables; other bits are 0
  std::uint8_t reserved[44];
};
static_assert(sizeof(Header) == kStickBytes);

// Arguments that begin at the same byte may be of one storage, also when they do not reach equally far: the launch
// allows it. Without the flag they may only be exactly the same bytes.
inline constexpr std::uint32_t kOneStorage = 1;

// Operands may lie in the tables of functions, Base::Tables. They stand once for all programs of a launcher, so that a
// program needs none of its own.
inline constexpr std::uint32_t kFunctionTables = 2;
constexpr bool uses_tables(const Header& header) { return (header.flags & kFunctionTables) != 0; }

constexpr std::uint64_t workspace_bytes(const Header& header) { return header.pool_bytes; }
// From the first byte of the first slice to the last one that the program may use of the last slice.
constexpr std::uint64_t scratchpads_bytes(const Header& header) {
  if (header.slices == 0 || header.scratchpad_bytes == 0) return 0;
  return (header.slices - 1) * kScratchpadStride + header.scratchpad_bytes;
}
// The operands of a launch: the program, its arguments, and what it needs besides.
inline constexpr unsigned kMaxLaunchOperands = kMaxArguments + 4;
constexpr std::uint32_t launch_operands(const Header& header) {
  return 1 + header.argument_count + (uses_tables(header) ? 1 : 0) + (workspace_bytes(header) != 0 ? 1 : 0) +
         (scratchpads_bytes(header) != 0 ? 1 : 0);
}

enum class Access : std::uint32_t { None = 0, Read = 1, Write = 2, ReadWrite = 3 };

// What a launch has to bring for one argument: the operations stay inside of `bytes` (a multiple of 128).
struct Argument {
  std::uint64_t bytes;
  Access access;
  std::uint32_t reserved;
};
static_assert(sizeof(Argument) == 16);

enum class Format : std::uint8_t {  // numbered as spyre::DeviceType
  Dl16 = 0,
  Fp32 = 1,
  Int32 = 2,
  Int16 = 3,
  Int8 = 4,
  Uint32 = 5,
  Fp8E4m3 = 6,
  Fp8E5m2 = 7,
};
inline constexpr unsigned kFormats = 8;

constexpr unsigned item_bytes(Format format) {
  switch (format) {
    case Format::Dl16:
    case Format::Int16: return 2;
    case Format::Fp32:
    case Format::Int32:
    case Format::Uint32: return 4;
    case Format::Int8:
    case Format::Fp8E4m3:
    case Format::Fp8E5m2: return 1;
  }
  return 0;
}
constexpr unsigned lanes_of(Format format) { return static_cast<unsigned>(kStickBytes) / item_bytes(format); }

enum class Base : std::uint8_t { None = 0, Argument = 1, Data = 2, Pool = 3, Scratchpad = 4, Tables = 5 };

inline constexpr std::uint8_t kNoDimension = 0xFF;

struct Operand {
  Base base;
  Format format;
  std::uint8_t argument;   // Base::Argument: which one; else 0
  std::uint8_t stick_dim;  // a present dimension, or kNoDimension
  std::uint8_t present;    // bit d: it has dimension d. stride[d] of others is 0
  std::uint8_t reserved[3];
  std::uint64_t offset;  // bytes, a multiple of 128, as all strides
  std::uint64_t stride[kMaxRank];
  std::uint64_t loop_stride[kMaxLoops];
  std::uint8_t split[kMaxRank];         // 1: not split. More only for Base::Scratchpad
  std::uint8_t split_stride[kMaxRank];  // slices from one part to the next; 0 when not split
};
static_assert(sizeof(Operand) == kStickBytes);

// Positions [start, start + count) along a dimension. What lies in one of the masks of an operation takes no part in a
// reduction; an element-wise operation writes mask_value there instead of its result.
struct Mask {
  std::uint32_t dimension;
  std::uint32_t start;
  std::uint32_t count;
};

// Numbers are append only.
enum class Opcode : std::uint16_t {
  LoopBegin = 1,  // extent[0] iterations of what stands up to the LoopEnd that belongs to it
  LoopEnd = 2,

  Copy = 0x10,        // the same stick dimension, or none; changes the format when the operands' differ
  Restickify = 0x11,  // different stick dimensions (one may have none), formats of the same size
  Dl16ToFp32 = 0x12,  // staggered lanes (docs/device-programs.md)
  Fp32ToDl16 = 0x13,
  Dl16ToFp8 = 0x14,
  Fp8ToDl16 = 0x15,
  Dl16ToFp8Weight = 0x16,
  Gather = 0x18,   // index, value, output
  Scatter = 0x19,  // index, input, value

  Add = 0x20,
  Sub = 0x21,
  Mul = 0x22,
  Div = 0x23,
  Maximum = 0x24,
  Minimum = 0x25,
  Equal = 0x28,
  NotEqual = 0x29,
  Greater = 0x2A,
  GreaterEqual = 0x2B,
  Less = 0x2C,
  LessEqual = 0x2D,
  Where = 0x2F,  // condition, a, b

  Abs = 0x30,
  Neg = 0x31,
  Relu = 0x32,
  Clip = 0x33,  // constant[0] … constant[1]
  Floor = 0x34,
  // Functions: on DL16 the second input is the table of the function, 65 536 DL16 results in order of the codes.
  Exp = 0x40,
  Log = 0x41,
  Sqrt = 0x42,
  Rsqrt = 0x43,
  Reciprocal = 0x44,
  Sigmoid = 0x45,
  Tanh = 0x46,
  Silu = 0x47,
  Gelu = 0x48,      // x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³)))
  Softplus = 0x49,  // constant[0] beta, constant[1] threshold; on DL16 they are in the table

  // Reductions along the one dimension of `reduced`.
  Sum = 0x60,
  Mean = 0x61,  // sum · constant[0]
  Max = 0x62,
  Min = 0x63,
  Prod = 0x64,
  Exx2 = 0x68,            // constant[0] · Σx and constant[0] · Σx² as a pair of fp64 in each stick
  LayerNormScale = 0x69,  // pair → 1 / √(q − m² + constant[0])
  LayerNormNorm = 0x6A,   // x, pair, scale, weight, bias

  MatMul = 0x70,     // reduced: the dimension of both inputs that the output lacks
  MatMulFp8 = 0x71,  // of what Dl16ToFp8 and Dl16ToFp8Weight wrote

  TopKValue = 0x78,
  TopKIndex = 0x79,
};

struct Operation {
  Opcode opcode;
  std::uint8_t rank;
  std::uint8_t operand_count;  // with the output, which is the last one
  std::uint8_t reduced;        // bit d
  std::uint8_t mask_count;
  std::uint16_t reserved0;
  std::uint32_t extent[kMaxRank];  // elements, at least 1. Lanes from the extent of a stick dimension to the end of its
                                   // last stick are padding: element-wise operations compute them, others ignore them
  Mask mask[kMaxMasks];
  std::uint32_t mask_value;   // fp32 bits
  std::uint32_t constant[4];  // fp32 bits
  std::uint32_t source_line;  // of whatever the program was made from; 0: unknown. For messages only
  std::uint64_t page;         // Gather, Scatter: bytes from one index to the next
  std::uint8_t reserved[136];
  Operand operand[kMaxOperands];
};
static_assert(sizeof(Operation) == 8 * kStickBytes && offsetof(Operation, operand) == 2 * kStickBytes);

inline constexpr std::uint64_t kTableBytes = 65536 * sizeof(std::uint16_t);  // of a function on DL16

// Base::Tables has the table of each function, one behind the other; that of Softplus is for these constants.
inline constexpr std::uint64_t kAllTablesBytes =
    (static_cast<std::uint64_t>(Opcode::Softplus) - static_cast<std::uint64_t>(Opcode::Exp) + 1) * kTableBytes;
constexpr bool is_function(Opcode opcode) { return opcode >= Opcode::Exp && opcode <= Opcode::Softplus; }
constexpr std::uint64_t table_offset(Opcode function) {
  return (static_cast<std::uint64_t>(function) - static_cast<std::uint64_t>(Opcode::Exp)) * kTableBytes;
}
inline constexpr float kTableBeta = 1;
inline constexpr float kTableThreshold = 20;

// ---- refusals -------------------------------------------------------------------------------------------------------

// Which part of a program is wrong. Numbers are append only.
enum class Where : std::uint8_t {
  Nothing = 0,
  Magic,
  Version,
  ProgramBytes,
  ArgumentCount,
  OperationCount,
  Offsets,  // parts overlap, do not lie inside of the program, or are not aligned
  Pool,
  Slices,
  Reserved,
  ArgumentEntry,
  Opcode,
  Rank,
  OperandCount,
  Extent,
  Reduced,
  Mask,
  Constant,
  Page,
  Loop,  // does not end, ends without a beginning, too deep, no iterations
  Base,  // of an operand, as all below
  Format,
  StickDim,
  Present,
  Offset,
  Stride,
  LoopStride,
  Split,
  Bounds,       // reaches beyond what its base has
  Access,       // writes what it may only read
  Correction,   // of the launch: too short, or not of this program
  Unsupported,  // a combination that the format can say and this engine can not execute
  Crc,
  Index,  // of a Gather or Scatter leads outside: found while the program runs
};

inline constexpr std::uint32_t kWholeProgram = ~std::uint32_t{0};
inline constexpr std::uint8_t kNoOperand = 0xFF;

struct Refusal {
  Where where = Where::Nothing;
  std::uint8_t operand = kNoOperand;
  std::uint32_t operation = kWholeProgram;
  std::uint32_t index = 0;  // Where::Index: the bits of the index

  constexpr bool ok() const { return where == Where::Nothing; }
  friend constexpr bool operator==(const Refusal&, const Refusal&) = default;
};

// As the status that the engine ends a launch with: never 0. An index has a form of its own, with its bits: a mark, the
// operation in bits 36 to 47, the operand that it leads into in bits 32 to 35.
inline constexpr std::uint64_t kStatusMark = 0x5052;
inline constexpr std::uint64_t kIndexStatusMark = 0x5058;
static_assert(kMaxOperations <= 1U << 12 && kMaxOperands <= 1U << 4);
constexpr std::uint64_t to_status(const Refusal& refusal) {
  if (refusal.where == Where::Index) {
    return kIndexStatusMark << 48 | std::uint64_t{refusal.operation & 0xFFF} << 36 |
           std::uint64_t{refusal.operand & 0xFU} << 32 | refusal.index;
  }
  return kStatusMark << 48 | std::uint64_t{refusal.operand} << 40 | std::uint64_t{refusal.operation} << 8 |
         static_cast<std::uint64_t>(refusal.where);
}
constexpr bool is_refusal(std::uint64_t status) {
  return status >> 48 == kStatusMark || status >> 48 == kIndexStatusMark;
}
constexpr Refusal from_status(std::uint64_t status) {
  if (status >> 48 == kIndexStatusMark) {
    return {.where = Where::Index,
            .operand = static_cast<std::uint8_t>(status >> 32 & 0xF),
            .operation = static_cast<std::uint32_t>(status >> 36 & 0xFFF),
            .index = static_cast<std::uint32_t>(status)};
  }
  return {.where = static_cast<Where>(status & 0xFF),
          .operand = static_cast<std::uint8_t>(status >> 40 & 0xFF),
          .operation = static_cast<std::uint32_t>(status >> 8 & 0xFFFFFFFF)};
}

}  // namespace wire::program
