// SPDX-License-Identifier: Apache-2.0
// DMA and FILL: every byte of every size arrives where it should and none beside it; edges, alignments, both
// directions, many streams. The same through the runtime above: tests/device/runtime/transfer_test.cpp.
#include <algorithm>
#include <cstring>
#include <random>

#include "tests/conformance/provider.hpp"

namespace svp::conformance {
namespace {

using test::CompletionRecorder;
using test::Workbench;
using wire::kKiB;
using wire::kMiB;
using wire::kStickBytes;
using wire::Outcome;

constexpr std::byte kRubbish{0xEE};

class Transfers : public testing::Test {
 protected:
  static constexpr std::uint64_t kBackAt = 6 * kMiB;  // in host memory

  void SetUp() override {
    device_ = provider().open();
    bench_.emplace(*device_);
    host_ = device_->host_memory().first(12 * kMiB);
  }
  void TearDown() override {
    expect_healthy(*device_);
    bench_.reset();
    device_.reset();
  }

  void random_bytes(std::span<std::byte> bytes, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(random() >> (i % 7 * 8));
  }

  // Out from `at` of host memory to `offset` of the region and back; beside what comes back nothing has changed.
  void round_trip(std::uint64_t at, std::uint64_t offset, std::uint64_t bytes) {
    SCOPED_TRACE(std::to_string(bytes) + " bytes from host " + std::to_string(at) + " to region " +
                 std::to_string(offset));
    random_bytes(host_.subspan(at, bytes), bytes + at);
    const auto back = host_.subspan(kBackAt, bytes + 2 * kStickBytes);
    std::ranges::fill(back, kRubbish);
    auto end = bench_->run(Workbench::dma(bench_->host(at), bench_->tensor(offset), bytes));
    ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
    EXPECT_EQ(end.bytes, bytes);
    end = bench_->run(Workbench::dma(bench_->tensor(offset), bench_->host(kBackAt + kStickBytes), bytes));
    ASSERT_EQ(end.outcome, Outcome::Ok) << wire::name(end.status);
    EXPECT_LE(end.start_time, end.end_time);
    EXPECT_EQ(std::memcmp(host_.data() + at, back.data() + kStickBytes, bytes), 0);
    const auto is_rubbish = [](std::byte b) { return b == kRubbish; };
    EXPECT_TRUE(std::ranges::all_of(back.first(kStickBytes), is_rubbish)) << "before";
    EXPECT_TRUE(std::ranges::all_of(back.last(kStickBytes), is_rubbish)) << "behind";
  }

  std::unique_ptr<Device> device_;
  std::optional<Workbench> bench_;
  std::span<std::byte> host_;
};

TEST_F(Transfers, EveryNumberOfBytesUpToAFewSticksArrives) {
  for (std::uint64_t bytes = 1; bytes <= 3 * kStickBytes + 1; ++bytes) round_trip(0, 0, bytes);
}

TEST_F(Transfers, EveryAlignmentOfHostMemoryWorks) {
  for (std::uint64_t at = 0; at < kStickBytes; ++at) round_trip(at, at % 5 * kStickBytes, 333);
}

TEST_F(Transfers, StepsOfTheCardLeaveNoSeam) {
  for (const std::uint64_t step : {64 * kKiB, 256 * kKiB, 512 * kKiB, 1 * kMiB}) {
    for (const std::uint64_t bytes : {step - 1, step, step + 1, step + kStickBytes}) round_trip(17, 0, bytes);
  }
}

TEST_F(Transfers, TheFirstAndTheLastStickOfARegionAreReached) {
  round_trip(0, 0, kStickBytes);
  round_trip(0, Workbench::kRegionBytes - kStickBytes, kStickBytes);
  round_trip(0, 0, Workbench::kRegionBytes);
  // The ends of host memory as well.
  const std::uint64_t last = device_->host_memory().size() - kStickBytes;
  EXPECT_EQ(bench_->run(Workbench::dma(bench_->host(last), bench_->tensor(0), kStickBytes)).outcome, Outcome::Ok);
  EXPECT_EQ(bench_->run(Workbench::dma(bench_->tensor(0), bench_->host(last), kStickBytes)).outcome, Outcome::Ok);
}

TEST_F(Transfers, ATransferOverTheGranulesOfALargeRegionArrives) {
  const auto region = value_or_throw(device_->acquire_region(RegionType::Tensor, 6 * kMiB));
  const auto at = [&](std::uint64_t offset) {
    return wire::Endpoint{region.base.region_id, offset, region.generation, wire::EndpointKind::Region, {}};
  };
  constexpr std::uint64_t kBytes = 2 * kMiB + 2 * kStickBytes;
  for (const std::uint64_t edge : {2 * kMiB, 4 * kMiB - 4 * kStickBytes}) {
    random_bytes(host_.first(kBytes), edge);
    std::ranges::fill(host_.subspan(kBackAt, kBytes), kRubbish);
    ASSERT_EQ(bench_->run(Workbench::dma(bench_->host(0), at(edge - kStickBytes), kBytes)).outcome, Outcome::Ok);
    ASSERT_EQ(bench_->run(Workbench::dma(at(edge - kStickBytes), bench_->host(kBackAt), kBytes)).outcome, Outcome::Ok);
    EXPECT_EQ(std::memcmp(host_.data(), host_.data() + kBackAt, kBytes), 0) << edge;
  }
}

TEST_F(Transfers, AFillRepeatsItsPatternAndStopsAtItsEnd) {
  for (const std::uint64_t bytes : {1, 7, 8, 127, 128, 129, 4096, 300'001}) {
    ASSERT_EQ(bench_->run(Workbench::fill(bench_->tensor(0), 512 * kKiB, 0)).outcome, Outcome::Ok);
    const auto end = bench_->run(Workbench::fill(bench_->tensor(kStickBytes), bytes, 0x0807060504030201));
    ASSERT_EQ(end.outcome, Outcome::Ok);
    EXPECT_EQ(end.bytes, bytes);
    ASSERT_EQ(bench_->run(Workbench::dma(bench_->tensor(0), bench_->host(0), 512 * kKiB)).outcome, Outcome::Ok);
    for (std::uint64_t i = 0; i < 512 * kKiB; ++i) {
      const bool inside = i >= kStickBytes && i < kStickBytes + bytes;
      ASSERT_EQ(host_[i], inside ? static_cast<std::byte>(1 + i % 8) : std::byte{0}) << bytes << " bytes, at " << i;
    }
  }
}

TEST_F(Transfers, CopiesOnTheDeviceKeepTheirSource) {
  random_bytes(host_.first(256 * kKiB), 5);
  const std::vector<std::byte> sent(host_.begin(), host_.begin() + 256 * kKiB);
  ASSERT_EQ(bench_->run(Workbench::dma(bench_->host(0), bench_->tensor(0), 256 * kKiB)).outcome, Outcome::Ok);
  // Side by side, without a gap, in both directions.
  ASSERT_EQ(bench_->run(Workbench::dma(bench_->tensor(0), bench_->tensor(256 * kKiB), 256 * kKiB)).outcome,
            Outcome::Ok);
  ASSERT_EQ(bench_->run(Workbench::fill(bench_->tensor(0), 256 * kKiB, 0)).outcome, Outcome::Ok);
  ASSERT_EQ(bench_->run(Workbench::dma(bench_->tensor(256 * kKiB), bench_->tensor(0), 256 * kKiB)).outcome,
            Outcome::Ok);
  ASSERT_EQ(bench_->run(Workbench::dma(bench_->tensor(0), bench_->host(kBackAt), 512 * kKiB)).outcome, Outcome::Ok);
  EXPECT_EQ(std::memcmp(host_.data() + kBackAt, sent.data(), sent.size()), 0);
  EXPECT_EQ(std::memcmp(host_.data() + kBackAt + 256 * kKiB, sent.data(), sent.size()), 0);
}

TEST_F(Transfers, AStreamIsFirstInFirstOut) {
  constexpr std::uint64_t kRounds = 200;
  std::vector<wire::ControlBlock> blocks;
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    blocks.push_back(Workbench::fill(bench_->tensor(0), 4096, i));
    blocks.push_back(Workbench::dma(bench_->tensor(0), bench_->host(i * 4096), 4096));
  }
  CompletionRecorder recorder;
  for (std::size_t sent = 0; sent < blocks.size();) {
    std::vector<ControlBlockRequest> requests;
    for (std::size_t i = sent; i < std::min(sent + 100, blocks.size()); ++i)
      requests.push_back({&blocks[i], &recorder});
    sent += value_or_throw(device_->submit(0, requests));
    ASSERT_EQ(device_->wait_until([&] { return recorder.ended() + 50 > sent; }, test::soon()), WaitStatus::Done);
  }
  ASSERT_EQ(device_->wait_until([&] { return recorder.ended() == blocks.size(); }, test::soon()), WaitStatus::Done);
  for (std::uint64_t i = 0; i < kRounds; ++i) {
    const auto* words = reinterpret_cast<const std::uint64_t*>(host_.data() + i * 4096);
    ASSERT_TRUE(std::all_of(words, words + 512, [=](std::uint64_t w) { return w == i; })) << i;
  }
}

TEST_F(Transfers, TheStreamsOfAFunctionDoNotMix) {
  constexpr unsigned kStreams = 8;
  constexpr std::uint64_t kBytes = 128 * kKiB;
  std::vector<wire::ControlBlock> out;
  std::vector<wire::ControlBlock> back;
  CompletionRecorder recorder;
  for (unsigned s = 0; s < kStreams; ++s) {
    random_bytes(host_.subspan(s * kBytes, kBytes), s);
    out.push_back(Workbench::dma(bench_->host(s * kBytes), bench_->tensor(s * kBytes), kBytes));
    back.push_back(Workbench::dma(bench_->tensor(s * kBytes), bench_->host(kBackAt + s * kBytes), kBytes));
  }
  for (unsigned s = 0; s < kStreams; ++s) {
    const auto stream = value_or_throw(device_->open_stream(s % 2 != 0 ? StreamPriority::High : StreamPriority::Low));
    const ControlBlockRequest requests[] = {{&out[s], &recorder}, {&back[s], &recorder}};
    ASSERT_EQ(value_or_throw(device_->submit(stream, requests)), 2u);
  }
  ASSERT_EQ(device_->wait_until([&] { return recorder.ended() == 2 * kStreams; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(std::memcmp(host_.data(), host_.data() + kBackAt, kStreams * kBytes), 0);
}

TEST_F(Transfers, ATransferBeyondItsBudgetIsATimeoutThatSaysHowFarItCame) {
  const auto region = value_or_throw(device_->acquire_region(RegionType::Tensor, 64 * kMiB));
  auto block =
      Workbench::fill({region.base.region_id, 0, region.generation, wire::EndpointKind::Region, {}}, 64 * kMiB, 1);
  block.header.budget = 1;  // a tick
  const auto end = bench_->run(block);
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  EXPECT_EQ(end.status, wire::Status::BudgetExpired);
  EXPECT_GT(end.bytes, 0u);
  EXPECT_LT(end.bytes, 64 * kMiB);
  value_or_throw(device_->reset_stream(0));
}

}  // namespace
}  // namespace svp::conformance
