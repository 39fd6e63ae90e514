// SPDX-License-Identifier: Apache-2.0
// The C++ API on a booted card: copies, launches, raw memory, errors, recovery, a second context on the same card.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <numeric>
#include <random>
#include <spyre/spyre.hpp>
#include <vector>

#include "tests/device/api/api_card.hpp"

namespace {

using spyre::DataType;
using spyre::DeviceType;
using spyre::HostShape;
using spyre::SpyreTensor;

class Api : public ApiCard {
 protected:
  static SpyreTensor on_card(const std::vector<float>& values, std::vector<std::int64_t> shape) {
    return context().to_device(
        {HostShape::contiguous(DataType::Float32, std::move(shape)), std::as_bytes(std::span(values))},
        DeviceType::Dl16);
  }
  static std::vector<float> back(spyre::Context& from, const SpyreTensor& tensor) {
    const HostShape shape = HostShape::contiguous(DataType::Float32, tensor.shape());
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    from.to_host(tensor, {shape, std::as_writable_bytes(std::span(values))});
    return values;
  }
};

// Small integers: DL16 holds them and their sums exactly.
std::vector<float> integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> small(-100, 100);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(small(random));
  return values;
}

template <typename Host>
void expect_there_and_back(spyre::Context& context, DataType type, const std::vector<Host>& values) {
  const auto shape = HostShape::contiguous(type, {static_cast<std::int64_t>(values.size()) / 5, 5});
  const SpyreTensor tensor = context.to_device({shape, std::as_bytes(std::span(values))});
  std::vector<Host> back(values.size());
  context.to_host(tensor, {shape, std::as_writable_bytes(std::span(back))});
  EXPECT_EQ(back, values) << spyre::name(type);
}

TEST_F(Api, EveryTypeOfTheHostGoesThereAndBack) {
  std::vector<std::int64_t> whole(300);
  std::iota(whole.begin(), whole.end(), -150);
  const auto as = [&]<typename Host>(Host) {
    std::vector<Host> values(whole.size());
    std::ranges::transform(whole, values.begin(), [](std::int64_t value) { return static_cast<Host>(value); });
    return values;
  };
  expect_there_and_back(context(), DataType::Int64, whole);
  expect_there_and_back(context(), DataType::Int32, as(std::int32_t{}));
  expect_there_and_back(context(), DataType::Int16, as(std::int16_t{}));
  expect_there_and_back(context(), DataType::Int8, as(std::int8_t{}));
  expect_there_and_back(context(), DataType::Uint8, as(std::uint8_t{}));
  expect_there_and_back(context(), DataType::Float32, as(float{}));
  std::vector<std::uint8_t> truth(300);
  for (std::size_t i = 0; i < truth.size(); ++i) truth[i] = i % 3 == 0 ? 1 : 0;
  expect_there_and_back(context(), DataType::Bool, truth);
}

TEST_F(Api, PlanRunsOverTilesAndJobsOfOneRunAlone) {
  const auto a = integers(256 * 64, 1);
  const auto b = integers(256 * 64, 2);
  const auto plan = loaded("add", {{"M", 64}, {"N", 64}});
  const std::array operands{on_card(a, {256, 64}), on_card(b, {256, 64}),
                            context().empty(DataType::Float32, {256, 64}, DeviceType::Dl16)};
  auto stream = context().stream(spyre::StreamPriority::High);
  context().default_stream().Synchronize(soon());
  spyre::LaunchKernel(stream, plan, operands);
  stream.Synchronize(soon());
  EXPECT_TRUE(stream.Query());
  const auto sums = back(context(), operands[2]);
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], a[i] + b[i]) << i;

  const std::array twice{operands[2], operands[2], context().empty(DataType::Float32, {256, 64}, DeviceType::Dl16)};
  stream.Launch(plan.jobs().at(0), twice);
  stream.Synchronize(soon());
  EXPECT_EQ(back(context(), twice[2])[7], 2 * sums[7]);
}

TEST_F(Api, KernelsDescribeThemselves) {
  const auto kernel = context().kernel("add");
  EXPECT_EQ(kernel->name(), "add");
  EXPECT_EQ(kernel->dimensions(), (std::vector<std::string>{"M", "N"}));
  const auto operands = kernel->operands();
  ASSERT_EQ(operands.size(), 3u);
  EXPECT_TRUE(operands[0].reads && !operands[0].writes);
  EXPECT_TRUE(operands[2].writes);
  EXPECT_EQ(operands[2].shape, (std::vector<std::string>{"M", "N"}));
  const spyre::CompiledKernel compiled(kernel, {{"M", 64}, {"N", 128}});
  EXPECT_EQ(compiled.operand_shape(1), (std::vector<std::int64_t>{64, 128}));
  EXPECT_THROW((void)compiled.operand_shape(3), spyre::InvalidArgument);
  EXPECT_FALSE(spyre::Job(compiled).loaded());
}

TEST_F(Api, RawMemoryMovesAndIsCounted) {
  const auto before = context().allocator().statistics();
  const auto storage = context().allocator().allocate(1000);
  EXPECT_EQ(storage->bytes(), 1000u);
  EXPECT_EQ(context().allocator().statistics().bytes.current, before.bytes.current + 1024);
  std::vector<std::byte> out(1000);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<std::byte>(i);
  std::vector<std::byte> in(out.size());
  auto stream = context().default_stream();
  stream.Launch(spyre::Job::to_device(out.data(), storage->allocation_index(), out.size()), {});
  stream.Launch(spyre::Job::from_device(in.data(), storage->allocation_index(), in.size()), {});
  stream.Synchronize(soon());
  EXPECT_EQ(in, out);
}

TEST_F(Api, PinnedMemoryIsAllocatedRegisteredAndCounted) {
  constexpr std::size_t kBytes = 1 << 20;
  spyre::HostMemory& host = context().host_memory();
  spyre::PinnedMemory pinned = host.allocate(kBytes);
  const std::unique_ptr<void, decltype(&std::free)> heap(std::aligned_alloc(4096, kBytes), std::free);
  const std::span memory(static_cast<std::byte*>(heap.get()), kBytes);
  for (std::size_t i = 0; i < kBytes; ++i) memory[i] = static_cast<std::byte>(i % 251);
  EXPECT_TRUE(host.is_pinned(pinned.data(), kBytes));
  EXPECT_FALSE(host.is_pinned(memory.data()));
  const auto storage = context().allocator().allocate(kBytes);
  const auto launch_both = [&] {
    auto stream = context().default_stream();
    stream.Launch(spyre::Job::to_device(memory.data(), storage->allocation_index(), kBytes), {});
    stream.Launch(spyre::Job::from_device(pinned.data(), storage->allocation_index(), kBytes), {});
    stream.Synchronize(soon());
    EXPECT_EQ(std::memcmp(pinned.data(), memory.data(), kBytes), 0);
  };
  const auto start = host.statistics();
  launch_both();
  const auto staged = host.statistics();
  EXPECT_EQ(staged.staged_bytes - start.staged_bytes, kBytes);
  EXPECT_EQ(staged.copied_bytes - start.copied_bytes, kBytes);
  EXPECT_EQ(staged.direct_bytes - start.direct_bytes, kBytes);
  host.register_memory(memory.data(), kBytes);
  EXPECT_TRUE(host.is_pinned(memory.data(), kBytes));
  EXPECT_EQ(host.statistics().registered_bytes, kBytes);
  launch_both();
  EXPECT_EQ(host.statistics().direct_bytes - staged.direct_bytes, 2 * kBytes);
  EXPECT_EQ(host.statistics().copied_bytes, staged.copied_bytes);
  host.unregister_memory(memory.data());
  EXPECT_FALSE(host.is_pinned(memory.data()));
  EXPECT_THROW(host.unregister_memory(memory.data()), spyre::InvalidArgument);
  EXPECT_THROW(host.register_memory(memory.data() + 1, 4096), spyre::InvalidArgument);
  EXPECT_THROW(host.allocate(host.statistics().total_bytes), spyre::OutOfMemory);
  const std::byte* before = pinned.data();
  pinned = spyre::PinnedMemory();
  EXPECT_FALSE(host.is_pinned(before)) << "freed";
}

TEST_F(Api, MemoryIsToldInTheTermsOfPyTorch) {
  auto allocator = context().allocator();
  const auto before = allocator.memory_stats();
  auto storage = allocator.allocate(1000);
  EXPECT_EQ(allocator.memory_stats().allocated_bytes.current, before.allocated_bytes.current + 1024);
  const auto info = allocator.memory_info();
  EXPECT_LE(info.free_bytes, info.total_bytes);
  EXPECT_GE(info.total_bytes, allocator.memory_stats().reserved_bytes.current);
  const auto failed = allocator.try_allocate(std::uint64_t{1} << 63);
  ASSERT_FALSE(failed);
  EXPECT_NE(failed.error->message.find("out of memory"), std::string::npos) << failed.error->message;
  EXPECT_EQ(allocator.memory_stats().num_ooms, before.num_ooms + 1);
  storage.reset();
  const auto reserved = allocator.memory_stats().reserved_bytes.current;
  const auto given_back = allocator.empty_cache();
  EXPECT_EQ(allocator.memory_stats().reserved_bytes.current, reserved - given_back);
}

TEST_F(Api, EmptyObjectsAreHarmless) {
  const SpyreTensor none;
  EXPECT_TRUE(none.shape().empty());
  EXPECT_EQ(none.allocation_index(), spyre::AllocationIndex::Null);
  spyre::ExecutionPlan plan;
  spyre::ExecutionPlan moved = std::move(plan);
  auto stream = context().default_stream();
  spyre::LaunchKernel(stream, moved, {});
  stream.Synchronize(soon());
  EXPECT_EQ(moved.size(), 0u);
}

TEST_F(Api, EveryErrorIsCaughtByItsType) {
  auto stream = context().default_stream();
  const auto plan = loaded("add", {{"M", 64}, {"N", 64}});
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, {}), spyre::InvalidArgument);
  EXPECT_THROW((void)context().kernel("no such kernel"), spyre::Error);
  EXPECT_THROW((void)context().empty(DataType::Float64, {8, 8}), spyre::InvalidArgument);
  EXPECT_THROW((void)context().allocator().allocate(std::uint64_t{1} << 50), spyre::OutOfMemory);
  const auto large = context().empty(DataType::Float32, {100, 64}, DeviceType::Dl16);
  const auto shorter = context().empty(DataType::Float32, {50, 64}, DeviceType::Dl16);
  const std::array operands{large, shorter, context().empty(DataType::Float32, {100, 64}, DeviceType::Dl16)};
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, operands), spyre::TilingError);
  const auto tiles = context().empty(DataType::Float32, {128, 64}, DeviceType::Dl16);
  const std::array twice{tiles, tiles, context().empty(DataType::Float32, {128, 64}, DeviceType::Dl16)};
  EXPECT_THROW(stream.Launch(plan.jobs()[0], twice, {.allow_tiled_launch = false}), spyre::TiledLaunchNotAllowed);
  const spyre::Job unloaded(spyre::CompiledKernel(context().kernel("add"), {{"M", 64}, {"N", 64}}));
  EXPECT_THROW(stream.Launch(unloaded, twice), spyre::InvalidArgument);
  EXPECT_THROW(spyre::CompiledKernel(nullptr, {}), spyre::InvalidArgument);
  const std::vector<std::byte> few(8);
  EXPECT_THROW((void)context().to_device({HostShape::contiguous(DataType::Float32, {8, 8}), few}),
               spyre::InvalidArgument);
}

TEST_F(Api, FailedStreamTellsItsErrorUntilTheContextRecovers) {
  auto stream = context().stream();
  const auto spin = loaded("spin", {});
  stream.Launch(spin.jobs()[0], {}, {.budget_slices = 10});
  try {
    stream.Synchronize(soon());
    FAIL() << "the kernel never ends by itself";
  } catch (const spyre::StreamError& error) {
    EXPECT_EQ(error.failure().outcome, spyre::Outcome::Timeout);
    EXPECT_EQ(error.failure().job, "spin");
    EXPECT_EQ(error.failure().operation, "COMPUTE");
    EXPECT_TRUE(error.info().recoverable);
  }
  ASSERT_TRUE(stream.error());
  EXPECT_THROW(stream.Launch(spin.jobs()[0], {}), spyre::StreamError);
  const spyre::RecoveryReport report = context().recover();
  EXPECT_EQ(report.level(), spyre::ResetLevel::Stream) << spyre::describe(report);
  EXPECT_FALSE(stream.error());
}

TEST_F(Api, TwoContextsShareACard) {
  const auto beside = context().open_beside({.function = 1});
  EXPECT_EQ(beside->device_name(), "VF1 of an embedded card");
  EXPECT_TRUE(beside->embedded());
  const auto values = integers(64 * 64, 3);
  const auto tensor = beside->to_device(
      {HostShape::contiguous(DataType::Float32, {64, 64}), std::as_bytes(std::span(values))}, DeviceType::Dl16);
  EXPECT_EQ(back(*beside, tensor), values);
  EXPECT_THROW((void)context().open_beside({.function = 1}), spyre::Error) << "it has an owner";
  EXPECT_THROW((void)context().open_beside({.function = 9}), spyre::Error) << "there is none";
}

// The correction tensor tells the mode: the same kernel, of one file, is right on both.
TEST_F(Api, OneKernelServesPfAndVf) {
  const auto vf = context().open_beside({.function = 1});
  const spyre::CompiledKernel kernel(context().kernel("add"), {{"M", 64}, {"N", 64}});
  const HostShape shape = HostShape::contiguous(DataType::Float32, {64, 64});
  const auto x = integers(64 * 64, 7), y = integers(64 * 64, 8);
  std::vector<float> sums(x.size());
  std::ranges::transform(x, y, sums.begin(), std::plus{});
  for (spyre::Context* each : {&context(), vf.get()}) {
    spyre::ExecutionPlan plan;
    plan.add(spyre::Job(kernel));
    each->load(plan);
    const auto a = each->to_device({shape, std::as_bytes(std::span(x))}, DeviceType::Dl16);
    const auto b = each->to_device({shape, std::as_bytes(std::span(y))}, DeviceType::Dl16);
    const auto c = each->empty(DataType::Float32, {64, 64}, DeviceType::Dl16);
    auto stream = each->default_stream();
    spyre::LaunchKernel(stream, plan, std::array{a, b, c});
    EXPECT_EQ(back(*each, c), sums) << each->device_name();
  }
}

// ---- views and copies -----------------------------------------------------------------------------------------------

TEST_F(Api, ATensorTellsShapeStridesTypesAndLayout) {
  const SpyreTensor tensor = context().empty(DataType::Float32, {6, 200}, DeviceType::Dl16);
  EXPECT_EQ(tensor.shape(), (std::vector<std::int64_t>{6, 200}));
  EXPECT_EQ(tensor.stride(), (std::vector<std::int64_t>{200, 1})) << "elements";
  EXPECT_EQ(tensor.stride_bytes(), (std::vector<std::int64_t>{800, 4})) << "bytes of the host's type";
  EXPECT_EQ(tensor.data_type(), DataType::Float32);
  EXPECT_EQ(tensor.layout().device_dtype, DeviceType::Dl16);
  const SpyreTensor columns = tensor.transpose(0, 1).slice(0, 0, 200, 3);
  EXPECT_EQ(columns.stride_bytes(), (std::vector<std::int64_t>{12, 800}));
  EXPECT_EQ(context().empty(DataType::Int64, {3, 4}).stride_bytes(), (std::vector<std::int64_t>{32, 8}));
  EXPECT_EQ(context().empty(DataType::Int8, {5}).stride_bytes(), (std::vector<std::int64_t>{1}));
}

TEST_F(Api, ReshapeAliasSeesTheSameMemoryFromTheViewsOffset) {
  const auto values = integers(6 * 200, 9);
  const SpyreTensor tensor = on_card(values, {6, 200});
  const SpyreTensor rows = tensor.slice(0, 2, 6);
  const SpyreTensor alias = rows.reshape_alias({2, 2, 200}, {400, 200, 1});
  EXPECT_EQ(alias.allocation_index(), tensor.allocation_index());
  EXPECT_EQ(alias.storage_offset(), 400);
  EXPECT_EQ(back(context(), alias), (std::vector<float>(values.begin() + 400, values.end())));
  EXPECT_EQ(alias, tensor.as_strided({2, 2, 200}, {400, 200, 1}, 400));
  EXPECT_THROW((void)rows.reshape_alias({2, 200}, {200, 1}), spyre::InvalidArgument) << "other elements";
}

TEST_F(Api, ViewsShareMemoryAndAreCopiedEitherWay) {
  const auto values = integers(6 * 200, 5);
  const SpyreTensor tensor = on_card(values, {6, 200});
  const SpyreTensor view = tensor.transpose(0, 1).slice(0, 60, 140, 2).select(1, -2);
  EXPECT_EQ(view.shape(), (std::vector<std::int64_t>{40}));
  EXPECT_EQ(view.stride(), (std::vector<std::int64_t>{2}));
  EXPECT_EQ(view.storage_offset(), 4 * 200 + 60);
  EXPECT_EQ(view.allocation_index(), tensor.allocation_index());
  EXPECT_NE(view, tensor);
  EXPECT_EQ(std::hash<SpyreTensor>{}(view), std::hash<SpyreTensor>{}(tensor.select(0, 4).slice(0, 60, 140, 2)));
  EXPECT_NE(to_string(view).find("shape=[40], stride=[2], offset=860"), std::string::npos);

  std::vector<float> found(40);
  const spyre::HostTensor memory{HostShape::contiguous(DataType::Float32, {40}),
                                 std::as_writable_bytes(std::span(found))};
  const spyre::HostCopy copy = context().copy(memory, view);
  copy.wait(soon());
  EXPECT_TRUE(copy.done());
  for (std::size_t i = 0; i < found.size(); ++i) EXPECT_EQ(found[i], values[860 + 2 * i]);

  std::fill(found.begin(), found.end(), -1.0F);
  context().copy(view, {memory.shape, std::as_bytes(std::span(found))});
  const auto all = back(context(), tensor);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool in_view = i >= 860 && i < 940 && i % 2 == 0;
    ASSERT_EQ(all[i], in_view ? -1.0F : values[i]) << i;
  }
}

TEST_F(Api, ATensorChangesItsStickDimension) {
  const auto values = integers(70 * 130, 6);
  const SpyreTensor rows = on_card(values, {70, 130});
  const SpyreTensor columns = context().restickify(rows, {{1, 0}});
  EXPECT_NE(columns.layout(), rows.layout());
  EXPECT_EQ(columns.layout().dim_map.back(), 0);
  EXPECT_EQ(back(context(), columns), values);
  EXPECT_EQ(context().contiguous(rows), rows);
  const SpyreTensor plain = context().contiguous(columns);
  EXPECT_EQ(plain.layout(), rows.layout());
  EXPECT_EQ(back(context(), plain), values);
  const SpyreTensor made =
      context().to_device({HostShape::contiguous(DataType::Float32, {70, 130}), std::as_bytes(std::span(values))},
                          spyre::TensorOptions{.device_dtype = DeviceType::Dl16, .dim_order = {{1, 0}}});
  EXPECT_EQ(made.layout(), columns.layout());
  EXPECT_EQ(spyre::SpyreTensorLayout::from_json(made.layout().to_json()), made.layout());
}

TEST_F(Api, AViewThatAKernelWouldMisreadIsNotLaunched) {
  const SpyreTensor a = on_card(integers(64 * 128, 7), {64, 128});
  const SpyreTensor b = context().empty(DataType::Float32, {128, 64}, DeviceType::Dl16);
  const auto plan = loaded("add", {{"M", 128}, {"N", 64}});
  auto stream = context().default_stream();
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, std::array{a.transpose(0, 1), b, b}), spyre::CopyNeeded);
}

}  // namespace
