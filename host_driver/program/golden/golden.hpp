// SPDX-License-Identifier: Apache-2.0
// The golden model of device programs (shared/device_program.hpp): what the engine must compute, for every byte of
// every argument. It interprets a program element by element, by the address formula; it is written to be read, and
// slow. It shares no code with the engine. Meanings and roundings: docs/numerics.md.
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "host_driver/base/error.hpp"
#include "shared/device_program.hpp"

namespace svp::program::golden {

// The program breaks a rule of the format, or an index led outside of its argument while it ran.
class Refused : public InvalidArgument {
 public:
  explicit Refused(wire::program::Refusal refusal);
  const wire::program::Refusal& refusal() const noexcept { return refusal_; }

 private:
  wire::program::Refusal refusal_;
};

// In which order the elements of an operation are computed. The result is the same: that is what the checker's rules
// for operands in one place are for. Tests compare the two. (Scatter is defined by its order, which stays.)
enum class Order { Ascending, Descending };

// The scratchpads of a function: what programs leave there for the next one. Zeros at first, as after a reset.
class Scratchpads {
 public:
  // The first `bytes` of a slice, at most wire::program::kMaxSliceScratchpadBytes.
  std::span<std::byte> of(unsigned slice, std::size_t bytes);

 private:
  std::array<std::vector<std::byte>, wire::program::kMaxSlices> slice_;
};

// Arguments have at least the bytes that the program names, and do not overlap. The workspace is made here and filled
// with a pattern; without `scratchpads` so are they. Throws Refused; InvalidArgument when arguments are missing or too
// small. After a throw the contents of arguments that may be written, and of scratchpads, are undefined. Any thread.
void run(std::span<const std::byte> program, std::span<const std::span<std::byte>> arguments,
         Order order = Order::Ascending, Scratchpads* scratchpads = nullptr);

}  // namespace svp::program::golden
