// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "host_driver/frontend/context.hpp"

namespace bench {

// c = a + b on the card, one stick a row, launched again and again; the result can be held against the golden model.
class AddJob {
 public:
  static constexpr std::int64_t kColumns = 64;  // one stick

  AddJob(svp::Context& card, std::int64_t rows);

  const svp::Job& job() const { return plan_.jobs().front(); }
  std::span<const svp::Argument> arguments() const { return arguments_; }

  // Overwrites the result on the card; returns when that has ended.
  void wipe();
  // Reads the result back and compares every element. Throws MeasurementError.
  void check();

 private:
  svp::Context& card_;
  std::vector<std::uint16_t> expected_;  // as it lies on the card
  svp::PinnedBuffer result_;
  std::array<svp::SpyreTensor, 3> tensors_;
  svp::ExecutionPlan plan_;
  std::array<svp::Argument, 3> arguments_;
};

}  // namespace bench
