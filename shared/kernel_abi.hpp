// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// What a kernel image looks like in Program memory and what a kernel sees when it runs (protocol §7).
// An image is data until the card's loader copied its text into an execution area; nothing here is executable in place.
#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/units.hpp"

namespace wire {

// ---- image in Program memory: header stick(s), text, literal pool --------------------------------------------------

inline constexpr std::uint64_t kImageMagic = 0x31474D4945525953;  // "SYREIMG1" little-endian
inline constexpr std::uint32_t kImageAbiVersion = 1;

// Text and literal pool have page-aligned places in the address space of a launch; their bytes in the image are
// stick-aligned. All offsets count bytes from the image's start; entries count bytes from the start of text.
struct ImageHeader {
  std::uint64_t magic;
  std::uint32_t abi_version;
  std::uint32_t crc32c;  // over the image with this field zero
  std::uint64_t image_bytes;
  std::uint64_t text_offset;
  std::uint64_t text_bytes;
  std::uint64_t pool_offset;
  std::uint64_t pool_bytes;  // initial contents; may be zero
  std::uint64_t correction_entry;
  std::uint64_t compute_entry;
  std::uint64_t scratchpad_bytes;      // needed per core, at most kScratchpadBytes
  std::uint64_t max_correction_bytes;  // largest correction tensor that the correction program reads
  std::uint8_t reserved[40];
};
static_assert(sizeof(ImageHeader) == kStickBytes);
static_assert(offsetof(ImageHeader, crc32c) == 12 && offsetof(ImageHeader, max_correction_bytes) == 80);

inline constexpr std::uint64_t kMaxTextBytes = 1 * kMiB;
inline constexpr std::uint64_t kMaxPoolBytes = 64 * kKiB;
inline constexpr std::uint64_t kMaxImageBytes = kMaxTextBytes + kMaxPoolBytes + 64 * kKiB;  // header and alignment
inline constexpr std::uint64_t kMaxCorrectionBytes = 16 * kKiB;
inline constexpr std::uint64_t kScratchpadBytes = 2 * kMiB;
inline constexpr std::uint64_t kKernelStackBytes = 64 * kKiB;

// ---- address space of a launch (Sv39, U-mode) -----------------------------------------------------------------------

inline constexpr unsigned kRegionsPerFunction = 8;
inline constexpr unsigned kProgramRegion = 7;  // RFC: segment 7 holds programs and correction tensors
inline constexpr unsigned kRegionShift = 34;   // 16 GiB windows; window 0 is the null guard

constexpr std::uint64_t region_window(unsigned ordinal) { return std::uint64_t{ordinal + 1} << kRegionShift; }

// From 160 GiB up: one 1 GiB slice per context of a core. Inside a slice every cached execution area has its own
// 64 MiB, so that loading another kernel never changes a mapping in use. Unmapped gaps separate everything.
// The 14 MiB: the emulator's cache of jump targets tells pages apart by six bits, which are bits 12 to 17 of an address
// exclusive-or bits 18 to 23. With them the first 24 pages of a kernel do not meet the 37 of the firmware.
inline constexpr std::uint64_t kContextWindow = 160 * kGiB + 14 * kMiB;
inline constexpr std::uint64_t kContextStride = 1 * kGiB;
inline constexpr std::uint64_t kExecutionAreaStride = 64 * kMiB;
inline constexpr std::uint64_t kTextOffset = 0;                  // RX
inline constexpr std::uint64_t kPoolOffset = 32 * kMiB;          // RW, at this distance from text in every area
inline constexpr std::uint64_t kContextDataOffset = 960 * kMiB;  // the last 64 MiB of a slice: data of the context
inline constexpr std::uint64_t kArgumentsOffset = kContextDataOffset;              // R, one page
inline constexpr std::uint64_t kCorrectionOffset = kContextDataOffset + 2 * kMiB;  // R, kMaxCorrectionBytes
inline constexpr std::uint64_t kStackOffset = kContextDataOffset + 4 * kMiB;       // RW, grows down from its end
inline constexpr std::uint64_t kScratchpadOffset = kContextDataOffset + 8 * kMiB;  // RW

inline constexpr unsigned kExecutionAreas = 15;  // cached images of a function; 15 × 64 MiB below the context data
static_assert(kExecutionAreas * kExecutionAreaStride <= kContextDataOffset);

// ---- what the entry receives ----------------------------------------------------------------------------------------

// a0 at the correction entry points to this (read-only). sp is the end of the stack; all other registers are zero.
struct KernelArguments {
  std::uint32_t core_index;  // 0 … core_count − 1 within this launch
  std::uint32_t core_count;
  std::uint64_t correction_address;  // virtual; the correction tensor of this launch
  std::uint64_t correction_bytes;
  std::uint64_t pool_address;  // virtual; this launch's own literal pool
  std::uint64_t pool_bytes;
  std::uint64_t compute_entry;  // virtual; where the correction program jumps to
  std::uint64_t scratchpad_address;
  std::uint64_t scratchpad_bytes;
  std::uint32_t array_version;  // of the compute array (shared/array.hpp); 0: there is none
  std::uint8_t reserved[60];
};
static_assert(sizeof(KernelArguments) == kStickBytes);

// Environment calls: number in a7, argument in a0, a result in a0.
enum class KernelCall : std::uint64_t {
  Exit = 0,        // a0 = status; 0 is success
  Barrier = 1,     // returns when every core of the launch arrived
  TraceMark = 2,   // a0 = value, kept with the launch's record
  Claim = 3,       // a0 = how many items; the result is the number of the first one
  ArrayOrder = 4,  // the array has answered Ask or MemoryError (array.hpp); a0 is not looked at
};

// Claim hands out the numbers from 0 up, each once, to whichever core of the launch asks. They begin at 0 when the
// launch starts and again behind each barrier. Once all have been handed out, every result is kNoMoreItems.
inline constexpr std::uint64_t kNoMoreItems = ~std::uint64_t{0};

// What a kernel is at: a value that it keeps in register s11, with this mark in its upper 16 bits. When the kernel
// faults or its watchdog ends it, the fault record's `argument` is that value; without the mark it is 0.
inline constexpr std::uint64_t kProgressMark = 0x5047;
inline constexpr unsigned kProgressShift = 48;
constexpr std::uint64_t to_progress(std::uint32_t number) { return kProgressMark << kProgressShift | number; }
constexpr bool is_progress(std::uint64_t value) { return value >> kProgressShift == kProgressMark; }
constexpr std::uint32_t number_of_progress(std::uint64_t value) { return static_cast<std::uint32_t>(value); }

// ---- correction tensor ----------------------------------------------------------------------------------------------

inline constexpr std::uint64_t kCorrectionMagic = 0x31524F4345525953;  // "SYRECOR1"

enum class AddressMode : std::uint32_t { Pf = 0, Vf = 1 };

// Answers RFC open question 5: the header tells the correction program how region ids are meant, so one binary serves
// both modes. An address symbol is sent as the pair {region_id, offset}; the program finds the region's window in the
// map. In VF mode region_id is the ordinal itself, in PF mode a physical base that serves as a name only.
struct CorrectionHeader {
  std::uint64_t magic;
  AddressMode mode;
  std::uint32_t symbol_count;
  std::uint32_t region_count;
  std::uint32_t reserved0;
  std::uint64_t reserved1[5];
  struct RegionName {
    std::uint64_t region_id;
  } region[kRegionsPerFunction];  // region[i].region_id is at window i; ~0 = not granted
};
static_assert(sizeof(CorrectionHeader) == kStickBytes);

inline constexpr std::uint64_t kNoRegion = ~std::uint64_t{0};

// One symbol of the correction tensor; symbols follow the header in the order of the image's metadata.
enum class SymbolKind : std::uint32_t {
  Address = 0,
  Stride = 1,
  Dimension = 2,
  Partials = 3,  // memory for partial results of an output, four bytes per element of the tile with its padding
  Pass = 4,      // where in its reduction the tile stands
};
struct CorrectionSymbol {
  SymbolKind kind;
  std::uint32_t operand;
  std::uint64_t region_id;  // Address and Partials; Partials: kNoRegion when the only pass is the first and the last
  // Address, Partials: byte offset in the region; Stride: bytes; Dimension: elements; Pass: bits
  std::uint64_t value;
  std::uint64_t reserved;
};
static_assert(sizeof(CorrectionSymbol) == 32);

// Tiles of a reduced dimension are passes over the same output, in ascending order. The first begins the sum; the
// others go on with what the one before has left in the partials; the last writes the output. One tile is both.
inline constexpr std::uint64_t kPassFirst = 1;
inline constexpr std::uint64_t kPassLast = 2;

constexpr std::uint64_t correction_bytes(std::uint32_t symbols) {
  return align_up(sizeof(CorrectionHeader) + symbols * sizeof(CorrectionSymbol), kStickBytes);
}
inline constexpr std::uint32_t kMaxSymbols =
    static_cast<std::uint32_t>((kMaxCorrectionBytes - sizeof(CorrectionHeader)) / sizeof(CorrectionSymbol));

}  // namespace wire
