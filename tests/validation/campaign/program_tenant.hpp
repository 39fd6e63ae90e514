// SPDX-License-Identifier: Apache-2.0
// Tenants that launch a device program with loops, long enough to meet a fault in its middle, on several streams.
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

// A program of a tenant: with many iterations, and with one, of which the result is the same.
struct TenantProgram {
  std::vector<std::byte> bytes;
  std::vector<std::byte> once;
};

// operation  0 begin of the loop
//            1   begin of a loop of one iteration
//            2     Add: first and second argument to the pool
//            3     Neg: rows become columns of sticks, so a core reads what another one has written
//            4   end of it
//            5   Sub: that and the second argument to the third
//            6 end of the loop
// Each iteration writes what the one before it has written: the golden model needs one.
namespace loop_program {
inline constexpr std::uint32_t kInnerLoop = 1, kAdd = 2, kNeg = 3, kSub = 5, kEnd = 7;
// Of the operation's number: what messages call its source.
constexpr std::uint32_t line_of(std::uint32_t number) { return 100 + number; }
// "operation 2 (Add) (line 102 of its source)". Also of lone_program, whose first six operations are called the same.
std::string text_of(std::uint32_t number);
TenantProgram make(std::uint32_t iterations);
}  // namespace loop_program

// For two cores. What is small is executed by core 0 alone; core 1 comes to the barriers of the operation that both
// share.
//
// operation  0 begin of the loop
//            1   begin of a loop of one iteration
//            2     Add: first and second argument to the pool, on core 0
//            3     Neg: to another part of the pool, on core 0
//            4   end of it
//            5   Sub: that and the second argument to the third, on core 0
//            6   Neg: the first argument to another part of the pool, on all cores
//            7 end of the loop
//
// Core 0 begins a slice behind the barrier behind operation 6, in each iteration but the last: a fault that fires at
// operation 6 comes before operation 2 as often as there are iterations but one, however many slices there are.
namespace lone_program {
inline constexpr std::uint32_t kInnerLoop = 1, kAdd = 2, kNeg = 3, kShared = 6, kEnd = 8;
TenantProgram make(std::uint32_t iterations);
}  // namespace lone_program

// operation  0 Add: first and second argument to the workspace
//            1 begin of the loop
//            2   Neg: the first argument to another part of the pool, on all cores
//            3 end of it
//            4 Copy: from the workspace to the third argument
namespace workspace_program {
inline constexpr std::uint32_t kBetween = 2;  // while it is executed, all cores have written, and none has read
// Which operand of the launch the sum begins: behind the program and its arguments the pool, then the scratchpads.
constexpr std::uint16_t sum_segment(wire::program::Base base) { return base == wire::program::Base::Pool ? 4 : 5; }
TenantProgram make(wire::program::Base base, std::uint32_t iterations);
}  // namespace workspace_program

class ProgramTenant {
 public:
  static constexpr std::size_t kStreams = 4;

  // Throws svp::Error.
  ProgramTenant(ScenarioContext& context, unsigned function, const TenantProgram& program, std::mt19937_64& random);

  // Brings the arguments to the card and launches. Does not wait. Without a budget the card's own.
  void start(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices = 0);
  LaunchEnd wait(std::size_t stream);
  LaunchEnd launch(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices = 0);
  // Launches until the fault has fired or something else than the watchdog has ended the launch: with a larger budget
  // each time, because on a busy machine a core may use up its slices before it has come to the fault. The stream is
  // reset between two launches, and the fault goes on counting.
  LaunchEnd launch_until_fired(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices,
                               ScenarioContext::Fault fault);
  // Whether a launch on it would begin.
  bool usable(std::size_t stream) const { return !streams_[stream]->error() && streams_[stream]->Query(); }
  void reset(std::size_t stream) { streams_[stream]->Reset(); }
  // The result of a launch that ended OK.
  ops::Comparison compare(std::size_t stream);
  // What compare() finds when the bit of the result is inverted, and nothing else is wrong.
  ops::Comparison with_inverted_bit(std::uint64_t bit) const;
  // Empty: the result has this bit inverted, and each other bit of the arguments is the golden model's.
  std::string difference_besides(std::size_t stream, std::uint64_t bit);
  std::uint64_t result_bits() const { return golden_[kResult].size() * 8; }
  // Empty: a launch that ends OK, and each byte of its arguments is the golden model's.
  std::string wrong(std::size_t stream, std::uint64_t cores, std::uint64_t budget_slices = 0);

 private:
  using Bytes = std::vector<std::byte>;
  static constexpr std::size_t kArguments = 3, kResult = 2;

  Bytes from_card(std::size_t stream, std::size_t argument);
  std::string difference(std::size_t stream, const std::array<Bytes, kArguments>& expected);

  ScenarioContext& context_;
  std::unique_ptr<svp::Context> program_;
  ExecutionPlan plan_;
  std::array<Bytes, kArguments> before_;  // each launch
  std::array<Bytes, kArguments> golden_;  // after it
  std::array<FlexStream*, kStreams> streams_{};
  std::array<std::array<AllocationIndex, kArguments>, kStreams> memory_{};
};

}  // namespace svp::campaign
