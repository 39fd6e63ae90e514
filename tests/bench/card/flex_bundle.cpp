// SPDX-License-Identifier: Apache-2.0
#include "tests/bench/card/flex_bundle.hpp"

#include "host_driver/compiler/compile.hpp"
#include "tests/bench/card/measurement_error.hpp"
#include "tests/support/flex/launches.hpp"

namespace bench {

FlexBundle::FlexBundle(BundleFolder::Content content, const std::vector<std::size_t>& bytes)
    : folder_(content), bytes_(bytes), tensors_(bytes.size()) {
  svp::compiler::compile_directory(folder_.path(), folder_.path());
  flex::initializeRuntime(&runtime_, 0);
  stream_ = runtime_->getDefaultStream();
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    tensors_[i] = runtime_->getAllocator()->allocate(bytes_[i], flex_test::tensor_memory());
    operands_.push_back(&tensors_[i]);
  }
  plan_.emplace(folder_.path() / "spyreCodeDir", *runtime_->getAllocator(), *stream_);
  clear_result();
}

void FlexBundle::fill(std::size_t tensor, double value) {
  stream_->fillAsync(&tensors_[tensor], value, DataFormats::SEN169_FP16, true);
  stream_->synchronize();
}

void FlexBundle::send(std::size_t tensor, const std::vector<std::uint16_t>& codes) {
  require(codes.size() * 2 == bytes_[tensor], "a tensor of another size");
  flex_test::send(*stream_, codes.data(), bytes_[tensor], tensors_[tensor]);
  stream_->synchronize();
}

std::vector<std::uint16_t> FlexBundle::result() {
  std::vector<std::uint16_t> codes(bytes_.back() / 2);
  flex_test::receive(*stream_, codes.data(), bytes_.back(), tensors_.back());
  stream_->synchronize();
  return codes;
}

void FlexBundle::run() {
  plan_->launch(*stream_, operands_, flex_test::PreparedPlan::Addresses::Fast);
  stream_->synchronize();
}

PreparedOperation::PreparedOperation(svp::Context& context, svp::ops::Op op,
                                     const std::vector<svp::SpyreTensor>& inputs,
                                     const std::vector<std::int64_t>& shape, const std::vector<double>& numbers,
                                     const std::vector<std::int64_t>& integers)
    : operations_(context), stream_(context.default_stream()), kept_(inputs) {
  kept_.push_back(context.empty(svp::DataType::Float16, shape));
  const svp::OperationOptions options{.stream = stream_, .out = kept_.back(), .core_mask = 0};
  operations_.run(op, inputs, numbers, integers, options);
  stream_.Synchronize();
  const auto capture = stream_.flex_stream().BeginCapture();
  operations_.run(op, inputs, numbers, integers, options);
  prepared_ = stream_.flex_stream().EndCapture();
}

void PreparedOperation::run() {
  stream_.flex_stream().Launch(*prepared_);
  stream_.Synchronize();
}

}  // namespace bench
