// SPDX-License-Identifier: Apache-2.0
// A tensor, or an allocation, from before a reset of its function is InvalidAllocation, LostInReset, for every function
// of the interface that is given one. The rows of the tables begin with the function's name, one row for each overload
// (a row with '+' is a further use of the one before); tests/unit/host_driver/api/tensor_functions_test.cpp compares
// them with the declarations of include/spyre.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <spyre/program.hpp>
#include <spyre/spyre.hpp>
#include <string>
#include <vector>

#include "host_driver/api/c_handles.hpp"
#include "tests/device/api/api_card.hpp"

namespace {

using spyre::DataType;
using spyre::DeviceType;
using spyre::HostShape;
using spyre::SpyreTensor;
namespace ops = spyre::ops;
using C = spyre::Context&;
using T = const std::vector<SpyreTensor>&;
using O = const ops::Options&;

struct Use {
  const char* function;
  std::function<void()> call;
};

// A letter of `operands` is a tensor: see shape_of().
struct Operation {
  const char* function;
  std::string operands;
  std::function<SpyreTensor(C, T, O)> run;
  bool takes_out = true;
};

struct TensorKind {
  DataType type = DataType::Float16;
  std::vector<std::int64_t> shape{};
};
const TensorKind& kind_of(char letter) {
  static const std::map<char, TensorKind> kKinds{
      {'x', {.shape = {64, 64}}},                          // a matrix
      {'w', {.shape = {64}}},                              // a row of it
      {'b', {.type = DataType::Bool, .shape = {64, 64}}},  // a condition
      {'i', {.type = DataType::Int64, .shape = {4}}},      // positions in a table
      {'r', {.shape = {4, 64}}},                           // rows for them
      {'q', {.shape = {1, 1, 16, 64}}},                    // of an attention
      {'g', {.shape = {1, 2, 8, 8}}},                      // an image
      {'f', {.shape = {2, 2, 3, 3}}},                      // a filter over it
      {'v', {.shape = {2}}},                               // its bias
  };
  return kKinds.at(letter);
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> kOperations{
      {"ops::run", "xx", [](C c, T t, O o) { return ops::run(c, "add", t, {}, {}, o).front(); }},
      {"ops::copy", "x", [](C c, T t, O o) { return ops::copy(c, t[0], o); }},
      {"ops::add", "xx", [](C c, T t, O o) { return ops::add(c, t[0], t[1], o); }},
      {"ops::add", "x", [](C c, T t, O o) { return ops::add(c, t[0], 2.0, o); }},
      {"ops::sub", "xx", [](C c, T t, O o) { return ops::sub(c, t[0], t[1], o); }},
      {"ops::sub", "x", [](C c, T t, O o) { return ops::sub(c, t[0], 2.0, o); }},
      {"ops::mul", "xx", [](C c, T t, O o) { return ops::mul(c, t[0], t[1], o); }},
      {"ops::mul", "x", [](C c, T t, O o) { return ops::mul(c, t[0], 2.0, o); }},
      {"ops::div", "xx", [](C c, T t, O o) { return ops::div(c, t[0], t[1], o); }},
      {"ops::div", "x", [](C c, T t, O o) { return ops::div(c, t[0], 2.0, o); }},
      {"ops::maximum", "xx", [](C c, T t, O o) { return ops::maximum(c, t[0], t[1], o); }},
      {"ops::minimum", "xx", [](C c, T t, O o) { return ops::minimum(c, t[0], t[1], o); }},
      {"ops::equal", "xx", [](C c, T t, O o) { return ops::equal(c, t[0], t[1], o); }},
      {"ops::not_equal", "xx", [](C c, T t, O o) { return ops::not_equal(c, t[0], t[1], o); }},
      {"ops::greater", "xx", [](C c, T t, O o) { return ops::greater(c, t[0], t[1], o); }},
      {"ops::greater_equal", "xx", [](C c, T t, O o) { return ops::greater_equal(c, t[0], t[1], o); }},
      {"ops::less", "xx", [](C c, T t, O o) { return ops::less(c, t[0], t[1], o); }},
      {"ops::less_equal", "xx", [](C c, T t, O o) { return ops::less_equal(c, t[0], t[1], o); }},
      {"ops::where", "bxx", [](C c, T t, O o) { return ops::where(c, t[0], t[1], t[2], o); }},
      {"ops::abs", "x", [](C c, T t, O o) { return ops::abs(c, t[0], o); }},
      {"ops::neg", "x", [](C c, T t, O o) { return ops::neg(c, t[0], o); }},
      {"ops::relu", "x", [](C c, T t, O o) { return ops::relu(c, t[0], o); }},
      {"ops::clip", "x", [](C c, T t, O o) { return ops::clip(c, t[0], 0, 1, o); }},
      {"ops::floor", "x", [](C c, T t, O o) { return ops::floor(c, t[0], o); }},
      {"ops::exp", "x", [](C c, T t, O o) { return ops::exp(c, t[0], o); }},
      {"ops::log", "x", [](C c, T t, O o) { return ops::log(c, t[0], o); }},
      {"ops::sqrt", "x", [](C c, T t, O o) { return ops::sqrt(c, t[0], o); }},
      {"ops::rsqrt", "x", [](C c, T t, O o) { return ops::rsqrt(c, t[0], o); }},
      {"ops::reciprocal", "x", [](C c, T t, O o) { return ops::reciprocal(c, t[0], o); }},
      {"ops::sigmoid", "x", [](C c, T t, O o) { return ops::sigmoid(c, t[0], o); }},
      {"ops::tanh", "x", [](C c, T t, O o) { return ops::tanh(c, t[0], o); }},
      {"ops::silu", "x", [](C c, T t, O o) { return ops::silu(c, t[0], o); }},
      {"ops::gelu", "x", [](C c, T t, O o) { return ops::gelu(c, t[0], o); }},
      {"ops::softplus", "x", [](C c, T t, O o) { return ops::softplus(c, t[0], 1, 20, o); }},
      {"ops::sum", "x", [](C c, T t, O o) { return ops::sum(c, t[0], {1}, false, o); }},
      {"ops::mean", "x", [](C c, T t, O o) { return ops::mean(c, t[0], {1}, false, o); }},
      {"ops::max", "x", [](C c, T t, O o) { return ops::max(c, t[0], {1}, false, o); }},
      {"ops::min", "x", [](C c, T t, O o) { return ops::min(c, t[0], {1}, false, o); }},
      {"ops::prod", "x", [](C c, T t, O o) { return ops::prod(c, t[0], {1}, false, o); }},
      {"ops::topk", "x", [](C c, T t, O o) { return ops::topk(c, t[0], 2, -1, o).values; }, false},
      {"ops::matmul", "xx", [](C c, T t, O o) { return ops::matmul(c, t[0], t[1], o); }},
      {"ops::linear", "xx", [](C c, T t, O o) { return ops::linear(c, t[0], t[1], o); }},
      {"ops::linear", "xxw", [](C c, T t, O o) { return ops::linear(c, t[0], t[1], t[2], o); }},
      {"ops::linear_fp8", "xx", [](C c, T t, O o) { return ops::linear_fp8(c, t[0], t[1], {}, o); }},
      {"ops::linear_fp8", "xxw", [](C c, T t, O o) { return ops::linear_fp8(c, t[0], t[1], t[2], {}, o); }},
      {"ops::attention", "qqq", [](C c, T t, O o) { return ops::attention(c, t[0], t[1], t[2], false, 0, o); }},
      {"ops::softmax", "x", [](C c, T t, O o) { return ops::softmax(c, t[0], -1, o); }},
      {"ops::layer_norm", "x", [](C c, T t, O o) { return ops::layer_norm(c, t[0], 1e-5, o); }},
      {"ops::layer_norm", "xww", [](C c, T t, O o) { return ops::layer_norm(c, t[0], t[1], t[2], 1e-5, o); }},
      {"ops::rms_norm", "x", [](C c, T t, O o) { return ops::rms_norm(c, t[0], 1e-5, o); }},
      {"ops::rms_norm", "xw", [](C c, T t, O o) { return ops::rms_norm(c, t[0], t[1], 1e-5, o); }},
      {"ops::embedding", "xi", [](C c, T t, O o) { return ops::embedding(c, t[0], t[1], o); }},
      {"ops::index_copy", "xir", [](C c, T t, O o) { return ops::index_copy(c, t[0], t[1], t[2], o); }, false},
      {"ops::cat", "xx", [](C c, T t, O o) { return ops::cat(c, t, 0, o); }},
      {"ops::avg_pool2d", "g", [](C c, T t, O o) { return ops::avg_pool2d(c, t[0], 2, {}, o); }},
      {"ops::max_pool2d", "g", [](C c, T t, O o) { return ops::max_pool2d(c, t[0], 2, {}, o); }},
      {"ops::conv2d", "gf", [](C c, T t, O o) { return ops::conv2d(c, t[0], t[1], {}, o); }},
      {"ops::conv2d", "gfv", [](C c, T t, O o) { return ops::conv2d(c, t[0], t[1], t[2], {}, o); }},
  };
  return kOperations;
}

void expect_lost(const std::string& function, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << function << " took it";
  } catch (const spyre::InvalidAllocation& error) {
    EXPECT_EQ(error.reason(), spyre::InvalidAllocation::Reason::LostInReset) << function;
    EXPECT_FALSE(error.info().next_step.empty()) << function;
  } catch (const std::exception& error) {
    ADD_FAILURE() << function << ": " << error.what();
  }
}

class LostTensors : public ApiCard {
 protected:
  static SpyreTensor zeros(char letter) {
    const TensorKind& kind = kind_of(letter);
    const HostShape shape = HostShape::contiguous(kind.type, kind.shape);
    const std::vector<std::byte> bytes(shape.bytes_spanned());
    return context().to_device({shape, bytes});
  }
  static std::vector<SpyreTensor> zeros_of(const std::string& letters) {
    std::vector<SpyreTensor> tensors;
    tensors.reserve(letters.size());
    for (const char letter : letters) tensors.push_back(zeros(letter));
    return tensors;
  }
  static void reset_function() {
    context().Synchronize(soon());
    EXPECT_EQ(context().recover(spyre::ResetLevel::Function).level(), spyre::ResetLevel::Function);
  }
};

TEST_F(LostTensors, AreRefusedByEveryLaunchAndCopy) {
  const SpyreTensor before = zeros('x');
  const auto storage = context().allocator().allocate(8192);
  auto plan = loaded("add", {{"M", 64}, {"N", 64}});
  reset_function();
  context().load(plan);
  const SpyreTensor live = zeros('x');
  auto stream = context().default_stream();
  const spyre::Job add = plan.jobs()[0];
  const spyre::LaunchOptions options;
  const std::array lost{live, before, live}, good{live, live, zeros('x')};
  const std::span<const SpyreTensor> of_job = lost;
  const HostShape shape = HostShape::contiguous(DataType::Float16, {64, 64});
  std::vector<std::byte> bytes(shape.bytes_spanned());
  const spyre::HostTensor host{shape, bytes};
  const spyre::ConstHostTensor source{shape, bytes};
  const auto memory = before.allocation_index();
  const std::vector<std::int64_t> columns{1, 0};
  const auto prepared = spyre::Prepare(stream, add, good);
  spyre::Program program(context(), plan);
  spyre::DMAEngine dma(context());
  const auto launch = [&](const spyre::Job& job) { (void)stream.Launch(job, {}); };
  const std::vector<Use> uses{
      {"SpyreStream::Launch", [&] { (void)stream.Launch(add, lost); }},
      {"LaunchKernel", [&] { spyre::LaunchKernel(stream, plan, lost); }},
      {"LaunchKernel", [&] { spyre::LaunchKernel(stream, plan, std::span(&of_job, 1), options); }},
      {"Job::to_device", [&] { launch(spyre::Job::to_device(bytes.data(), memory, bytes.size())); }},
      {"Job::from_device", [&] { launch(spyre::Job::from_device(bytes.data(), memory, bytes.size())); }},
      {"Job::fill", [&] { launch(spyre::Job::fill(storage->allocation_index(), 128, 0)); }},
      {"Prepare", [&] { (void)spyre::Prepare(stream, add, lost); }},
      {"PreparedLaunches::Patch", [&] { (void)prepared.Patch(stream, 0, lost); }},
      {"StreamCapture::Launch",
       [&] {
         spyre::StreamCapture capture(stream);
         (void)capture.Launch(add, lost);
         (void)capture.Instantiate();
       }},
      {"+StreamCapture::Launch",
       [&] {
         const spyre::CaptureScope scope(stream);
         (void)stream.Launch(add, lost);
       }},
      {"Program::Launch", [&] { program.Launch(lost); }},
      {"Program::LaunchTiled", [&] { program.LaunchTiled(lost); }},
      {"DMAEngine::Copy", [&] { dma.Copy(source, before); }},
      {"DMAEngine::Copy", [&] { dma.Copy(before, host); }},
      {"Context::copy", [&] { context().copy(before, source); }},
      {"Context::copy", [&] { context().copy(before, source, stream); }},
      {"Context::copy", [&] { context().copy(host, before).wait(soon()); }},
      {"Context::copy", [&] { context().copy(host, before, stream).wait(soon()); }},
      {"Context::copy", [&] { context().copy(live, before); }},
      {"+Context::copy", [&] { context().copy(before, live); }},
      {"+Context::copy", [&] { context().copy(before, before); }},
      {"Context::copy", [&] { context().copy(live, before, stream); }},
      {"+Context::copy", [&] { context().copy(before, live, stream); }},
      {"Context::copy_to_device", [&] { context().copy_to_device(source, before); }},
      {"Context::copy_to_device", [&] { context().copy_to_device(source, before, stream); }},
      {"Context::to_host", [&] { context().to_host(before, host); }},
      {"Context::to_host", [&] { context().to_host(before, host, stream); }},
      {"Context::restickify", [&] { (void)context().restickify(before, columns); }},
      {"Context::restickify", [&] { (void)context().restickify(before, columns, stream); }},
      {"Context::contiguous", [&] { (void)context().contiguous(before.transpose(0, 1)); }},
      {"+Context::contiguous", [&] { (void)context().contiguous(before); }},
      {"Context::contiguous", [&] { (void)context().contiguous(before, stream); }},
      {"SpyreTensor::record_stream", [&] { before.record_stream(stream); }},
      {"DeviceStorage::record_stream", [&] { storage->record_stream(stream); }},
  };
  for (const Use& use : uses) expect_lost(use.function, use.call);
  stream.Synchronize(soon());
  EXPECT_NO_THROW(program.Launch(good)) << "nothing of what was refused is left";
}

// Each operand in turn, with all others made after the reset, and then the memory of the result.
TEST_F(LostTensors, AreRefusedByEveryOperationAsOperandAndAsItsResult) {
  std::vector<std::vector<SpyreTensor>> operands;
  std::vector<SpyreTensor> results;
  operands.reserve(operations().size());
  results.reserve(operations().size());
  for (const Operation& operation : operations()) {
    operands.push_back(zeros_of(operation.operands));
    results.push_back(operation.run(context(), operands.back(), {}));
  }
  reset_function();
  for (std::size_t i = 0; i < operations().size(); ++i) {
    const Operation& operation = operations()[i];
    const std::vector<SpyreTensor> live = zeros_of(operation.operands);
    for (std::size_t at = 0; at < live.size(); ++at) {
      std::vector<SpyreTensor> mixed = live;
      mixed[at] = operands[i][at];
      expect_lost(operation.function + std::string(", operand ") + std::to_string(at),
                  [&] { (void)operation.run(context(), mixed, {}); });
    }
    if (!operation.takes_out) continue;
    const ops::Options into{.out = results[i]};
    expect_lost(operation.function + std::string(", out"), [&] { (void)operation.run(context(), live, into); });
  }
  context().Synchronize(soon());
}

// The handles of C hold the objects of C++: the reset, which C has only as what a failure needs, is asked for there.
TEST_F(LostTensors, AreAStatusOfItsOwnInC) {
  spyre_context_options options{};
  options.size = sizeof options;
  options.virtual_functions = 1;
  constexpr std::int64_t kShape[] = {64, 64};
  spyre_context* card = nullptr;
  spyre_tensor *before = nullptr, *live = nullptr, *result = nullptr;
  spyre_kernel* kernel = nullptr;
  spyre_program* add = nullptr;
  const spyre_extent extents[] = {{"M", 64}, {"N", 64}};
  ASSERT_EQ(spyre_context_open(&options, &card), SPYRE_OK) << spyre_last_error();
  const auto make = [&](spyre_tensor** tensor) {
    return spyre_tensor_create(card, SPYRE_FLOAT16, kShape, 2, SPYRE_DEVICE_DL16, tensor);
  };
  ASSERT_EQ(make(&before), SPYRE_OK);
  ASSERT_EQ(spyre_kernel_find(card, "add", &kernel), SPYRE_OK);
  ASSERT_EQ(spyre_program_create(card, kernel, extents, 2, &add), SPYRE_OK);
  EXPECT_EQ(card->context->recover(spyre::ResetLevel::Function).level(), spyre::ResetLevel::Function);
  ASSERT_EQ(spyre_program_load(card, add), SPYRE_OK);
  ASSERT_EQ(make(&live), SPYRE_OK);
  ASSERT_EQ(make(&result), SPYRE_OK);
  const spyre_tensor* const lost[] = {live, before, result};
  const spyre_tensor* const good[] = {live, live, result};
  std::vector<std::byte> bytes(spyre_tensor_host_bytes(live));
  spyre_graph *graph = nullptr, *refused = nullptr;
  spyre_capture* capture = nullptr;
  spyre_tensor* made = nullptr;
  std::size_t count = 0;
  ASSERT_EQ(spyre_prepare(card, nullptr, add, good, 3, nullptr, &graph), SPYRE_OK) << spyre_last_error();
  ASSERT_EQ(spyre_capture_create(card, nullptr, &capture), SPYRE_OK);
  const auto run = [&](const spyre_tensor* const* inputs, const spyre_tensor* out) {
    return spyre_run_operation(card, nullptr, "add", inputs, 2, nullptr, 0, nullptr, 0, out, &made, 1, &count);
  };
  const auto run_into = [&](const spyre_tensor* out) {
    spyre_operation_options options{};
    options.size = sizeof options;
    options.out = out;
    return spyre_run_operation_with(card, nullptr, "add", good, 2, nullptr, 0, nullptr, 0, &options, &made, 1, &count);
  };
  struct CUse {
    const char* function;
    std::function<spyre_status()> call;
  };
  const std::vector<CUse> uses{
      {"spyre_copy_to_device", [&] { return spyre_copy_to_device(card, nullptr, before, bytes.data(), bytes.size()); }},
      {"spyre_copy_to_host", [&] { return spyre_copy_to_host(card, nullptr, before, bytes.data(), bytes.size()); }},
      {"spyre_run_operation", [&] { return run(lost, nullptr); }},
      {"+spyre_run_operation", [&] { return run(good, before); }},
      {"spyre_run_operation_with", [&] { return run_into(before); }},
      {"spyre_launch", [&] { return spyre_launch(card, nullptr, add, lost, 3, nullptr); }},
      {"spyre_prepare", [&] { return spyre_prepare(card, nullptr, add, lost, 3, nullptr, &refused); }},
      {"spyre_graph_patch", [&] { return spyre_graph_patch(card, nullptr, graph, 0, lost, 3); }},
      {"spyre_capture_launch",
       [&] {
         EXPECT_EQ(spyre_capture_launch(capture, add, lost, 3, nullptr), SPYRE_OK);
         return spyre_capture_instantiate(capture, &refused);
       }},
  };
  for (const CUse& use : uses) {
    EXPECT_EQ(use.call(), SPYRE_INVALID_ALLOCATION) << use.function << ": " << spyre_last_error();
    spyre_error error{};
    error.size = sizeof error;
    EXPECT_EQ(spyre_last_error_details(&error), SPYRE_OK);
    EXPECT_NE(std::string(error.next_step), "") << use.function;
  }
  EXPECT_EQ(refused, nullptr);
  EXPECT_EQ(made, nullptr);
  spyre_capture_release(capture);
  spyre_graph_release(graph);
  spyre_program_release(add);
  spyre_kernel_release(kernel);
  for (spyre_tensor* tensor : {before, live, result}) spyre_tensor_release(tensor);
  spyre_context_close(card);
}

}  // namespace
