// SPDX-License-Identifier: Apache-2.0
// Plans on disk and the names of the first RFC, through the library, on QEMU.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <spyre/program.hpp>
#include <spyre/spyre.hpp>
#include <stdexcept>
#include <string>
#include <vector>

#include "tests/device/api/api_card.hpp"
#include "tests/support/gate.hpp"

namespace {

namespace fs = std::filesystem;
using spyre::DataType;
using spyre::DeviceType;
using spyre::HostShape;
using spyre::SpyreTensor;
using spyre::SymbolicArguments;

// Small integers: DL16 holds them, their sums, and their products here exactly.
std::vector<float> integers(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> small(-3, 3);
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(small(random));
  return values;
}

std::vector<float> product(const std::vector<float>& a, const std::vector<float>& b, std::size_t m, std::size_t n,
                           std::size_t k) {
  std::vector<float> c(m * n);
  for (std::size_t i = 0; i < m; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      for (std::size_t x = 0; x < k; ++x) c[i * n + j] += a[i * k + x] * b[x * n + j];
    }
  }
  return c;
}

class PlanFiles : public ApiCard {
 protected:
  PlanFiles() {
    std::string name = (fs::temp_directory_path() / "spyre-plan-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) ADD_FAILURE() << "no temporary folder";
    folder_ = name;
  }
  ~PlanFiles() override { fs::remove_all(folder_); }

  fs::path folder(const char* name) const { return folder_ / name; }
  static SpyreTensor on_card(const std::vector<float>& values, std::vector<std::int64_t> shape) {
    return context().to_device(
        {HostShape::contiguous(DataType::Float32, std::move(shape)), std::as_bytes(std::span(values))},
        DeviceType::Dl16);
  }
  static SpyreTensor output(std::vector<std::int64_t> shape) {
    return context().empty(DataType::Float32, std::move(shape), DeviceType::Dl16);
  }
  static std::vector<float> back(const SpyreTensor& tensor) {
    const HostShape shape = HostShape::contiguous(DataType::Float32, tensor.shape());
    std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
    context().to_host(tensor, {shape, std::as_writable_bytes(std::span(values))});
    return values;
  }
  static spyre::Job kernel(const char* name, const spyre::DimensionExtents& extents) {
    return spyre::Job(spyre::CompiledKernel(context().kernel(name), extents));
  }
  // Of M × K by K × 64.
  static void expect_product(const spyre::ExecutionPlan& plan, std::size_t m, unsigned seed, std::size_t k = 64) {
    const auto a = integers(m * k, seed);
    const auto b = integers(k * 64, seed + 1);
    const auto rows = static_cast<std::int64_t>(m);
    const auto inner = static_cast<std::int64_t>(k);
    const std::array tensors{on_card(a, {rows, inner}), on_card(b, {inner, 64}), output({rows, 64})};
    auto stream = context().default_stream();
    spyre::LaunchKernel(stream, plan, tensors);
    stream.Synchronize(soon());
    EXPECT_EQ(back(tensors[2]), product(a, b, m, 64, k));
  }
  static std::uint64_t bytes() { return context().allocator().statistics().bytes.current; }

 private:
  fs::path folder_;
};

const spyre::DimensionExtents kMatmul{{"M", 64}, {"N", 64}, {"K", 64}};

// The program copies 8192 DL16 elements (tests/support/program_plan.cpp). The library brings its engine and a
// workspace.
TEST_F(PlanFiles, ADirectoryWithADeviceProgramIsLoadedAndLaunched) {
  auto plan = spyre::ExecutionPlan::from_directory(SPYRE_PROGRAM_PLAN);
  context().load(plan);
  const auto values = integers(8192, 3);
  const SpyreTensor tensors[] = {on_card(values, {64, 128}), on_card(integers(8192, 4), {64, 128})};
  auto stream = context().default_stream();
  spyre::LaunchKernel(stream, plan, tensors);
  std::vector<float> result(values.size());
  context().to_host(tensors[1],
                    {HostShape::contiguous(DataType::Float32, {64, 128}), std::as_writable_bytes(std::span(result))});
  EXPECT_EQ(result, values);
  const auto prepared = spyre::Prepare(stream, plan.jobs()[0], std::array{tensors[1], on_card(values, {64, 128})});
  prepared.Launch(stream);
  stream.Synchronize();
  EXPECT_EQ(plan.jobs()[0].binary()->name(), "copy");
}

TEST_F(PlanFiles, LoadOnceLaunchOftenWithSymbolicArgumentsOnAndOff) {
  for (const auto arguments : {SymbolicArguments::On, SymbolicArguments::Off}) {
    const fs::path directory = folder(arguments == SymbolicArguments::On ? "on" : "off");
    spyre::ExecutionPlan({kernel("matmul", kMatmul)}).write_directory(directory, arguments);
    auto plan = spyre::ExecutionPlan::from_directory(directory);
    EXPECT_FALSE(plan.loaded());
    context().load(plan);
    EXPECT_TRUE(plan.loaded());
    for (unsigned i = 0; i < 3; ++i) expect_product(plan, 64, 10 * i);
    expect_product(plan, 192, 7);      // tile by tile: a correction tensor for each
    expect_product(plan, 64, 8, 192);  // in passes over the reduced dimension
  }
}

TEST_F(PlanFiles, SeveralComputationsShareTheirCorrection) {
  spyre::ExecutionPlan({kernel("add", {{"M", 64}, {"N", 64}}), kernel("add", {{"M", 32}, {"N", 64}})})
      .write_directory(folder("plan"));
  auto plan = spyre::ExecutionPlan::from_directory(folder("plan"));
  context().load(plan);
  const auto a = integers(64 * 64, 1);
  const auto b = integers(64 * 64, 2);
  const std::array first{on_card(a, {64, 64}), on_card(b, {64, 64}), output({64, 64})};
  const std::array second{first[2], first[0], output({64, 64})};  // two tiles of 32 rows
  const std::array<std::span<const SpyreTensor>, 2> lists{first, second};
  auto stream = context().default_stream();
  spyre::LaunchKernel(stream, plan, lists, {});
  stream.Synchronize(soon());
  const auto sums = back(second[2]);
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], 2 * a[i] + b[i]) << i;
}

// Each stream has a correction slot of its own: neither launch gets the addresses of the other.
TEST_F(PlanFiles, OnePlanRunsOnSeveralStreamsAtOnce) {
  spyre::ExecutionPlan({kernel("add", {{"M", 32}, {"N", 64}})}).write_directory(folder("plan"));
  auto plan = spyre::ExecutionPlan::from_directory(folder("plan"));
  context().load(plan);
  constexpr std::size_t kStreams = 4;
  std::vector<std::vector<float>> values;
  std::vector<std::array<SpyreTensor, 3>> tensors;
  for (unsigned i = 0; i < kStreams; ++i) {
    values.push_back(integers(256 * 64, i));
    const SpyreTensor input = on_card(values.back(), {256, 64});
    tensors.push_back({input, input, output({256, 64})});
  }
  context().Synchronize(soon());
  for (const auto& of_stream : tensors) {
    auto stream = context().stream();
    spyre::LaunchKernel(stream, plan, of_stream);
  }
  context().Synchronize(soon());
  for (std::size_t i = 0; i < kStreams; ++i) {
    const auto sums = back(tensors[i][2]);
    for (std::size_t e = 0; e < sums.size(); ++e) ASSERT_EQ(sums[e], 2 * values[i][e]) << "stream " << i;
  }
}

TEST_F(PlanFiles, UnloadGivesProgramMemoryBack) {
  spyre::ExecutionPlan({kernel("matmul", kMatmul)}).write_directory(folder("plan"));
  auto plan = spyre::ExecutionPlan::from_directory(folder("plan"));
  const std::uint64_t before = bytes();
  context().load(plan);
  EXPECT_GT(bytes(), before);
  expect_product(plan, 64, 3);
  plan.unload();
  EXPECT_FALSE(plan.loaded());
  EXPECT_EQ(bytes(), before);
  EXPECT_THROW(expect_product(plan, 64, 3), spyre::InvalidArgument);
  context().load(plan);
  expect_product(plan, 64, 4);
}

// The gate is a function of the host: the launch behind it has not begun when the plan is unloaded.
TEST_F(PlanFiles, ALaunchUnderWayKeepsAnUnloadedProgram) {
  spyre::ExecutionPlan({kernel("matmul", kMatmul)}).write_directory(folder("plan"));
  auto plan = spyre::ExecutionPlan::from_directory(folder("plan"));
  context().load(plan);
  const auto a = integers(64 * 64, 5);
  const auto b = integers(64 * 64, 6);
  const std::array tensors{on_card(a, {64, 64}), on_card(b, {64, 64}), output({64, 64})};
  auto stream = context().stream();
  spyre::LaunchKernel(stream, plan, tensors);  // the stream has what it needs from now on
  stream.Synchronize(soon());
  const std::uint64_t loaded = bytes();
  svp::test::Gate gate;
  stream.LaunchHost(gate.passing());
  spyre::LaunchKernel(stream, plan, tensors);
  plan.unload();
  gate.open();
  stream.Synchronize(soon());
  EXPECT_LT(bytes(), loaded);
  EXPECT_EQ(back(tensors[2]), product(a, b, 64, 64, 64));
}

TEST_F(PlanFiles, AfterAFunctionResetLoadBringsThePlanBack) {
  spyre::ExecutionPlan({kernel("matmul", kMatmul)}).write_directory(folder("plan"));
  auto plan = spyre::ExecutionPlan::from_directory(folder("plan"));
  context().load(plan);
  expect_product(plan, 64, 1);
  const auto a = on_card(integers(64 * 64, 1), {64, 64});
  const std::array old{a, a, output({64, 64})};
  context().recover(spyre::ResetLevel::Function);
  EXPECT_FALSE(plan.loaded());
  EXPECT_FALSE(plan.jobs()[0].loaded());
  auto stream = context().default_stream();
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, old), spyre::InvalidArgument) << "the plan has to be loaded again";
  context().load(plan);
  EXPECT_TRUE(plan.loaded());
  EXPECT_THROW(spyre::LaunchKernel(stream, plan, old), spyre::InvalidAllocation) << "tensors have to be made again";
  expect_product(plan, 64, 2);
}

TEST_F(PlanFiles, AJobIsMadeOfABinaryPath) {
  spyre::ExecutionPlan({kernel("matmul", kMatmul)}).write_directory(folder("plan"), SymbolicArguments::Off);
  fs::path binary;
  for (const auto& entry : fs::directory_iterator(folder("plan"))) {
    if (entry.path().extension() == ".bin") binary = entry.path();
  }
  spyre::ExecutionPlan plan({spyre::Job(binary)});
  context().load(plan);
  expect_product(plan, 64, 8);
  EXPECT_THROW(spyre::Job(folder("none")), spyre::InvalidPlan);
}

TEST_F(PlanFiles, WhatIsNoPlanIsRefusedByName) {
  try {
    (void)spyre::ExecutionPlan::from_directory(folder("none"));
    ADD_FAILURE() << "not refused";
  } catch (const spyre::InvalidPlan& error) {
    EXPECT_EQ(error.field(), "directory");
  }
  const auto storage = context().allocator().allocate(128);
  const spyre::ExecutionPlan transfers({spyre::Job::fill(storage->allocation_index(), 128, 0)});
  EXPECT_THROW(transfers.write_directory(folder("plan")), spyre::InvalidPlan);
  EXPECT_FALSE(fs::exists(folder("plan")));
}

// ---- <spyre/program.hpp> --------------------------------------------------------------------------------------------

TEST_F(PlanFiles, TheNamesOfTheFirstRfcWork) {
  const spyre::SpyreCompute compute(context().kernel("add"), {{"M", 64}, {"N", 64}});
  const std::array before{spyre::PreProcessCompute::ProgramCorrection};
  const spyre::Instruction add(compute, before);
  spyre::Program program(context());
  program.AddInstruction(add);
  spyre::DMAEngine dma(context());
  dma.Copy(program);
  EXPECT_TRUE(program.plan().loaded());

  const auto a = integers(128 * 64, 1);
  const auto tensor_of = [&](std::int64_t rows) {
    return spyre::ConstHostTensor{HostShape::contiguous(DataType::Float32, {rows, 64}),
                                  std::as_bytes(std::span(a).first(static_cast<std::size_t>(rows) * 64))};
  };
  for (const std::int64_t rows : {64, 128, 32}) {
    const SpyreTensor input = dma.Copy(tensor_of(rows), DeviceType::Dl16);
    const std::array tensors{input, input, output({rows, 64})};
    if (rows == 64) {
      program.Launch(tensors);
    } else {
      EXPECT_THROW(program.Launch(tensors), spyre::TiledLaunchNotAllowed) << "exactly the compiled shape, not " << rows;
      program.LaunchTiled(tensors);
    }
    std::vector<float> sums(static_cast<std::size_t>(rows) * 64);
    dma.Copy(tensors[2], spyre::HostTensor{HostShape::contiguous(DataType::Float32, {rows, 64}),
                                           std::as_writable_bytes(std::span(sums))});
    for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], 2 * a[i]) << i;
  }

  const spyre::Instruction other(compute);
  EXPECT_THROW(program.RemoveInstruction(other), spyre::InvalidArgument);
  program.AddInstruction(other);
  EXPECT_EQ(program.size(), 2u);
  program.RemoveInstruction(add);
  EXPECT_EQ(program.size(), 1u);
  EXPECT_THROW(program.RemoveInstruction(add), spyre::InvalidArgument);
}

// "Exactly": of a view the strides as well, and a repeated row.
TEST_F(PlanFiles, AProgramTakesNoViewInOtherSteps) {
  spyre::Program program(context());
  program.AddInstruction(spyre::Instruction(spyre::SpyreCompute(context().kernel("add"), {{"M", 64}, {"N", 64}})));
  const auto a = integers(128 * 64, 5);
  const SpyreTensor all = on_card(a, {128, 64}), result = output({64, 64});
  const SpyreTensor every_other = all.slice(0, 0, 128, 2), first_row = all.narrow(0, 0, 1);
  const SpyreTensor row = context().contiguous(first_row), repeated = row.expand({64, 64});
  const SpyreTensor other = on_card(integers(64 * 64, 6), {64, 64});
  for (const SpyreTensor& view : {every_other, repeated, row}) {
    EXPECT_THROW(program.Launch(std::array{view, other, result}), spyre::TiledLaunchNotAllowed) << to_string(view);
    EXPECT_NO_THROW(program.LaunchTiled(std::array{view, other, result})) << to_string(view);
  }
  program.Launch(std::array{context().contiguous(every_other), other, result});
  const auto sums = back(result), addends = back(other);
  for (std::size_t i = 0; i < sums.size(); ++i) ASSERT_EQ(sums[i], a[i / 64 * 128 + i % 64] + addends[i]) << i;
}

TEST_F(PlanFiles, AProgramIsMadeOfAPlanAndLoadsItself) {
  spyre::ExecutionPlan({kernel("matmul", kMatmul)}).write_directory(folder("plan"));
  spyre::Program program(context(), spyre::ExecutionPlan::from_directory(folder("plan")));
  spyre::DMAEngine dma(context());
  const auto a = integers(64 * 64, 3);
  const auto b = integers(64 * 64, 4);
  const std::array tensors{on_card(a, {64, 64}), output({64, 64}), output({64, 64})};
  dma.Copy({HostShape::contiguous(DataType::Float32, {64, 64}), std::as_bytes(std::span(b))}, tensors[1]);
  program.Launch(tensors);
  EXPECT_EQ(back(tensors[2]), product(a, b, 64, 64, 64));
}

}  // namespace
