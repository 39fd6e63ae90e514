// SPDX-License-Identifier: Apache-2.0
// Errors of the API. Every failure is thrown as spyre::Error or one of the types below, which carry what a caller can
// act on. An error says which layer failed, what is at fault, how the unit ended and what to do next (docs/errors.md).
//
// All of them are values: copy them, keep them, compare fields. No error holds a resource of the card.
#pragma once

#include <spyre/export.h>

#include <cstdint>
#include <spyre/outcome.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

namespace spyre::inline v0 {

enum class Layer : std::uint8_t { Driver, Transport, Firmware, Core, Memory, Emulator };

constexpr std::string_view name(Layer layer) {
  switch (layer) {
    case Layer::Driver: return "driver";
    case Layer::Transport: return "transport";
    case Layer::Firmware: return "firmware";
    case Layer::Core: return "core";
    case Layer::Memory: return "memory";
    case Layer::Emulator: return "emulator";
  }
  return "unknown layer";
}

struct ErrorInfo {
  Layer layer = Layer::Driver;
  std::string source;  // the argument, stream, region, job or process at fault; empty when nobody can tell
  Outcome outcome = Outcome::Rejected;
  bool recoverable = true;       // true: the same object works again after next_step; false: start over with a new one
  std::string next_step;         // what the caller should do; an imperative without a full stop
  std::string message;           // what happened, with the numbers; without a full stop
  Status status = Status::None;  // why, in the card's words; None where the card did not say
};

// One line for people: "<message> (layer memory, source region 3, outcome REJECTED; next: free some tensors)".
inline std::string describe(const ErrorInfo& info) {
  std::string text = info.message;
  text.append(" (layer ").append(name(info.layer));
  if (!info.source.empty()) text.append(", source ").append(info.source);
  text.append(", outcome ").append(name(info.outcome));
  if (!info.next_step.empty()) text.append("; next: ").append(info.next_step);
  if (!info.recoverable) text.append("; not recoverable");
  text.append(")");
  return text;
}

class SPYRE_API Error : public std::runtime_error {
 public:
  explicit Error(ErrorInfo info) : std::runtime_error(describe(info)), info_(std::move(info)) {}
  const ErrorInfo& info() const noexcept { return info_; }

 private:
  ErrorInfo info_;
};

// An argument of a call was refused before any effect. `field` names it as the API spells it.
class SPYRE_API InvalidArgument : public Error {
 public:
  InvalidArgument(std::string field, std::string message, std::string next_step)
      : Error({.layer = Layer::Driver,
               .source = std::move(field),
               .outcome = Outcome::Rejected,
               .recoverable = true,
               .next_step = std::move(next_step),
               .message = std::move(message)}) {}
  const std::string& field() const noexcept { return info().source; }
};

// What was asked for is no view of the tensor's memory, or lies in several regions: its elements have to be moved.
// Nothing was.
class SPYRE_API CopyNeeded : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

// Memory is exhausted, or too fragmented for one block of this size (free_bytes >= requested > largest_block).
struct MemoryShortage {
  std::uint64_t requested = 0;      // bytes, rounded to the allocation unit
  std::uint64_t free_bytes = 0;     // free in everything that is held now
  std::uint64_t largest_block = 0;  // largest single allocation that would succeed now
  std::uint64_t total_bytes = 0;    // held now: used + free
  // The memory limit (SpyreAllocator::set_memory_limit()) when it is why no more is held. 0: it is not.
  std::uint64_t limit = 0;
  friend bool operator==(const MemoryShortage&, const MemoryShortage&) = default;
};

class SPYRE_API OutOfMemory : public Error {
 public:
  // `pool` names what ran out: "tensor memory", "program memory", "pinned host memory".
  OutOfMemory(std::string pool, MemoryShortage shortage, std::string next_step)
      : Error({.layer = Layer::Memory,
               .source = pool,
               .outcome = Outcome::Rejected,
               .recoverable = true,
               .next_step = std::move(next_step),
               .message = sentence(pool, shortage)}),
        shortage_(shortage) {}

  const MemoryShortage& shortage() const noexcept { return shortage_; }
  std::uint64_t requested() const noexcept { return shortage_.requested; }
  std::uint64_t free_bytes() const noexcept { return shortage_.free_bytes; }
  std::uint64_t largest_block() const noexcept { return shortage_.largest_block; }
  std::uint64_t total_bytes() const noexcept { return shortage_.total_bytes; }

 private:
  static std::string sentence(const std::string& pool, const MemoryShortage& s) {
    return "out of memory: " + pool + ", requested " + std::to_string(s.requested) + " bytes, free " +
           std::to_string(s.free_bytes) + ", largest block " + std::to_string(s.largest_block) + ", total " +
           std::to_string(s.total_bytes) +
           (s.limit != 0 ? "; the memory limit of " + std::to_string(s.limit) + " bytes is the reason" : "");
  }
  MemoryShortage shortage_;
};

// A deadline passed. Nothing was given up: the work goes on and may be waited for again.
class SPYRE_API TimeoutError : public Error {
 public:
  using Error::Error;
};

// What is known of the launch whose failure stopped a stream.
struct StreamFailure {
  std::uint32_t stream = 0;
  std::uint64_t launch = 0;  // within the stream, from 1
  std::string job;           // the kernel's name, "transfer", "event" or "host function"
  std::uint32_t tile = 0;    // of a tiled launch, from 0
  std::uint32_t step = 0;    // within the job's plan, from 0
  std::string operation;     // "COMPUTE", "DMA", "FILL", "EVENT_SIGNAL", "EVENT_WAIT", "NOP"
  Outcome outcome = Outcome::Ok;
  Status status = Status::None;  // why, in the card's words
  std::string operand;       // of a fault of a kernel: the operand it hit, or how far from the nearest; may be empty
  std::string symbol;        // of a fault of a kernel: function+offset
  std::uint64_t slices = 0;  // watchdog slices (1 ms of the card's time) that the kernel had taken
};

// Thrown by Synchronize and by Launch on a stream that failed: the first error, again and again until the stream is
// reset (SpyreStream::Reset) or the context recovers (Context::recover). `info().recoverable`: the stream's reset is
// enough.
class SPYRE_API StreamError : public Error {
 public:
  StreamError(ErrorInfo info, StreamFailure failure) : Error(std::move(info)), failure_(std::move(failure)) {}
  const StreamFailure& failure() const noexcept { return failure_; }

 private:
  StreamFailure failure_;
};

// A step of a plan that is not understood where it stands.
class SPYRE_API InvalidPlan : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

// The shapes of a launch can not be covered by walks of the compiled tile (RFC "Program Execution Pipeline", Tiled
// Execution; docs/tiling.md). field(): "operand B, dimension N".
class SPYRE_API TilingError : public InvalidArgument {
 public:
  enum class Reason : std::uint8_t {
    RankDiffers,      // an operand has another number of dimensions than compiled
    SmallerThanTile,  // a dimension is shorter than the tile, and the kernel does not take its extent
    NotDivisible,     // a remainder would be left, and the kernel does not take the dimension's extent
    Inconsistent,     // operands disagree on a dimension, or an output is not of the full size
    Reduction,        // the tiled dimension is not one of an output, and the kernel keeps no partial results
    StickUnaligned,   // a tile along the stick dimension that is no whole number of sticks
    FixedStride,      // an operand lies with other strides than the kernel steps with
    StickBroadcast,   // one element of the stick dimension would have to be repeated
    TooManyTiles,     // more than a launch numbers
  };
  TilingError(Reason reason, std::string field, std::string message, std::string next_step)
      : InvalidArgument(std::move(field), std::move(message), std::move(next_step)), reason_(reason) {}
  Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

// The caller allows no tiled launch, and a tensor has another shape than the compiled one, smaller or larger, or lies
// with other strides (RFC, Launch case 3). field(): "operand B, dimension N"; the message has both values.
class SPYRE_API TiledLaunchNotAllowed : public InvalidArgument {
 public:
  using InvalidArgument::InvalidArgument;
};

// A handle that names no live allocation of this context.
class SPYRE_API InvalidAllocation : public Error {
 public:
  enum class Reason : std::uint8_t {
    Null,           // a zero-byte allocation has no address
    Foreign,        // given out by another allocator, or never
    Released,       // released before: double free or use after free
    LostInReset,    // its region went away with a reset of the function
    SeveralChunks,  // it lies in several regions (AllocationOptions::interleaved), where one address is needed
  };
  InvalidAllocation(Reason reason, ErrorInfo info) : Error(std::move(info)), reason_(reason) {}
  Reason reason() const noexcept { return reason_; }

 private:
  Reason reason_;
};

}  // namespace spyre::inline v0
