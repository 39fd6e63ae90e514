// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The compute array: arithmetic hardware beside the harts, which a plugin of the emulator provides (qemu/array). A hart
// reaches it with hints, instructions that do nothing on a card without it. docs/array.md describes the contract.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "shared/device_program.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/units.hpp"

namespace wire::array {

inline constexpr std::uint32_t kVersion = 6;

// `slti x0, x0, imm` with these immediates.
inline constexpr std::uint32_t kHelloHint = 0x5A102013;
inline constexpr std::uint32_t kWorkHint = 0x5A202013;

// ---- hello: the firmware finds the array ----------------------------------------------------------------------------

// In the firmware's memory. The hint stands in the firmware's code, and 8 bytes behind its address the physical address
// of this block: that is how the array finds both.
inline constexpr std::uint64_t kHelloMagic = 0x31595252414E5953;  // "SYNARRY1"
inline constexpr std::uint64_t kHelloAddressAt = 8;
struct Hello {
  std::uint64_t magic;
  std::uint32_t version;  // of the firmware
  std::uint32_t harts;
  std::uint64_t ram_base;  // physical; where the firmware's own memory begins
  std::uint64_t ram_bytes;
  // What hart h knows of itself lies at `hart_local` + h · `hart_stride`; in it, words with physical addresses: of the
  // page table that the hart runs under, at `root_at`, and of the context that runs in U-mode, at `context_at`. In a
  // context, the word at `arguments_at` is the virtual address of its KernelArguments.
  std::uint64_t hart_local;
  std::uint64_t hart_stride;
  std::uint32_t root_at;
  std::uint32_t context_at;
  std::uint32_t arguments_at;
  // Answer: the version of the array, 0 when it can not work with this firmware.
  std::uint32_t answer;
  std::uint32_t orders_at;  // of Orders, in a context
  std::uint32_t reserved;
  // Physical addresses: of the Move (array_moves.hpp) of the hart that greets; where the memory of regions begins, in
  // which no code is executed.
  std::uint64_t move;
  std::uint64_t regions_begin;
  std::uint8_t reserved1[40];
};
static_assert(sizeof(Hello) == kStickBytes);

// ---- orders: the firmware breaks the array on purpose (FaultPoint::Array) -------------------------------------------

// An order is about the next request that the array is about to execute: all of its memory has been found.
enum class Order : std::uint32_t {
  Serve = 0,  // and every other one
  Ask = 1,    // it answers Ask, and the order becomes Asked
  Asked = 2,  // as Ask; the kernel has to call the firmware
  // These become Ask when they have been carried out.
  ServeOne = 3,
  RefuseOne = 4,
  CorruptOne = 5,  // executes it, and inverts bit `argument` of the sticks that it makes, modulo what there is
  FailOne = 6,     // answers MemoryError, of the stick `argument` of those that it reads, modulo what there is
};

// In each context, in the firmware's memory: a kernel reaches neither.
struct Orders {
  Order order;
  std::uint32_t reserved;
  std::uint64_t argument;
  std::uint64_t failed;  // of the array: the physical address of the memory that has failed; 0: none has
};
static_assert(sizeof(Orders) == 24);

// ---- work: a kernel asks for it -------------------------------------------------------------------------------------

// The request lies at the first byte of the scratchpad of the context that executes the hint. Addresses are virtual, of
// the launch; the array reads the page tables of the hart and reaches what the hart reaches in U-mode, no more.
enum class Kind : std::uint32_t {
  Rows = 1,     // an element-wise operation on sticks: Request
  Chunk = 2,    // the products of one chunk of k of a matrix product: ChunkRequest
  Lines = 3,    // reductions: LinesRequest
  Convert = 4,  // a change of format: ConvertRequest
  Blocks = 5,   // blocks of items, transposed: BlocksRequest
  Copies = 6,   // rows of sticks, copied: CopiesRequest
  TopK = 7,     // the largest elements of lines: TopKRequest
};

constexpr std::string_view name(Kind kind) {
  switch (kind) {
    case Kind::Rows: return "rows";
    case Kind::Chunk: return "products";
    case Kind::Lines: return "reductions";
    case Kind::Convert: return "conversions";
    case Kind::Blocks: return "transpositions";
    case Kind::Copies: return "copies";
    case Kind::TopK: return "largest elements";
  }
  return "unknown";
}

enum class Outcome : std::uint32_t {
  None = 0,     // what the kernel writes before the hint
  Done = 1,     // `done` sticks are finished; the kernel asks again for the others
  Missing = 2,  // nothing was done: the byte at `address`, of `operand`, is not mapped with the right that is needed
  Refused = 3,  // nothing was done: the array has not what was asked for; `operand` says which field
  // After one of these nothing was done either; the kernel calls the firmware (KernelCall::ArrayOrder), and asks again.
  Ask = 4,          // the firmware wants to know of each request
  MemoryError = 5,  // the memory has failed: the call does not return
};

inline constexpr unsigned kMaxInputs = 5;
inline constexpr unsigned kOutput = kMaxInputs;  // number of the output in `rows` and in `operand`
inline constexpr unsigned kTable = kOutput + 1;  // number of the table in `operand`
inline constexpr std::uint32_t kNoOperand = ~std::uint32_t{0};

struct Row {
  std::uint64_t address;  // of the first stick; a multiple of kStickBytes
  std::uint64_t step;     // bytes from one stick to the next; a multiple of kStickBytes, or 0
};

struct Request {
  Kind kind;
  std::uint32_t opcode;   // wire::program::Opcode
  std::uint32_t format;   // wire::program::Format of all operands
  std::uint32_t inputs;   // 1 to kMaxInputs
  std::uint32_t singles;  // bit i: in the sticks of input i only lane 0 counts, for all lanes
  std::uint32_t reserved;
  std::uint32_t constant[2];  // Clip: the codes of its bounds; LayerNormScale: the bits of an fp32
  std::uint64_t count;        // sticks
  Row row[kMaxInputs + 1];
  std::uint64_t table;  // functions of DL16: the address of 65536 results
  // Answer.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved1[88];
};
static_assert(sizeof(Request) == 2 * kStickBytes && offsetof(Request, outcome) == 144);

// For each row i and each column c of the panel, the sum over the k of a chunk of row i's number k times the panel's
// number k of column c, exact and rounded once to fp32, is added to a sum in fp32: one chunk of up to kMaxDepth k after
// the other. Where the sum of a column lies: lane_of_sum(). The request ends in front of a chunk that has a number that
// is not finite, or more than kMaxWideSums sums whose numbers have exponents too far apart (docs/array.md, "Products");
// when that is the first one, it is refused with nothing done. It may also end behind any chunk.
//   Dl16      number k is lane k mod 64 of stick k div 64 of the row, and lane c of the panel's stick k
//   Fp8E4m3   number k is lane 16 (k div 8) + 8 half + k mod 8 of the row's stick, and lane 2 c + k mod 2 of the panel's
//             stick k div 2 (docs/device-programs.md, MatMulFp8)
constexpr unsigned lane_of_sum(unsigned half, unsigned place) { return place % 16 * 4 + place / 16 * 2 + half; }
struct ChunkRequest {
  Kind kind;
  std::uint32_t rows;        // 1 to kMaxRows
  std::uint32_t depth;       // positions of k, 1 to most_depth()
  std::uint32_t lanes;       // columns of the panel that count; the sums of the others get zeros added
  std::uint64_t row_list;    // the addresses of the rows' first sticks: words, one behind the other
  std::uint64_t panel_list;  // likewise of the panel's sticks; with a `panel_step`, the address of the first one
  std::uint64_t sums;        // of lane 0 of row 0; a row's half has 32 of them, a stick, one row behind the other
  std::uint64_t half_step;   // bytes from the first half to the second
  std::uint32_t format;      // wire::program::Format of rows and panel: Dl16 or Fp8E4m3
  std::uint32_t half;        // of the rows' sticks: which chunk of theirs; 0 of Dl16
  std::uint64_t row_step;    // bytes from a stick of a row to the next, a multiple of kStickBytes
  std::uint64_t panel_step;  // bytes from a stick of the panel to the next, likewise; 0: they are listed
  std::uint8_t reserved[72];
  // Answer, as in Request; `done` counts positions of k.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved1[88];
};
static_assert(sizeof(ChunkRequest) == sizeof(Request) && offsetof(ChunkRequest, outcome) == offsetof(Request, outcome));
static_assert(offsetof(ChunkRequest, address) == offsetof(Request, address));

// Sum, Mean, Max or Min of the sticks of each line into one stick: across sticks, lane by lane, or along them, of all
// their lanes; the result then fills its stick. Exx2, only along: its two numbers in fp64, and zeros. The sticks of a
// line lie at equal distances.
struct LinesRequest {
  Kind kind;
  std::uint32_t opcode;       // wire::program::Opcode
  std::uint32_t format;       // Dl16 or Fp32, of both operands
  std::uint32_t along;        // 1: along the stick; 0: across sticks
  std::uint32_t lines;        // 1 to kMaxLines; lines times sticks: up to most_line_sticks()
  std::uint32_t sticks;       // of each line
  std::uint32_t lanes;        // along: of the last stick, that take part; across: of the result, the others are 0
  std::uint32_t factor;       // of Mean and Exx2: the bits of an fp32
  std::uint64_t line_list;    // the addresses of the lines' first sticks: words, one behind the other
  std::uint64_t output_list;  // likewise of the sticks of the results
  std::uint64_t step;         // bytes from one stick of a line to the next, a multiple of kStickBytes
  std::uint8_t reserved[88];
  // Answer, as in Request; `done` counts lines.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved1[88];
};
static_assert(sizeof(LinesRequest) == sizeof(Request) && offsetof(LinesRequest, outcome) == offsetof(Request, outcome));
static_assert(offsetof(LinesRequest, address) == offsetof(Request, address));

// A change of format, in units: some sticks of the input and those sticks of the output that have the same positions.
// One of the two sides has one stick in a unit, the other as many as it takes to hold as many positions. What the input
// has no stick for becomes zeros. The opcode says where lanes go (docs/device-programs.md): Copy keeps their order,
// Dl16ToFp32 and the others beside it have theirs.
struct ConvertRequest {
  Kind kind;
  std::uint32_t opcode;  // wire::program::Opcode
  std::uint32_t from_format;
  std::uint32_t to_format;
  std::uint32_t from_sticks;  // of a unit, 1 to unit_sticks()
  std::uint32_t to_sticks;    // likewise
  std::uint32_t single;       // 1: a unit is one stick of each; only lane 0 of the input's counts, for all lanes
  std::uint32_t reserved;
  std::uint64_t count;  // units
  Row from;             // the first stick of the first unit, and from one unit to the next
  Row to;
  std::uint64_t from_step;  // bytes from one stick of a unit to the next
  std::uint64_t to_step;
  std::uint8_t reserved1[56];
  // Answer, as in Request; `done` counts units, an `operand` below kOutput is a stick of the input.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved2[88];
};
static_assert(sizeof(ConvertRequest) == sizeof(Request));
static_assert(offsetof(ConvertRequest, outcome) == offsetof(Request, outcome));
static_assert(offsetof(ConvertRequest, address) == offsetof(Request, address));

// Blocks of items of 1, 2 or 4 bytes. A block is `rows` sticks of the input; its lanes 0 … columns - 1 become as many
// sticks of the output: lane r of stick c is lane c of row r, and the lanes from `rows` on are 0. One block is done
// after the other. Refused, with nothing done, when the input and the output of one block may share bytes.
struct BlocksRequest {
  Kind kind;
  std::uint32_t item;         // bytes
  std::uint32_t rows;         // 1 to the lanes of a stick
  std::uint32_t columns;      // likewise
  std::uint64_t count;        // blocks, 1 to most_blocks()
  Row input;                  // the rows of the first block
  std::uint64_t input_step;   // bytes from one block to the next, a multiple of kStickBytes
  Row output;                 // the sticks that its columns become
  std::uint64_t output_step;  // as input_step
  std::uint8_t reserved[72];
  // Answer, as in Request; `done` counts blocks.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved1[88];
};
static_assert(sizeof(BlocksRequest) == sizeof(Request) &&
              offsetof(BlocksRequest, outcome) == offsetof(Request, outcome));
static_assert(offsetof(BlocksRequest, address) == offsetof(Request, address));

// Rows of sticks at equal distances, copied stick by stick in the order of the lists: what was written before is read.
struct CopiesRequest {
  Kind kind;
  std::uint32_t rows;    // rows times sticks: up to kMaxCopies
  std::uint32_t sticks;  // of each row
  std::uint32_t reserved0;
  std::uint64_t from_list;  // the addresses of the rows' first sticks: words, one behind the other
  std::uint64_t to_list;    // likewise of the first sticks of the copies
  std::uint64_t from_step;  // bytes from one stick of a row to the next, a multiple of kStickBytes
  std::uint64_t to_step;
  std::uint8_t reserved[96];
  // Answer, as in Request; `done` counts rows.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved1[88];
};
static_assert(sizeof(CopiesRequest) == sizeof(Request) &&
              offsetof(CopiesRequest, outcome) == offsetof(Request, outcome));
static_assert(offsetof(CopiesRequest, address) == offsetof(Request, address));

// The largest elements of lines, NaN before every number, equal ones in ascending order of their indices. Of a line,
// `merits` has a list of `ranks` words: the merits (shared/array_merit.hpp) of its best elements so far, in descending
// order, as many as it has had elements, but no more than `ranks`. The lists of the lines lie one behind the other. The
// request includes further elements, one row of sticks after the other. It ends at the limit of its work, at the
// earliest behind the first stick; another request, or the kernel itself, goes on with the same lists.
struct TopKRequest {
  Kind kind;
  std::uint32_t format;    // wire::program::Format: Dl16 or Fp32
  std::uint32_t ranks;     // 1 to kMaxRanks; ranks times lines: up to kMaxMerits
  std::uint32_t across;    // 0: a row is a line, of all lanes; 1: each of the lanes of its sticks is a line of its own
  std::uint32_t rows;      // 1 to kMaxLines; rows times sticks: up to kMaxLineSticks
  std::uint32_t sticks;    // of each row
  std::uint32_t lanes;     // across: that are lines; else: of the last stick, that take part
  std::uint32_t first;     // index of the first elements; that many have been included before
  std::uint64_t row_list;  // the addresses of the rows' first sticks: words, one behind the other
  std::uint64_t step;      // bytes from one stick of a row to the next, a multiple of kStickBytes
  std::uint64_t merits;    // address of the lists, a multiple of kStickBytes
  std::uint8_t reserved[88];
  // Answer, as in Request; `done` counts sticks, those of the rows one after the other.
  Outcome outcome;
  std::uint32_t operand;
  std::uint64_t done;
  std::uint64_t address;
  std::uint8_t reserved1[88];
};
static_assert(sizeof(TopKRequest) == sizeof(Request) && offsetof(TopKRequest, outcome) == offsetof(Request, outcome));
static_assert(offsetof(TopKRequest, address) == offsetof(Request, address));

// ---- bounds ---------------------------------------------------------------------------------------------------------

// Sticks that one request does at most: some 50 µs of the slowest operation (docs/array.md).
inline constexpr std::uint64_t kMaxSticks = 512;
inline constexpr std::uint64_t kMaxLineSticks = 1024;  // of Sum, Mean, Max and Min
constexpr std::uint64_t most_line_sticks(program::Opcode opcode) {
  return opcode == program::Opcode::Exx2 ? kMaxSticks : kMaxLineSticks;
}
inline constexpr std::uint64_t kMaxConverted = 32768;  // positions of a conversion, when each unit has all of its own
// Sticks of the first format that have the positions of one of the second; 1 when there are more.
constexpr std::uint32_t unit_sticks(program::Format of, program::Format other) {
  const std::uint32_t lanes = program::lanes_of(of), others = program::lanes_of(other);
  return others > lanes ? others / lanes : 1;
}
// So that a request reads and writes up to kMaxSticks each.
constexpr std::uint64_t most_blocks(std::uint32_t item) { return kMaxSticks * item / kStickBytes; }
inline constexpr std::uint64_t kMaxCopies = 512;  // sticks
inline constexpr std::uint32_t kMaxRanks = 1024;
inline constexpr std::uint32_t kMaxMerits = 8192;  // of all lines of a request
inline constexpr std::uint64_t kTableBytes = 65536 * 2;
inline constexpr unsigned kMaxRows = 64;   // of a chunk: a quarter of a million multiplications
inline constexpr unsigned kMaxDepth = 64;  // of one chunk
// A request of few rows of DL16 has the chunks of more k: what the panel costs is most of it.
inline constexpr unsigned kFewRows = 4;
inline constexpr unsigned kMaxFewDepth = 512;
constexpr std::uint32_t most_depth(program::Format format, std::uint32_t rows) {
  return format == program::Format::Dl16 && rows <= kFewRows ? kMaxFewDepth : kMaxDepth;
}
inline constexpr unsigned kMaxWideSums = 16;
inline constexpr unsigned kMaxLines = 64;

// A launch's address space begins here: a hint below is one of the firmware.
inline constexpr std::uint64_t kLowestKernelAddress = region_window(0);

// Of the context that has its KernelArguments at this address. Not the hint's own address tells the context: contexts
// map the same text at different addresses, and the emulator translates it once for all of them.
constexpr std::uint64_t request_address(std::uint64_t arguments) {
  return arguments - kArgumentsOffset + kScratchpadOffset;
}

}  // namespace wire::array
