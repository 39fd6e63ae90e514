// SPDX-License-Identifier: Apache-2.0
// A tenant that launches a device program with loops, long enough to meet a fault in its middle, on several streams.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "shared/device_program.hpp"
#include "tests/validation/campaign/engine_tenant.hpp"

namespace svp::campaign {

// operation  0 begin of the loop
//            1   begin of a loop of one iteration
//            2     Add: first and second argument to the pool
//            3     Copy: rows become columns of sticks, so a core reads what another one has written
//            4   end of it
//            5   Sub: that and the second argument to the third
//            6 end of the loop
// Each iteration writes what the one before it has written: the golden model needs one.
namespace loop_program {
inline constexpr std::uint32_t kInnerLoop = 1, kAdd = 2, kCopy = 3, kSub = 5, kEnd = 7;
// Of the operation's number: what messages call its source.
constexpr std::uint32_t line_of(std::uint32_t number) { return 100 + number; }
// "operation 2 (Add) (line 102 of its source)".
std::string text_of(std::uint32_t number);
}  // namespace loop_program

class ProgramTenant {
 public:
  static constexpr std::size_t kStreams = 8;

  // Throws svp::Error.
  ProgramTenant(ScenarioContext& context, unsigned function, std::uint32_t iterations, std::mt19937_64& random);

  // Brings the arguments to the card and launches. Does not wait. Without a budget the card's own.
  void start(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices = 0);
  LaunchEnd wait(std::size_t stream);
  LaunchEnd launch(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices = 0);
  // Whether a launch on it would begin.
  bool usable(std::size_t stream) const { return !streams_[stream]->error() && streams_[stream]->Query(); }
  void reset(std::size_t stream) { streams_[stream]->Reset(); }
  // The result of a launch that ended OK.
  ops::Comparison compare(std::size_t stream);
  // Empty: a launch that ends OK, and each byte of its arguments is the golden model's.
  std::string wrong(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices = 0);

 private:
  using Bytes = std::vector<std::byte>;
  static constexpr std::size_t kArguments = 3, kResult = 2;

  Bytes from_card(std::size_t stream, std::size_t argument);
  std::string difference(std::size_t stream);

  ScenarioContext& context_;
  std::unique_ptr<svp::Context> program_;
  ExecutionPlan plan_;
  std::array<Bytes, kArguments> before_;  // each launch
  std::array<Bytes, kArguments> golden_;  // after it
  std::array<FlexStream*, kStreams> streams_{};
  std::array<std::array<AllocationIndex, kArguments>, kStreams> memory_{};
};

}  // namespace svp::campaign
