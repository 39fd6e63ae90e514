// SPDX-License-Identifier: Apache-2.0
// P15: an operation as torch-spyre launches it, with the calls of its launch_jobplan (the correction tensor is made by
// a host callback and sent, the computation is launched), until it has ended, against the same of spyre::ops, prepared.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <random>
#include <span>

#include "host_driver/ops/comparison.hpp"
#include "host_driver/ops/reference.hpp"
#include "shared/dl16.hpp"
#include "tests/bench/card/attention_bundle.hpp"
#include "tests/bench/card/flex_bundle.hpp"
#include "tests/bench/card/flex_device.hpp"
#include "tests/bench/card/session.hpp"
#include "tests/bench/card/statistics.hpp"

namespace bench {

namespace {

using svp::ops::Array;
using svp::ops::Op;

// ---- additions and softmax of [64,128], whose result is one number --------------------------------------------------

constexpr std::size_t kElements = std::size_t{64} * 128;
constexpr unsigned kLaunches = 2000;

// A bundle of two inputs at most. They hold 1 and 2.
class UniformBundle {
 public:
  UniformBundle(BundleFolder::Content content, std::size_t inputs, double expected)
      : bundle_(content, std::vector<std::size_t>(inputs + 1, kElements * 2)), expected_(expected) {
    for (std::size_t i = 0; i < inputs; ++i) bundle_.fill(i, static_cast<double>(i + 1));
  }
  void run() { bundle_.run(); }
  void check() {
    const wire::Dl16 code = wire::dl16_from_fp64(expected_);
    require(std::ranges::all_of(bundle_.result(), [&](std::uint16_t each) { return each == code; }),
            "another result by libflex");
    bundle_.clear_result();
  }

 private:
  FlexBundle bundle_;
  double expected_;
};

PreparedOperation uniform_operation(svp::Context& context, Op op, std::size_t inputs,
                                    const std::vector<std::int64_t>& integers) {
  std::vector<svp::SpyreTensor> tensors;
  tensors.reserve(inputs);
  for (std::size_t i = 0; i < inputs; ++i) tensors.push_back(context.empty(svp::DataType::Float16, {64, 128}));
  return {context, op, tensors, {64, 128}, {}, integers};
}

// ---- attention ------------------------------------------------------------------------------------------------------

constexpr unsigned kAttentionLaunches = 5;
constexpr double kRootOfScale = 0.5;  // so that a product with it is exact

// Causal, of the same numbers both ways.
class Attentions {
 public:
  explicit Attentions(svp::Context& context)
      : context_(context), bundle_(BundleFolder::Content::Attention, attention_bytes()) {
    std::mt19937_64 random(20261127);
    std::uniform_real_distribution<double> uniform(-1, 1);
    std::vector<svp::SpyreTensor> tensors;
    for (Array& input : inputs_) {
      input = Array::of({kAttentionBatch, kAttentionHeads, kAttentionRows, kAttentionWidth});
      for (double& value : input.data) value = std::round(uniform(random) * 256) / 256;  // what DL16 holds
      tensors.push_back(context.empty(svp::DataType::Float16, input.size));
      store(input, tensors.back());
    }
    send_inputs();
    const std::vector<double> scale{kRootOfScale * kRootOfScale};
    const std::vector<std::int64_t> causal{1};
    operation_.emplace(context, Op::Attention, tensors, inputs_[0].size, scale, causal);
    exact_ = svp::ops::reference(Op::Attention, inputs_, scale, causal).front();
  }
  FlexBundle& bundle() { return bundle_; }
  PreparedOperation& operation() { return *operation_; }

  // Each element of both results, against the exact one within the bound of docs/operations.md.
  void check() {
    check(from_bundle(), "attention by libflex: ");
    check(from_operation(), "spyre::ops::attention: ");
    bundle_.clear_result();
    store(Array::of(exact_.size), operation_->result());
  }

 private:
  void store(const Array& array, const svp::SpyreTensor& tensor) {
    const std::vector<float> values(array.data.begin(), array.data.end());
    context_.copy(tensor,
                  {svp::HostShape::contiguous(svp::DataType::Float32, array.size), std::as_bytes(std::span(values))},
                  context_.default_stream());
    context_.default_stream().Synchronize();
  }

  void send_inputs() {
    const double infinity = std::numeric_limits<double>::infinity();
    const std::vector<std::size_t> places = attention_places(), of_mask = attention_mask_places();
    bundle_.fill(0, 0);
    bundle_.fill(1, -infinity);
    bundle_.fill(3, kRootOfScale);
    for (const auto& [input, argument] : {std::pair{0, 2}, {1, 4}, {2, 6}}) {
      std::vector<std::uint16_t> codes(places.size());
      for (std::size_t i = 0; i < codes.size(); ++i) codes[places[i]] = wire::dl16_from_fp64(inputs_[input].data[i]);
      bundle_.send(static_cast<std::size_t>(argument), codes);
    }
    std::vector<std::uint16_t> mask(of_mask.size());
    for (std::size_t i = 0; i < mask.size(); ++i) {
      const bool hidden = i % kAttentionRows > i / kAttentionRows;
      mask[of_mask[i]] = wire::dl16_from_fp64(hidden ? -infinity : 0);
    }
    bundle_.send(5, mask);
  }

  Array from_bundle() {
    const std::vector<std::uint16_t> codes = bundle_.result();
    const std::vector<std::size_t> places = attention_places();
    Array array = Array::of(inputs_[0].size);
    for (std::size_t i = 0; i < places.size(); ++i) array.data[i] = wire::fp32_from_dl16(codes[places[i]]);
    return array;
  }
  Array from_operation() {
    Array array = Array::of(inputs_[0].size);
    std::vector<float> values(array.data.size());
    (void)context_.copy(
        {svp::HostShape::contiguous(svp::DataType::Float32, array.size), std::as_writable_bytes(std::span(values))},
        operation_->result(), context_.default_stream());
    context_.default_stream().Synchronize();
    std::ranges::copy(values, array.data.begin());
    return array;
  }
  void check(const Array& got, const char* whose) const {
    const svp::ops::Judgement judgement = svp::ops::judge(
        got, exact_, svp::DeviceType::Dl16, bound_of(svp::ops::info_of(Op::Attention), svp::DeviceType::Dl16));
    require(judgement.within(), whose + svp::ops::describe(judgement.beyond));
  }

  svp::Context& context_;
  FlexBundle bundle_;
  std::vector<Array> inputs_{3};
  Array exact_;
  std::optional<PreparedOperation> operation_;
};

// ---- rows -----------------------------------------------------------------------------------------------------------

double time_of(unsigned launches, auto& operation) {
  const auto start = Clock::now();
  for (unsigned i = 0; i < launches; ++i) operation.run();
  return ns_since(start) / launches;
}

void compare(Session& session, Row row, unsigned launches, auto& flex, PreparedOperation& ours, const auto& check) {
  time_of(std::max(launches / 10, 1u), flex);
  check();
  for (unsigned round = 0; round < session.options().rounds; ++round) {
    const double by_flex = time_of(launches, flex);
    row.add(by_flex, time_of(launches, ours));
    check();
    flex.run();
  }
  session.add(std::move(row));
}

}  // namespace

void measure_flex_operations(Session& session) {
  share_with_flex(&session.card());
  {
    UniformBundle flex(BundleFolder::Content::Add, 2, 3);
    PreparedOperation ours = uniform_operation(session.card(), Op::Add, 2, {});
    compare(session,
            {.id = "P15",
             .what = "add of [64,128] by libflex (torch-spyre's calls), launch to completion",
             .limit = "spyre::ops::add, prepared",
             .goal = at_most(1.3),
             .checked = "every element of libflex's result"},
            session.amount(kLaunches), flex, ours, [&] { flex.check(); });
  }
  {
    UniformBundle flex(BundleFolder::Content::Softmax, 1, 1.0 / 128);
    PreparedOperation ours = uniform_operation(session.card(), Op::Softmax, 1, {-1});
    compare(session,
            {.id = "P15",
             .what = "softmax of [64,128] by libflex, bundle of five operations",
             .limit = "spyre::ops::softmax, prepared",
             .goal = at_most(1.5),
             .checked = "every element of libflex's result"},
            session.amount(kLaunches), flex, ours, [&] { flex.check(); });
  }
  Attentions attentions(session.card());
  compare(session,
          {.id = "P15",
           .what = "causal attention of [2,8,128,64] by libflex, bundle of 29 operations",
           .limit = "spyre::ops::attention, prepared",
           .goal = at_most(1.5),
           .checked = "every element of both results, in double precision"},
          session.amount(kAttentionLaunches), attentions.bundle(), attentions.operation(), [&] { attentions.check(); });
}

}  // namespace bench
