// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The DMA engine of the array: what the firmware has moved (shared/array_moves.hpp).
#pragma once

#include <cstddef>
#include <cstdint>

#include "qemu/array/card_memory.hpp"
#include "qemu/array/windows.hpp"
#include "shared/array_moves.hpp"

namespace svp::array {

class DmaEngine {
 public:
  // At a greeting: the card's memory, and where that of regions begins. There are no windows.
  void begin(const CardMemory& memory, std::uint64_t regions_begin);

  // `mixed`: a move of bytes is refused.
  void serve(wire::array::Move& move, bool mixed);

 private:
  wire::array::MoveOutcome carry_out(wire::array::Move& move);
  bool copy(const wire::array::Move& move) const;
  bool fill(const wire::array::Move& move) const;
  bool sum(wire::array::Move& move) const;
  bool copy_elements(const wire::array::Move& move) const;
  bool choose_nonce(wire::array::Move& move);
  bool show(const wire::array::Move& move);

  // Null when not all of the range may be read, or written.
  const std::byte* source(std::uint64_t address, std::uint64_t bytes) const;
  std::byte* target(std::uint64_t address, std::uint64_t bytes) const;

  CardMemory memory_{};
  std::uint64_t regions_begin_ = 0;
  std::uint64_t nonce_ = 0;  // 0: none has been chosen
  Windows windows_;
};

}  // namespace svp::array
