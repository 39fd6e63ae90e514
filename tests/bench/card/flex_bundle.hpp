// SPDX-License-Identifier: Apache-2.0
// A bundle with its tensors, launched through libflex with the calls of torch-spyre's launch_jobplan; and an operation
// of spyre::ops, captured once and launched again and again, to compare it with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/ops/operations.hpp"
#include "tests/bench/card/bench_bundles.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace bench {

class FlexBundle {
 public:
  // `bytes`: of each tensor, all in DL16. The last one is the result.
  FlexBundle(BundleFolder::Content content, const std::vector<std::size_t>& bytes);

  void fill(std::size_t tensor, double value);
  void send(std::size_t tensor, const std::vector<std::uint16_t>& codes);
  std::vector<std::uint16_t> result();  // codes, as they lie on the card
  void clear_result() { fill(tensors_.size() - 1, 0); }
  // Until it has ended.
  void run();

 private:
  BundleFolder folder_;
  std::vector<std::size_t> bytes_;
  std::shared_ptr<flex::RuntimeContext> runtime_;
  flex::RuntimeStream* stream_ = nullptr;
  std::vector<flex::CompositeAddress> tensors_;
  std::vector<const flex::CompositeAddress*> operands_;
  std::optional<flex_test::PreparedPlan> plan_;
};

class PreparedOperation {
 public:
  // Into a tensor of `shape`, in Float16.
  PreparedOperation(svp::Context& context, svp::ops::Op op, const std::vector<svp::SpyreTensor>& inputs,
                    const std::vector<std::int64_t>& shape, const std::vector<double>& numbers,
                    const std::vector<std::int64_t>& integers);
  const svp::SpyreTensor& result() const { return kept_.back(); }
  // Until it has ended.
  void run();

 private:
  svp::Operations operations_;
  svp::SpyreStream stream_;
  std::vector<svp::SpyreTensor> kept_;
  std::shared_ptr<svp::PreparedLaunches> prepared_;
};

}  // namespace bench
