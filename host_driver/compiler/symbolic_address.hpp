// SPDX-License-Identifier: Apache-2.0
// An address of a bundle: a base that a launch or the runtime provides, a constant, and a multiple of each loop's
// iteration.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace svp::compiler {

// `factor` bytes for each iteration of a loop; `loop` counts the loops around the statement from the outermost, 0.
struct LoopTerm {
  unsigned loop = 0;
  std::int64_t factor = 0;
  friend bool operator==(const LoopTerm&, const LoopTerm&) = default;
};

struct SymbolicAddress {
  enum class Base : std::uint8_t { None, Argument, Pool };

  Base base = Base::None;       // None: a number
  std::uint32_t argument = 0;   // Base::Argument: the number of the parameter, from 0
  std::int64_t offset = 0;      // bytes
  std::vector<LoopTerm> loops;  // ascending, no factor is 0

  bool is_number() const { return base == Base::None && loops.empty(); }
  friend bool operator==(const SymbolicAddress&, const SymbolicAddress&) = default;
};

// Empty: both have a base, or a number does not fit 64 bits.
std::optional<SymbolicAddress> sum(const SymbolicAddress& a, const SymbolicAddress& b);
std::optional<SymbolicAddress> product(const SymbolicAddress& a, std::int64_t factor);

}  // namespace svp::compiler
