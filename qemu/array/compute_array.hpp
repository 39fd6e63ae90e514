// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
// The compute array of one card, between the emulator's plugin interface (plugin.cpp) and the arithmetic.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "qemu/array/card_memory.hpp"
#include "qemu/array/dma_engine.hpp"
#include "shared/array.hpp"

namespace svp::array {

class ComputeArray {
 public:
  // `mixed_seed`: it refuses every second request, on average, so that tests see operations that either side executes a
  // part of. The seed says which ones.
  explicit ComputeArray(std::optional<std::uint64_t> mixed_seed = std::nullopt) : mixed_seed_(mixed_seed) {}

  // The firmware's greeting: the instruction of the physical address `instruction` lies at `code` in the emulator's
  // memory. Answers in the firmware's block. A second greeting (a warm reset) replaces the first; no hart works then.
  void greet(unsigned hart, std::uint64_t instruction, std::byte* code);

  // The request of the context that `hart` runs in U-mode. Answers in the request.
  void work(unsigned hart) const;

  // The move that the firmware has written, when this is the hart that has greeted.
  void move(unsigned hart);

 private:
  bool mixed(unsigned hart) const;  // whether this request is refused for that

  CardMemory memory_{};
  DmaEngine dma_{};
  wire::array::Hello hello_{};
  unsigned harts_ = 0;  // 0: nobody has greeted yet
  unsigned greeted_by_ = 0;
  std::optional<std::uint64_t> mixed_seed_;
};

}  // namespace svp::array
