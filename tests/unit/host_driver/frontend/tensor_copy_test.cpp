// SPDX-License-Identifier: Apache-2.0
// Copies of tensors against the real firmware core on a thread.
#include "host_driver/frontend/tensor_copy.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <numeric>
#include <random>
#include <thread>
#include <vector>

#include "host_driver/frontend/spyre_stream.hpp"
#include "tests/bounds.hpp"
#include "tests/support/chunked_transfers.hpp"
#include "tests/support/tensor_copies.hpp"
#include "tests/unit/host_driver/device/native_card.hpp"

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

svp::RuntimeOptions small_memory() {
  svp::RuntimeOptions options;
  options.allocator.region_bytes = {64 * wire::kMiB};
  options.staging.chunk_bytes = wire::kMiB;
  return options;
}

struct Rig {
  svp::test::NativeCard card{{.window_bytes = 16 * wire::kMiB}};
  svp::Runtime runtime{card.attach(), small_memory()};
  SpyreAllocator allocator{runtime};
  SpyreStream stream{runtime.default_stream()};

  SpyreTensor empty(Dims shape, const TensorOptions& options = {}) {
    return SpyreTensor::empty(allocator, DataType::Float32, std::move(shape), options);
  }
  SpyreTensor on_card(const std::vector<float>& values, Dims shape, const TensorOptions& options = {}) {
    return to_device(runtime, allocator, stream,
                     {contiguous_floats(std::move(shape)), std::as_bytes(std::span(values))}, options);
  }
  std::vector<float> back(const SpyreTensor& tensor) {
    std::vector<float> values(static_cast<std::size_t>(tensor.element_count()));
    to_host(runtime, stream, tensor, {contiguous_floats(tensor.shape()), std::as_writable_bytes(std::span(values))});
    return values;
  }
  static HostShape contiguous_floats(Dims shape) { return HostShape::contiguous(DataType::Float32, std::move(shape)); }
};

std::vector<float> counted(std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), 1.0F);
  return values;
}

TEST(TensorCopy, AgreesWithTheModelInEveryByte) {
  Rig rig;
  const std::uint64_t seed = std::random_device{}();
  test::TensorCopies copies(rig.runtime, rig.allocator, rig.stream, seed);
  const auto wrong = copies.run(1500);
  EXPECT_FALSE(wrong) << *wrong << ", seed " << seed;
}

TEST(TensorCopy, OfInterleavedTensorsAgreesWithTheModelInEveryByte) {
  svp::test::NativeCard card{{.window_bytes = 16 * wire::kMiB}};
  svp::RuntimeOptions options = small_memory();
  options.allocator.region_bytes = {2 * wire::kMiB};
  svp::Runtime runtime(card.attach(), options);
  test::hold_regions(runtime.allocator(), 4, 2 * wire::kMiB);
  SpyreAllocator allocator(runtime);
  SpyreStream stream(runtime.default_stream());
  const std::uint64_t seed = std::random_device{}();
  test::TensorCopies copies(runtime, allocator, stream, seed);
  const auto wrong = copies.run(1500);
  EXPECT_FALSE(wrong) << *wrong << ", seed " << seed;
  EXPECT_GT(copies.counts().in_chunks, 20U);
}

TEST(TensorCopy, ContiguousMakesOneChunkOfSeveral) {
  Rig rig;
  const std::vector large{rig.empty({12 * 1024, 1024}), rig.empty({12 * 1024, 1024})};  // two regions
  const auto values = counted(64 * 50);
  const SpyreTensor tensor = rig.on_card(values, {64, 50}, {.interleaved = true});
  const auto chunks = [&](const SpyreTensor& of) {
    return rig.runtime.allocator().resolve_chunks(of.allocation_index()).count;
  };
  ASSERT_EQ(chunks(tensor), 2U);
  const SpyreTensor copy = contiguous(rig.runtime, rig.allocator, rig.stream, tensor);
  EXPECT_EQ(chunks(copy), 1U);
  EXPECT_EQ(rig.back(copy), values);
  EXPECT_EQ(contiguous(rig.runtime, rig.allocator, rig.stream, copy), copy);
}

TEST(TensorCopy, ASliceLeavesItsNeighboursAlone) {
  Rig rig;
  const std::vector<float> zeros(8 * 100, 0.0F);
  const SpyreTensor tensor = rig.on_card(zeros, {8, 100});
  const std::vector<float> ones(3 * 5, 1.0F);
  copy(rig.runtime, rig.stream, tensor.slice(0, 2, 5).slice(1, 30, 35),
       {Rig::contiguous_floats({3, 5}), std::as_bytes(std::span(ones))});
  const auto found = rig.back(tensor);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const bool inside = i / 100 >= 2 && i / 100 < 5 && i % 100 >= 30 && i % 100 < 35;
    ASSERT_EQ(found[i], inside ? 1.0F : 0.0F) << i;
  }
}

TEST(TensorCopy, TheSourceIsRepeatedWhereItHasOneElement) {
  Rig rig;
  const SpyreTensor tensor = rig.empty({4, 70});
  const auto row = counted(70);
  copy(rig.runtime, rig.stream, tensor, {Rig::contiguous_floats({70}), std::as_bytes(std::span(row))});
  const auto found = rig.back(tensor);
  for (std::size_t i = 0; i < found.size(); ++i) ASSERT_EQ(found[i], row[i % 70]);
  const SpyreTensor other = rig.empty({4, 70});
  copy(rig.runtime, rig.stream, other, tensor.select(0, 1).unsqueeze(0));
  EXPECT_EQ(rig.back(other), found);
}

TEST(TensorCopy, OverlappingViewsOfOneTensorAreCopiedAsIfAtOnce) {
  Rig rig;
  const auto values = counted(300);
  const SpyreTensor tensor = rig.on_card(values, {300});
  copy(rig.runtime, rig.stream, tensor.slice(0, 1), tensor.slice(0, 0, 299));
  const auto found = rig.back(tensor);
  EXPECT_EQ(found[0], 1.0F);
  for (std::size_t i = 1; i < found.size(); ++i) ASSERT_EQ(found[i], values[i - 1]) << i;
}

TEST(TensorCopy, RestickifyMovesTheElementsIntoAnotherLayout) {
  Rig rig;
  const auto values = counted(70 * 130);
  const SpyreTensor tensor = rig.on_card(values, {70, 130});
  const SpyreTensor columns = restickify(rig.runtime, rig.allocator, rig.stream, tensor, Dims{1, 0});
  EXPECT_EQ(columns.layout(), SpyreTensorLayout::of(Rig::contiguous_floats({70, 130}), Dims{1, 0}));
  EXPECT_NE(columns.layout(), tensor.layout());
  EXPECT_EQ(rig.back(columns), values);
  EXPECT_EQ(contiguous(rig.runtime, rig.allocator, rig.stream, tensor), tensor);
  const SpyreTensor plain = contiguous(rig.runtime, rig.allocator, rig.stream, tensor.transpose(0, 1));
  EXPECT_EQ(plain.shape(), (Dims{130, 70}));
  EXPECT_TRUE(plain.fits_kernels());
  EXPECT_EQ(rig.back(plain.transpose(0, 1)), values);
}

// ---- views as operands ----------------------------------------------------------------------------------------------

TEST(TensorCopy, AKernelTakesWhatItWouldReadInTheRightOrder) {
  Rig rig;
  const SpyreTensor rows = rig.empty({70, 130});
  EXPECT_EQ(rows.argument().shape, (svp::Shape{70, 130}));
  EXPECT_THROW(rows.transpose(0, 1).argument(), CopyNeeded);
  EXPECT_FALSE(rows.slice(0, 0, 69).fits_kernels()) << "only kernels that take strides";
  EXPECT_EQ(rows.slice(0, 0, 70), rows);
  const SpyreTensor columns = rig.empty({70, 130}, {.dim_order = Dims{1, 0}});
  EXPECT_THROW(columns.argument(), CopyNeeded);
  EXPECT_EQ(columns.transpose(0, 1).argument().shape, (svp::Shape{130, 70}));
}

TEST(TensorCopy, AViewOfWholeSticksIsAnOperandWithStrides) {
  Rig rig;
  const SpyreTensor rows = rig.empty({70, 130});
  static constexpr std::uint64_t kColumn = 70 * 128;
  const auto expect = [](const SpyreTensor& view, const svp::Shape& shape, std::uint64_t offset, std::uint64_t row) {
    const Argument argument = view.argument();
    EXPECT_EQ(argument.shape, shape);
    EXPECT_EQ(argument.offset, offset);
    ASSERT_TRUE(argument.stride);
    EXPECT_EQ((*argument.stride)[0], row);
    EXPECT_EQ((*argument.stride)[1], kColumn);
  };
  const std::int64_t lanes = elements_per_stick(rows.layout().device_dtype);
  expect(rows.slice(0, 0, 69), {69, 130}, 0, 128);
  expect(rows.slice(0, 3), {67, 130}, 3 * 128, 128);
  expect(rows.slice(0, 3, 60, 2), {29, 130}, 3 * 128, 256);
  expect(rows.slice(1, lanes), {70, 130 - lanes}, kColumn, 128);
  expect(rows.slice(1, 0, lanes).slice(0, 1), {69, lanes}, 128, 128);
  expect(rows.narrow(0, 5, 1).expand({40, 130}), {40, 130}, 5 * 128, 0);
  EXPECT_THROW(rows.slice(1, 1).argument(), CopyNeeded) << "not at a stick";
  EXPECT_THROW(rows.slice(1, 0, 100).argument(), CopyNeeded) << "other elements in its last stick";
  EXPECT_THROW(rows.slice(1, 0, 130, 2).argument(), CopyNeeded) << "every other lane";
  EXPECT_THROW(rows.narrow(1, 0, 1).expand({70, 64}).argument(), CopyNeeded);
  EXPECT_THROW(rows.select(0, 3).argument(), CopyNeeded) << "another rank";
}

// ---- copies to the host go on by themselves -------------------------------------------------------------------------

TEST(TensorCopy, ToTheHostReturnsBeforeTheCardHasMovedAnything) {
  Rig rig;
  const auto values = counted(64 * 64);
  const SpyreTensor tensor = rig.on_card(values, {64, 64});
  rig.stream.Synchronize();
  rig.card.pause();
  std::vector<float> found(values.size(), -1.0F);
  const auto task =
      copy(rig.runtime, rig.stream,
           HostTensor{Rig::contiguous_floats({64, 64}), std::as_writable_bytes(std::span(found))}, tensor);
  ASSERT_NE(task, nullptr);
  EXPECT_FALSE(task->done());
  EXPECT_FALSE(rig.stream.Query());
  EXPECT_THROW(task->wait(FlexStream::Clock::now()), TimeoutError);
  EXPECT_THROW(rig.stream.Synchronize(FlexStream::Clock::now()), TimeoutError);
  rig.card.resume();
  task->wait(FlexStream::Clock::now() + test_bounds::kWork);
  EXPECT_EQ(found, values);
  rig.stream.Synchronize();
  EXPECT_TRUE(rig.stream.Query());
}

TEST(TensorCopy, ManyThreadsCopyAtOnceOnStreamsOfTheirOwn) {
  Rig rig;
  std::vector<std::thread> threads;
  for (unsigned id = 1; id <= 3; ++id) {
    threads.emplace_back([&rig, id] {
      SpyreStream stream(rig.runtime.stream(id));
      test::TensorCopies copies(rig.runtime, rig.allocator, stream, id);
      const auto wrong = copies.run(100);
      EXPECT_FALSE(wrong) << *wrong;
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: they make a number of copies
}

TEST(TensorCopy, ACopyWhoseCardDiesTellsSo) {
  Rig rig;
  const SpyreTensor tensor = rig.on_card(counted(64 * 64), {64, 64});
  rig.stream.Synchronize();
  rig.card.pause();
  std::vector<float> found(64 * 64, -1.0F);
  const auto task =
      copy(rig.runtime, rig.stream,
           HostTensor{Rig::contiguous_floats({64, 64}), std::as_writable_bytes(std::span(found))}, tensor);
  rig.card.die();
  EXPECT_THROW(task->wait(FlexStream::Clock::now() + test_bounds::kWork), StreamError);
  EXPECT_THROW(task->wait(), StreamError);  // bounded: it has ended
  EXPECT_THROW(rig.stream.Synchronize(), StreamError);
  EXPECT_EQ(std::ranges::count(found, -1.0F), 64 * 64) << "nothing was written";
}

TEST(TensorCopy, ACopyEndsWithItsRuntime) {
  std::vector<float> found(64 * 64, -1.0F);
  std::shared_ptr<HostTask> task;
  {
    Rig rig;
    const SpyreTensor tensor = rig.on_card(counted(64 * 64), {64, 64});
    rig.stream.Synchronize();
    rig.card.pause();
    task = copy(rig.runtime, rig.stream,
                HostTensor{Rig::contiguous_floats({64, 64}), std::as_writable_bytes(std::span(found))}, tensor);
  }
  EXPECT_TRUE(task->done());
  EXPECT_THROW(task->wait(), Error);  // bounded: it has ended
}

// ---- what is refused ------------------------------------------------------------------------------------------------

void expect_refused(const char* field, const std::function<void()>& call) {
  try {
    call();
    ADD_FAILURE() << "accepted, instead of refusing " << field;
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), field) << error.what();
    EXPECT_FALSE(error.info().next_step.empty());
  }
}

// The card has more conversions than a copy: the error leads there, in both directions.
TEST(TensorCopy, AConversionThatNoCopyMakesIsLeftToTheCard) {
  Rig rig;
  const SpyreTensor tensor = rig.on_card(counted(64), {64});
  std::vector<std::byte> memory(64 * 8);
  const auto expect_told = [](const char* message, const std::function<void()>& call) {
    try {
      call();
      ADD_FAILURE() << "accepted: " << message;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(error.info().message, message);
      EXPECT_EQ(error.info().next_step,
                "let the card convert: ops::copy() with Options::out of a type that this copy takes (docs/tensors.md, "
                "Conversions of a copy)");
    }
  };
  const auto shape = [](DataType dtype) { return HostShape::contiguous(dtype, {64}); };
  expect_told("there is no conversion from IEEE_INT32 to IEEE_FP32",
              [&] { copy(rig.runtime, rig.stream, tensor, {shape(DataType::Int32), memory}); });
  expect_told("there is no conversion from IEEE_FP32 to IEEE_FP16",
              [&] { (void)copy(rig.runtime, rig.stream, HostTensor{shape(DataType::Float16), memory}, tensor); });
}

TEST(TensorCopy, ArgumentsAreRefusedByName) {
  Rig rig;
  const SpyreTensor tensor = rig.on_card(counted(6 * 40), {6, 40});
  std::vector<float> memory(6 * 40);
  const auto to_card = [&](const SpyreTensor& destination, const HostShape& shape, std::size_t bytes) {
    copy(rig.runtime, rig.stream, destination, {shape, std::as_bytes(std::span(memory)).first(bytes)});
  };
  const auto to_memory = [&](const HostShape& shape, std::size_t bytes) {
    (void)copy(rig.runtime, rig.stream, HostTensor{shape, std::as_writable_bytes(std::span(memory)).first(bytes)},
               tensor);
  };
  const HostShape good = Rig::contiguous_floats({6, 40});
  const std::size_t all = memory.size() * 4;
  using Type = DataType;
  constexpr std::int64_t kHuge = std::int64_t{1} << 61;
  expect_refused("source", [&] { to_card(tensor, good, all - 1); });
  expect_refused("source", [&] { to_card(tensor, Rig::contiguous_floats({5, 40}), 800); });
  expect_refused("source", [&] { to_card(tensor, Rig::contiguous_floats({1, 6, 40}), all); });
  expect_refused("source", [&] { to_card(tensor, {Type::Float32, {6, 40}, {40}}, all); });
  expect_refused("source", [&] { to_card(tensor, {Type::Float32, {6, 40}, {-40, 1}}, all); });
  expect_refused("source", [&] { to_card(tensor, {Type::Float32, {6, -40}, {40, 1}}, all); });
  expect_refused("source", [&] { to_card(tensor, {Type::Float32, {6, 40}, {kHuge, kHuge}}, all); });
  expect_refused("dtype", [&] { to_card(tensor, {Type::Float64, {6, 40}, {40, 1}}, all); });
  expect_refused("dtype", [&] { to_card(tensor, {Type::Int32, {6, 40}, {40, 1}}, all); });
  expect_refused("destination", [&] { to_card(tensor.slice(0, 0, 1).expand({6, 40}), good, all); });
  expect_refused("destination", [&] { to_card(tensor.as_strided({6, 40}, {1, 1}), good, all); });
  expect_refused("destination", [&] { to_memory(good, all - 1); });
  expect_refused("destination", [&] { to_memory({Type::Float32, {6, 40}, {0, 1}}, all); });
  expect_refused("destination", [&] { to_memory({Type::Float32, {6, 40}, {1, 1}}, all); });
  expect_refused("source", [&] { to_memory(Rig::contiguous_floats({5, 40}), all); });
  expect_refused("dtype", [&] { to_memory({Type::Float64, {6, 40}, {40, 1}}, all); });
  EXPECT_EQ(rig.back(tensor), counted(6 * 40)) << "nothing was moved";
}

TEST(TensorCopy, AllocationsAreRefusedBySideAndReason) {
  Rig rig;
  svp::Runtime other(rig.card.attach(2), small_memory());
  SpyreAllocator others(other);
  std::vector<float> memory(64);
  const ConstHostTensor source{Rig::contiguous_floats({64}), std::as_bytes(std::span(memory))};
  const auto refusal = [&](const SpyreTensor& tensor) {
    try {
      copy(rig.runtime, rig.stream, tensor, source);
    } catch (const InvalidAllocation& error) {
      EXPECT_EQ(error.info().source, "destination");
      return std::optional(error.reason());
    }
    return std::optional<InvalidAllocation::Reason>();
  };
  using Reason = InvalidAllocation::Reason;
  EXPECT_EQ(refusal(SpyreTensor::empty(others, DataType::Float32, {64})), Reason::Foreign);
  const SpyreTensor released = rig.empty({64});
  rig.runtime.allocator().deallocate(released.allocation_index());
  EXPECT_EQ(refusal(released), Reason::Released);
  const SpyreTensor lost = rig.empty({64});
  rig.runtime.allocator().forget_regions();
  EXPECT_EQ(refusal(lost), Reason::LostInReset);
  EXPECT_THROW(copy(rig.runtime, rig.stream, SpyreTensor(), source), InvalidArgument) << "shape []";
}

// Also where there is nothing to copy, and the tensor itself would be the result.
TEST(TensorCopy, ContiguousRefusesATensorWithoutMemoryOfThisContext) {
  Rig rig;
  svp::Runtime other(rig.card.attach(2), small_memory());
  SpyreAllocator others(other);
  const auto refusal = [&](const SpyreTensor& tensor) {
    try {
      (void)contiguous(rig.runtime, rig.allocator, rig.stream, tensor);
    } catch (const InvalidAllocation& error) {
      EXPECT_EQ(error.info().source, "source");
      return std::optional(error.reason());
    }
    return std::optional<InvalidAllocation::Reason>();
  };
  using Reason = InvalidAllocation::Reason;
  const SpyreTensor lost = rig.empty({64});
  EXPECT_EQ(refusal(lost), std::nullopt);
  EXPECT_EQ(refusal(rig.empty({0})), std::nullopt) << "no elements, and no memory";
  EXPECT_EQ(refusal(SpyreTensor::empty(others, DataType::Float32, {64})), Reason::Foreign);
  rig.runtime.allocator().forget_regions();
  EXPECT_EQ(refusal(lost), Reason::LostInReset);
}

TEST(SpyreTensor, EmptyRefusesByName) {
  Rig rig;
  constexpr std::int64_t k35 = std::int64_t{1} << 35;
  constexpr std::int64_t k62 = std::int64_t{1} << 62;
  expect_refused("shape", [&] { rig.empty({-1}); });
  expect_refused("shape", [&] { rig.empty({k62, 4}); });
  expect_refused("shape", [&] { rig.empty({k35, k35}); });
  expect_refused("shape", [&] { rig.empty({std::int64_t{1} << 57, 1}); });
  expect_refused("shape", [&] { rig.empty(Dims(65, 1)); });
  expect_refused("stride", [&] { rig.empty({4, 4}, {.stride = Dims{4}}); });
  expect_refused("stride", [&] { rig.empty({4, 4}, {.stride = Dims{-4, 1}}); });
  expect_refused("stride", [&] { rig.empty({4, 4}, {.stride = Dims{1, 1}}); });
  expect_refused("stride", [&] { rig.empty({4, 4}, {.stride = Dims{k62, k62}}); });
  expect_refused("dim_order", [&] { rig.empty({4, 4}, {.dim_order = Dims{0}}); });
  expect_refused("dim_order", [&] { rig.empty({4, 4}, {.dim_order = Dims{0, 2}}); });
  const auto layout = SpyreTensorLayout::of(Rig::contiguous_floats({4, 4}));
  expect_refused("dim_order", [&] { rig.empty({4, 4}, {.dim_order = Dims{0, 1}, .layout = layout}); });
  expect_refused("device_dtype", [&] { rig.empty({4, 4}, {.device_dtype = DeviceType::Dl16, .layout = layout}); });
  expect_refused("layout", [&] { rig.empty({4, 5}, {.layout = layout}); });
  expect_refused("layout", [&] { rig.empty({4, 4}, {.layout = SpyreTensorLayout{}}); });
  EXPECT_THROW(rig.empty({k35, 16}), OutOfMemory);
  EXPECT_EQ(rig.empty({4, 4}, {.stride = Dims{0, 1}}).stride(), (Dims{0, 1}));
  const SpyreTensor tensor = rig.empty({4, 40});
  const auto larger = SpyreTensorLayout::of(Rig::contiguous_floats({4, 40}), Dims{0, 1, -1});
  expect_refused("layout", [&] { (void)tensor.with_layout(larger); });
  expect_refused("layout", [&] { (void)tensor.slice(0, 1).with_layout(tensor.layout()); });
  EXPECT_EQ(tensor.with_layout(tensor.layout()), tensor);
}

}  // namespace
}  // namespace svp
