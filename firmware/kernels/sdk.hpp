// SPDX-License-Identifier: Apache-2.0
// Everything that a device kernel needs. A kernel is one C++ file: it describes itself with SPYRE_KERNEL and defines
// kernel::compute; the build adds the correction program (correction.cpp), links at the fixed distance between text and
// literal pool, and packs image and metadata. See empty.cpp for the smallest one, add.cpp for a usual one.
//
// A kernel runs in U-mode, once on every core of its launch, with 64 KiB of stack and 2 MiB of scratchpad. It has no C
// library, no counters, and sees the regions of its function at the addresses that its symbols name, nothing else.
// Rules that the build enforces: no relocations (so no tables of pointers, no virtual functions), text and constants
// below 1 MiB, everything writable below 64 KiB (it becomes part of the literal pool).
//
// What is quick under the emulator: unmasked integer vector instructions with vl = VLMAX and LMUL = 1. Everything else
// on vectors runs element by element. One register is one stick (VLEN 1024).
#pragma once

#include <cstddef>
#include <cstdint>

#include "firmware/kernels/info.hpp"
#include "shared/kernel_abi.hpp"

namespace kernel {

// The kernel's own work. The result is the status of this core: 0 is success, anything else ends the launch with
// FAULT "kernel returned a non-zero status".
std::uint64_t compute(const wire::KernelArguments& arguments);

// Statuses that the correction program ends with when host and image do not fit together. Kernels use small numbers.
enum CorrectionStatus : std::uint64_t {
  kCorrectionTooShort = 0xC0001,
  kCorrectionBadMagic = 0xC0002,
  kCorrectionSymbolCount = 0xC0003,
  kCorrectionSymbolKind = 0xC0004,     // kind or operand differs from the metadata
  kCorrectionUnknownRegion = 0xC0005,  // an address symbol names a region that the header's map does not list
};

inline std::uint64_t environment_call(wire::KernelCall call, std::uint64_t argument) {
  register std::uint64_t a0 asm("a0") = argument;
  register std::uint64_t a7 asm("a7") = static_cast<std::uint64_t>(call);
  asm volatile("ecall" : "+r"(a0) : "r"(a7) : "memory");
  return a0;
}

[[noreturn]] inline void exit(std::uint64_t status) {
  environment_call(wire::KernelCall::Exit, status);
  __builtin_unreachable();
}

// Returns when every core of the launch arrived; stores before it are visible to all cores after it.
inline void barrier() {
  asm volatile("fence rw,rw" ::: "memory");
  environment_call(wire::KernelCall::Barrier, 0);
  asm volatile("fence rw,rw" ::: "memory");
}

// Hands out work of the launch: the number of the first of `count` items that no other claim of any core gets. Numbers
// begin at 0 at the launch's start and again behind each barrier(); kNoMoreItems when there are no more. Orders no
// loads and stores. Costs about a microsecond, so that an item should be worth a hundred.
inline std::uint64_t claim(std::uint64_t count) { return environment_call(wire::KernelCall::Claim, count); }

// Leaves a value in the launch's record.
inline void trace_mark(std::uint64_t value) { environment_call(wire::KernelCall::TraceMark, value); }

// Said of this kernel when it faults or its watchdog ends it: wire::kProgressMark. Costs one instruction. Only for a
// kernel that is compiled with -ffixed-x27, so that the compiler leaves the register alone.
inline void set_progress(std::uint32_t number) { asm volatile("mv s11, %0" : : "r"(wire::to_progress(number))); }

// Where the correction program puts the symbols, in the order of the description. Addresses (and partials, where there
// are any) are virtual by then, strides are bytes, dimensions are elements, a pass has the bits wire::kPassFirst and
// kPassLast.
extern "C" [[gnu::visibility("hidden")]] std::uint64_t kernel_symbols[];

inline std::uint64_t symbol(unsigned index) { return kernel_symbols[index]; }

// Of a kernel with KernelInfo::table_bytes: what the launch's HostOperation has put behind the sticks of the symbols.
// The same on every core of the launch; may be shorter than table_bytes.
struct Table {
  const std::byte* data;
  std::uint64_t bytes;
};
inline Table table(const wire::KernelArguments& arguments, std::uint32_t symbols) {
  const std::uint64_t before = wire::correction_bytes(symbols);
  if (arguments.correction_bytes <= before) return {nullptr, 0};
  return {reinterpret_cast<const std::byte*>(arguments.correction_address + before),
          arguments.correction_bytes - before};
}

// A 2-D tensor of two-byte elements in stick layout, or a tile of rows of one: element (r, c) is lane c % 64 of the
// stick at address + (c / 64) * column_stride + r * 128. The column stride is that of the whole tensor.
struct StickTensor {
  std::uint64_t address;
  std::uint64_t column_stride;

  std::uint16_t* stick(std::uint64_t row, std::uint64_t column) const {
    return reinterpret_cast<std::uint16_t*>(address + column * column_stride + row * wire::kStickBytes);
  }
};

// The same of a kernel that takes the stride of rows as a symbol, too: of a view in steps, or 0 of a row that is
// repeated.
struct StridedStickTensor {
  std::uint64_t address;
  std::uint64_t column_stride;
  std::uint64_t row_stride;

  std::uint16_t* stick(std::uint64_t row, std::uint64_t column) const {
    return reinterpret_cast<std::uint16_t*>(address + column * column_stride + row * row_stride);
  }
};

inline constexpr std::uint64_t kLanes = wire::kStickBytes / sizeof(std::uint16_t);

// Items first, first + step, … of a launch that is split over cores without overlap.
struct Share {
  explicit Share(const wire::KernelArguments& arguments) : first(arguments.core_index), step(arguments.core_count) {}
  std::uint64_t first;
  std::uint64_t step;
};

// Items 0, 1, 2, … of a launch that are handed out one by one: each core asks for its next one when it is ready, so
// that a core that the host keeps from running for a while gets fewer. All cores that take part ask until next() is
// beyond the last item; between two such lists is a barrier(). One core alone needs no environment call.
class Claims {
 public:
  explicit Claims(std::uint64_t cores) : alone_(cores == 1) {}
  std::uint64_t next() { return alone_ ? next_++ : claim(1); }

 private:
  bool alone_;
  std::uint64_t next_ = 0;
};

}  // namespace kernel

// The description; once in a kernel, at namespace scope: SPYRE_KERNEL({.name = "add", …}). Fields: kernel::KernelInfo.
#define SPYRE_KERNEL(...)                                                                                        \
  extern "C" {                                                                                                   \
  [[gnu::section(".kernel_info"), gnu::used,                                                                     \
    gnu::retain]] extern constexpr kernel::KernelInfo kernel_info __VA_ARGS__;                                   \
  [[gnu::visibility("hidden")]] extern constexpr std::uint64_t kernel_symbol_count = kernel_info.symbol_count(); \
  [[gnu::visibility("hidden")]] extern constexpr auto kernel_symbol_keys =                                       \
      kernel::keys_of<kernel::room_for_symbols(kernel_info)>(kernel_info);                                       \
  std::uint64_t kernel_symbols[kernel::room_for_symbols(kernel_info)];                                           \
  }                                                                                                              \
  static_assert(true)
