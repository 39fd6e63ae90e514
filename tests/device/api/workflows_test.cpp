// SPDX-License-Identifier: Apache-2.0
// The six workflows of the RFC "Program Execution Pipeline", through the API, on a booted card. Each checks its result
// and the sequence of control blocks that the RFC draws, as a trace of this process tells it (docs/trace.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <span>
#include <spyre/spyre.hpp>
#include <string>
#include <vector>

#include "host_driver/trace/trace_file.hpp"
#include "shared/control_block.hpp"
#include "tests/device/api/api_card.hpp"
#include "tests/support/gate.hpp"

namespace {

using spyre::DataType;
using spyre::DeviceType;
using spyre::HostShape;
using spyre::SpyreTensor;
using svp::trace::Entry;
using svp::trace::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

// What all contexts of this process record into: they look at the variable once. Goes with the process.
class TraceFolder {
 public:
  TraceFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "workflows-XXXXXX").string();
    path_ = ::mkdtemp(name.data());
    ::setenv("SPYRE_TRACE", path_.c_str(), 1);
  }
  ~TraceFolder() { std::filesystem::remove_all(path_); }
  TraceFolder(const TraceFolder&) = delete;
  TraceFolder& operator=(const TraceFolder&) = delete;
  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

class Workflows : public ApiCard {
 protected:
  static constexpr std::int64_t kTile = 128;

  // The sequences of the RFC: each launch sends its correction.
  static void SetUpTestSuite() {
    spyre::ContextOptions options;
    options.elide_corrections = false;
    open_with_trace(std::move(options));
  }
  static void open_with_trace(spyre::ContextOptions options) {
    (void)folder();
    open(std::move(options));
  }
  // What is recorded from here on is this test's.
  Workflows() : before_(everything().size()) {}

  // Control blocks of a stream, as the card ran them: "DMA", "DMA correction", "COMPUTE matmul".
  std::vector<std::string> blocks(spyre::SpyreStream stream = context().default_stream()) const {
    return blocks_if([index = stream.stream_index()](std::uint32_t of) { return of == index; });
  }
  // The same of all streams but the default one.
  std::vector<std::string> blocks_elsewhere() const {
    return blocks_if([](std::uint32_t of) { return of != context().default_stream().stream_index(); });
  }
  template <typename Chosen>
  std::vector<std::string> blocks_if(Chosen chosen) const {
    std::vector<Entry> found = recorded(Kind::Block);
    std::erase_if(found, [&](const Entry& entry) { return !chosen(static_cast<std::uint32_t>(entry.stream)); });
    std::ranges::sort(found, {}, [](const Entry& entry) { return std::pair(entry.device_begin, entry.sequence); });
    std::vector<std::string> names;
    for (const Entry& entry : found) {
      EXPECT_EQ(entry.outcome, static_cast<int>(wire::Outcome::Ok));
      std::string block(wire::name(static_cast<wire::Opcode>(entry.opcode)));
      names.push_back(entry.text.empty() ? block : block + " " + entry.text);
    }
    return names;
  }
  std::size_t host_operations() const { return recorded(Kind::HostOperation).size(); }

  static SpyreTensor filled(std::int64_t rows, std::int64_t columns, float value) {
    const std::vector<float> values(static_cast<std::size_t>(rows * columns), value);
    return context().to_device(
        {HostShape::contiguous(DataType::Float32, {rows, columns}), std::as_bytes(std::span(values))},
        DeviceType::Dl16);
  }
  static std::vector<float> read(const SpyreTensor& tensor, std::int64_t rows, std::int64_t columns) {
    std::vector<float> values(static_cast<std::size_t>(rows * columns));
    context().to_host(
        tensor, {HostShape::contiguous(DataType::Float32, {rows, columns}), std::as_writable_bytes(std::span(values))});
    return values;
  }
  static spyre::ExecutionPlan matmul() { return loaded("matmul", {{"M", kTile}, {"N", kTile}, {"K", kTile}}); }

 private:
  static const std::filesystem::path& folder() {
    static const TraceFolder folder;
    return folder.path();
  }
  static std::vector<Entry> everything() {
    const auto traces = svp::value_or_throw(svp::trace::read_folder(folder()));
    EXPECT_EQ(traces.size(), 1u);
    return traces.empty() ? std::vector<Entry>{} : traces[0].entries;
  }
  std::vector<Entry> recorded(Kind kind) const {
    std::vector<Entry> all = everything();
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(before_, all.size())));
    std::erase_if(all, [kind](const Entry& entry) { return entry.kind != kind; });
    return all;
  }

  std::size_t before_;
};

// 1: Tensor Allocation and Transfer.
TEST_F(Workflows, Workflow1AllocationAndTransfer) {
  auto stream = context().default_stream();
  svp::test::Gate gate;
  stream.LaunchHost(gate.passing());
  const SpyreTensor tensor = filled(kTile, kTile, 3);
  EXPECT_THAT(blocks(), IsEmpty()) << "the call has returned, and nothing of it has run";
  EXPECT_FALSE(stream.Query());
  gate.open();
  stream.Synchronize(soon());
  EXPECT_THAT(blocks(), ElementsAre("DMA"));
  EXPECT_THAT(read(tensor, kTile, kTile), testing::Each(3.0F));
}

// 2: Compilation and Loading.
TEST_F(Workflows, Workflow2Loading) {
  spyre::ExecutionPlan plan;
  plan.add(spyre::Job(spyre::CompiledKernel(context().kernel("matmul"), {{"M", kTile}, {"N", kTile}, {"K", kTile}})));
  plan.add(spyre::Job(spyre::CompiledKernel(context().kernel("add"), {{"M", kTile}, {"N", kTile}})));
  EXPECT_FALSE(plan.loaded());
  context().load(plan);
  context().Synchronize(soon());
  EXPECT_TRUE(plan.loaded());
  EXPECT_THAT(blocks_elsewhere(), ElementsAre("DMA", "DMA", "EVENT_SIGNAL")) << "a transfer for each binary";
  EXPECT_THAT(blocks(), IsEmpty()) << "loading leaves the default stream alone";
  // The plan is used again and again: its binaries stay where they are.
  const SpyreTensor a = filled(kTile, kTile, 1), b = filled(kTile, kTile, 2), c = filled(kTile, kTile, 0);
  context().Synchronize(soon());
  const std::size_t before = blocks().size();
  auto stream = context().default_stream();
  for (int i = 0; i < 3; ++i) spyre::LaunchKernel(stream, plan, std::array{a, b, c});
  stream.Synchronize(soon());
  const auto all = blocks();
  EXPECT_THAT(std::vector(all.begin() + static_cast<std::ptrdiff_t>(before), all.end()),
              ElementsAre("DMA correction", "COMPUTE matmul", "DMA correction", "COMPUTE add",  //
                          "DMA correction", "COMPUTE matmul", "DMA correction", "COMPUTE add",  //
                          "DMA correction", "COMPUTE matmul", "DMA correction", "COMPUTE add"));
}

class WorkflowsByDefault : public Workflows {
 protected:
  static void SetUpTestSuite() { open_with_trace({}); }
};

TEST_F(WorkflowsByDefault, ALaunchOfTheSameTensorsIsOneBlock) {
  spyre::ExecutionPlan plan;
  plan.add(spyre::Job(spyre::CompiledKernel(context().kernel("add"), {{"M", kTile}, {"N", kTile}})));
  context().load(plan);
  const SpyreTensor a = filled(kTile, kTile, 1), b = filled(kTile, kTile, 2), c = filled(kTile, kTile, 0);
  context().Synchronize(soon());
  const std::size_t before = blocks().size();
  auto stream = context().default_stream();
  for (const auto& tensors : {std::array{a, b, c}, std::array{a, b, c}, std::array{b, c, a}, std::array{a, b, c}}) {
    spyre::LaunchKernel(stream, plan, tensors);
  }
  stream.Synchronize(soon());
  const auto all = blocks();
  EXPECT_THAT(std::vector(all.begin() + static_cast<std::ptrdiff_t>(before), all.end()),
              ElementsAre("DMA correction", "COMPUTE add", "COMPUTE add",  //
                          "DMA correction", "COMPUTE add", "COMPUTE add"));
}

// What has to be loaded waits for no launch: neither load() nor the first use of an operation.
TEST_F(Workflows, LoadingGoesOnWhileTheDefaultStreamIsHeld) {
  const SpyreTensor a = filled(kTile, kTile, -1);
  context().Synchronize(soon());
  auto held = context().default_stream();
  auto other = context().stream();
  const std::size_t before = blocks(held).size();
  svp::test::Gate gate;
  held.LaunchHost(gate.passing());
  spyre::ExecutionPlan plan;
  plan.add(spyre::Job(spyre::CompiledKernel(context().kernel("add"), {{"M", kTile}, {"N", kTile}})));
  context().load(plan);
  EXPECT_TRUE(plan.loaded());
  const SpyreTensor sum = context().empty(DataType::Float32, {kTile, kTile}, DeviceType::Dl16);
  spyre::LaunchKernel(other, plan, std::array{a, a, sum});
  const SpyreTensor positive = spyre::ops::relu(context(), sum, {.stream = other});
  other.Synchronize(soon());
  EXPECT_FALSE(held.Query()) << "the default stream is held all the time";
  EXPECT_EQ(blocks(held).size(), before) << "nothing of it ran on the default stream";
  gate.open();
  EXPECT_THAT(read(sum, kTile, kTile), testing::Each(-2.0F));
  EXPECT_THAT(read(positive, kTile, kTile), testing::Each(0.0F));
}

// 3: Detailed Execution, shapes that match.
TEST_F(Workflows, Workflow3LaunchKernelToHardware) {
  const auto plan = matmul();
  const SpyreTensor a = filled(kTile, kTile, 1), b = filled(kTile, kTile, 0.5F), c = filled(kTile, kTile, 0);
  auto stream = context().stream();
  context().Synchronize(soon());
  svp::test::Gate gate;
  stream.LaunchHost(gate.passing());
  spyre::LaunchKernel(stream, plan, std::array{a, b, c});
  EXPECT_EQ(host_operations(), 1u) << "on the CPU, and no control block";
  EXPECT_THAT(blocks(stream), IsEmpty()) << "the host returns after enqueuing";
  gate.open();
  stream.Synchronize(soon());
  EXPECT_THAT(blocks(stream), ElementsAre("DMA correction", "COMPUTE matmul"));
  EXPECT_THAT(read(c, kTile, kTile), testing::Each(64.0F));
}

// 4: Tiled Execution.
TEST_F(Workflows, Workflow4TiledExecution) {
  const auto plan = matmul();
  const SpyreTensor a = filled(4 * kTile, kTile, 1), b = filled(kTile, kTile, 0.5F), c = filled(4 * kTile, kTile, 0);
  auto stream = context().stream();
  context().Synchronize(soon());
  EXPECT_THROW(stream.Launch(plan.jobs()[0], std::array{a, b, c}, {.allow_tiled_launch = false}),
               spyre::TiledLaunchNotAllowed);
  EXPECT_EQ(host_operations(), 0u);
  spyre::LaunchKernel(stream, plan, std::array{a, b, c});
  stream.Synchronize(soon());
  EXPECT_EQ(host_operations(), 4u);
  EXPECT_THAT(blocks(stream), ElementsAre("DMA correction", "COMPUTE matmul", "DMA correction", "COMPUTE matmul",
                                          "DMA correction", "COMPUTE matmul", "DMA correction", "COMPUTE matmul"));
  EXPECT_THAT(read(c, 4 * kTile, kTile), testing::Each(64.0F));
}

// 5: End-to-End, on the default stream.
TEST_F(Workflows, Workflow5EndToEnd) {
  const SpyreTensor a = filled(4 * kTile, kTile, 2);
  const SpyreTensor b = filled(kTile, kTile, 0.25F);
  const SpyreTensor result = context().empty(DataType::Float16, {4 * kTile, kTile});
  const auto plan = matmul();
  auto stream = context().default_stream();
  spyre::LaunchKernel(stream, plan, std::array{a, b, result});
  EXPECT_THAT(read(result, 4 * kTile, kTile), testing::Each(64.0F));
  EXPECT_THAT(blocks(), ElementsAre("DMA", "DMA",                        //
                                    "DMA correction", "COMPUTE matmul",  //
                                    "DMA correction", "COMPUTE matmul",  //
                                    "DMA correction", "COMPUTE matmul",  //
                                    "DMA correction", "COMPUTE matmul",  //
                                    "DMA"));
  EXPECT_EQ(host_operations(), 4u);
}

// 6: Multi-Stream.
TEST_F(Workflows, Workflow6TwoStreams) {
  const auto first = matmul();
  const auto second = loaded("add", {{"M", kTile}, {"N", kTile}});
  const SpyreTensor a = filled(kTile, kTile, 1), b = filled(kTile, kTile, 0.5F);
  const SpyreTensor product = filled(kTile, kTile, 0), sum = filled(kTile, kTile, 0);
  context().Synchronize(soon());
  auto stream_a = context().stream(), stream_b = context().stream();
  svp::test::Gate gate;
  stream_a.LaunchHost(gate.passing());
  spyre::LaunchKernel(stream_a, first, std::array{a, b, product});
  spyre::LaunchKernel(stream_b, second, std::array{a, b, sum});
  stream_b.Synchronize(soon());
  EXPECT_THAT(blocks(stream_b), ElementsAre("DMA correction", "COMPUTE add")) << "it does not wait for the other one";
  EXPECT_THAT(blocks(stream_a), IsEmpty());
  gate.open();
  stream_a.Synchronize(soon());
  EXPECT_THAT(blocks(stream_a), ElementsAre("DMA correction", "COMPUTE matmul"));
  EXPECT_THAT(read(product, kTile, kTile), testing::Each(64.0F));
  EXPECT_THAT(read(sum, kTile, kTile), testing::Each(1.5F));
}

}  // namespace
