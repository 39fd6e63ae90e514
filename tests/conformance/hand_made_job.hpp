// SPDX-License-Identifier: Apache-2.0
// A job whose kernel is told what no compiler would tell it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "shared/kernel_abi.hpp"

namespace svp::test {

// The values of the kernel's symbols, from symbol `first` on, are these. The job is loaded.
inline Job job_with_symbols(Context& context, const char* kernel_name, std::size_t first,
                            std::vector<std::uint64_t> values) {
  const auto kernel = context.kernel(kernel_name);
  const HostFunction write = [first, values = std::move(values)](const HostOperationInput& input,
                                                                 std::span<std::byte> correction) {
    const std::size_t bytes = build_correction(input, correction);
    for (std::size_t i = 0; i < values.size(); ++i) {
      std::memcpy(correction.data() + sizeof(wire::CorrectionHeader) + (first + i) * sizeof(wire::CorrectionSymbol) +
                      offsetof(wire::CorrectionSymbol, value),
                  &values[i], sizeof values[i]);
    }
    return bytes;
  };
  const DeviceCompute compute{.expected_input_shapes = {{1, 64}}};
  Job job(kernel, ProgramCorrectionMetadata::of(*kernel), JobPlan({HostOperation{write}, CorrectionDMA{}, compute}));
  ExecutionPlan plan({job});
  context.load(plan);
  return plan.jobs()[0];
}

}  // namespace svp::test
