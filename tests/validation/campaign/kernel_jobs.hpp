// SPDX-License-Identifier: Apache-2.0
// Launches of kernels that have symbols, a tenant with all kinds of work under way, and the end of work by a reset.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "shared/kernel_abi.hpp"
#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

// Longer than any scenario: a kernel with this budget is never the watchdog's.
inline constexpr std::uint64_t kManySlices = 1'000'000;

using test::address_symbol;
using test::dimension_symbol;

// Puts the kernel's image at `at` of the block builder's Program region, and behind it the correction with these
// symbols (none: no correction). The block that launches it. Throws svp::Error.
wire::ControlBlock load_kernel(const BlockBuilder& builder, TestStream& stream, const Card& card, std::string_view name,
                               std::uint64_t at, std::span<const wire::CorrectionSymbol> symbols = {},
                               std::uint64_t core_mask = 1);

// Somebody else has reset the device's function. True: the driver has been told of it, and each block of the test
// stream has ended.
bool told_of_reset(ScenarioContext& context, Device& device, const TestStream& stream);

// A tenant of which everything is under way at a time: a kernel that waits for its gate, a transfer of its result
// queued behind it, memory with a pattern, and short jobs beside (transfers and a kernel) whose data is compared. By
// one thread.
class BusyTenant {
 public:
  // Returns when the kernel runs. Throws svp::Error.
  BusyTenant(ScenarioContext& context, std::unique_ptr<Device> device);

  // Short jobs: one submits, the other waits for them. Empty: each ended OK, and the data is right.
  void start_jobs();
  std::string finish_jobs();
  // Whether the kernel and what is queued behind it are as the constructor left them: nothing of it has ended.
  bool waits_at_gate() const { return gated_.ended() == 0; }
  // Opens the gate. Empty: the kernel and the transfer behind it ended OK, and the result is right.
  std::string open_gate();
  // Empty: the memory with the pattern is whole.
  std::string check_memory();
  Device& device() { return *device_; }

 private:
  std::string ended_well(const TestStream& stream, std::size_t from) const;

  ScenarioContext& context_;
  std::unique_ptr<Device> device_;
  BlockBuilder builder_;
  TestStream jobs_;   // what loads, and the short jobs
  TestStream gated_;  // the kernel at its gate, and what is queued behind it
  Region memory_;
  wire::ControlBlock short_kernel_{};
  std::size_t first_job_ = 0;
};

}  // namespace svp::campaign
