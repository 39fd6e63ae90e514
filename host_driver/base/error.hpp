// SPDX-License-Identifier: Apache-2.0
// The one error of the driver. Inside the driver a failure travels as std::expected<T, ErrorInfo>; the public API
// throws svp::Error (or one of the derived types, where a caller can do something with the numbers). Every error
// says which layer failed, who is to blame, how the unit ended, and what the caller should do next.
#pragma once

#include <cstdint>
#include <expected>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "shared/outcome.hpp"

namespace svp {

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
  wire::Outcome outcome = wire::Outcome::Rejected;
  bool recoverable = true;  // true: the same object works again after next_step; false: start over with a new one
  std::string next_step;    // what the caller should do; an imperative without a full stop
  std::string message;      // what happened, with the numbers; without a full stop
  wire::Status status = wire::Status::None;  // why, in the card's words; None where the card did not say
};

template <typename T>
using Expected = std::expected<T, ErrorInfo>;

// The driver refuses a request before any effect. `source` is the argument, as the caller knows it.
inline ErrorInfo refused_by_driver(std::string source, std::string message, std::string next_step) {
  return {.layer = Layer::Driver,
          .source = std::move(source),
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = std::move(next_step),
          .message = std::move(message)};
}

// One line for people: "<message> (layer memory, source region 3, outcome REJECTED; next: free some tensors)".
inline std::string describe(const ErrorInfo& info) {
  std::string text = info.message;
  text.append(" (layer ").append(name(info.layer));
  if (!info.source.empty()) text.append(", source ").append(info.source);
  text.append(", outcome ").append(wire::name(info.outcome));
  if (!info.next_step.empty()) text.append("; next: ").append(info.next_step);
  if (!info.recoverable) text.append("; not recoverable");
  text.append(")");
  return text;
}

class Error : public std::runtime_error {
 public:
  explicit Error(ErrorInfo info) : std::runtime_error(describe(info)), info_(std::move(info)) {}
  const ErrorInfo& info() const noexcept { return info_; }

 private:
  ErrorInfo info_;
};

// An argument of a public call was refused before any effect. `field` names it as the API spells it.
class InvalidArgument : public Error {
 public:
  InvalidArgument(std::string field, std::string message, std::string next_step)
      : Error(refused_by_driver(std::move(field), std::move(message), std::move(next_step))) {}
  const std::string& field() const noexcept { return info().source; }
};

// Memory is exhausted, or too fragmented for one block of this size (free_bytes >= requested > largest_block).
struct MemoryShortage {
  std::uint64_t requested = 0;      // bytes, rounded to the allocation unit
  std::uint64_t free_bytes = 0;     // free in everything that is held now
  std::uint64_t largest_block = 0;  // largest single allocation that would succeed now
  std::uint64_t total_bytes = 0;    // held now: used + free
  friend bool operator==(const MemoryShortage&, const MemoryShortage&) = default;
};

class OutOfMemory : public Error {
 public:
  // `pool` names what ran out: "tensor memory", "program memory", "pinned host memory".
  OutOfMemory(std::string pool, MemoryShortage shortage, std::string next_step)
      : Error({.layer = Layer::Memory,
               .source = pool,
               .outcome = wire::Outcome::Rejected,
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
    return "out of " + pool + ": requested " + std::to_string(s.requested) + " bytes, free " +
           std::to_string(s.free_bytes) + ", largest block " + std::to_string(s.largest_block) + ", total " +
           std::to_string(s.total_bytes);
  }
  MemoryShortage shortage_;
};

// The value, or svp::Error: where the inside of the driver meets its public API.
template <typename T>
T value_or_throw(Expected<T> result) {
  if (!result) throw Error(std::move(result.error()));
  if constexpr (!std::is_void_v<T>) return *std::move(result);
}

}  // namespace svp
