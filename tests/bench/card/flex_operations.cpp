// SPDX-License-Identifier: Apache-2.0
// P15: an operation as torch-spyre launches it, with the calls of its launch_jobplan (the correction tensor is made by
// a host callback and sent, the computation is launched), until it has ended, against the same of spyre::ops, prepared.
#include <algorithm>
#include <cmath>

#include "host_driver/compiler/compile.hpp"
#include "host_driver/ops/operations.hpp"
#include "tests/bench/card/bench_bundles.hpp"
#include "tests/bench/card/flex_device.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"
#include "tests/support/flex/launches.hpp"
#include "tests/support/flex/prepared_plan.hpp"

namespace bench {

namespace {

using svp::ops::Op;

constexpr std::size_t kElements = std::size_t{64} * 128;
constexpr unsigned kLaunches = 2000;

// A bundle of two inputs at most, through libflex. Its inputs hold 1 and 2.
class FlexOperation {
 public:
  FlexOperation(BundleFolder::Content content, unsigned arguments) : folder_(content), tensors_(arguments) {
    svp::compiler::compile_directory(folder_.path(), folder_.path());
    flex::initializeRuntime(&runtime_, 0);
    stream_ = runtime_->getDefaultStream();
    for (std::size_t i = 0; i < tensors_.size(); ++i) {
      tensors_[i] = runtime_->getAllocator()->allocate(kElements * 2, flex_test::tensor_memory());
      stream_->fillAsync(&tensors_[i], i + 1 == tensors_.size() ? 0 : static_cast<double>(i + 1),
                         DataFormats::SEN169_FP16, true);
      operands_.push_back(&tensors_[i]);
    }
    stream_->synchronize();
    plan_.emplace(folder_.path() / "spyreCodeDir", *runtime_->getAllocator(), *stream_);
  }

  void run() {
    plan_->launch(*stream_, operands_, flex_test::PreparedPlan::Addresses::Fast);
    stream_->synchronize();
  }
  void check(double expected) {
    std::vector<std::uint16_t> result(kElements);
    flex_test::receive(*stream_, result.data(), result.size() * 2, tensors_.back());
    stream_->synchronize();
    const auto code = static_cast<std::uint16_t>(deeptools::FloatToFp16Bin(static_cast<float>(expected)));
    require(std::ranges::all_of(result, [&](std::uint16_t each) { return each == code; }), "another result by libflex");
    stream_->fillAsync(&tensors_.back(), 0, DataFormats::SEN169_FP16, true);
    stream_->synchronize();
  }

 private:
  BundleFolder folder_;
  std::shared_ptr<flex::RuntimeContext> runtime_;
  flex::RuntimeStream* stream_ = nullptr;
  std::vector<flex::CompositeAddress> tensors_;
  std::vector<const flex::CompositeAddress*> operands_;
  std::optional<flex_test::PreparedPlan> plan_;
};

// The operation of spyre::ops on tensors of the same form, captured once.
class PreparedOperation {
 public:
  PreparedOperation(svp::Context& context, Op op, std::size_t inputs, std::vector<std::int64_t> integers)
      : operations_(context), stream_(context.default_stream()) {
    std::vector<svp::SpyreTensor> tensors;
    tensors.reserve(inputs + 1);
    for (std::size_t i = 0; i < inputs; ++i) tensors.push_back(context.empty(svp::DataType::Float16, {64, 128}));
    const svp::OperationOptions options{
        .stream = stream_, .out = context.empty(svp::DataType::Float16, {64, 128}), .core_mask = 0};
    operations_.run(op, tensors, {}, integers, options);
    stream_.Synchronize();
    const auto capture = stream_.flex_stream().BeginCapture();
    operations_.run(op, tensors, {}, integers, options);
    prepared_ = stream_.flex_stream().EndCapture();
    kept_ = std::move(tensors);
    kept_.push_back(*options.out);
  }
  void run() {
    stream_.flex_stream().Launch(*prepared_);
    stream_.Synchronize();
  }

 private:
  svp::Operations operations_;
  svp::SpyreStream stream_;
  std::vector<svp::SpyreTensor> kept_;
  std::shared_ptr<svp::PreparedLaunches> prepared_;
};

double time_of(unsigned launches, auto& operation) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < launches; ++i) operation.run();
  return ns_since(start) / launches;
}

void compare(Session& session, Row row, FlexOperation& flex, PreparedOperation& ours, double expected) {
  const unsigned launches = session.amount(kLaunches);
  time_of(launches / 10, flex);
  flex.check(expected);
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double by_flex = time_of(launches, flex);
    row.add(by_flex, time_of(launches, ours));
    flex.check(expected);
    flex.run();
  }
  session.add(std::move(row));
}

}  // namespace

void measure_flex_operations(Session& session) {
  share_with_flex(&session.card());
  {
    FlexOperation flex(BundleFolder::Content::Add, 3);
    PreparedOperation ours(session.card(), Op::Add, 2, {});
    compare(session,
            {.id = "P15",
             .what = "add of [64,128] by libflex (torch-spyre's calls), launch to completion",
             .limit = "spyre::ops::add, prepared",
             .goal = at_most(1.3),
             .checked = "every element of libflex's result"},
            flex, ours, 3);
  }
  FlexOperation flex(BundleFolder::Content::Softmax, 2);
  PreparedOperation ours(session.card(), Op::Softmax, 1, {-1});
  compare(session,
          {.id = "P15",
           .what = "softmax of [64,128] by libflex, bundle of five operations",
           .limit = "spyre::ops::softmax, prepared",
           .goal = at_most(1.5),
           .checked = "every element of libflex's result"},
          flex, ours, 1.0 / 128);
}

}  // namespace bench
