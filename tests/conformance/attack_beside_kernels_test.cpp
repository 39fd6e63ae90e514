// SPDX-License-Identifier: Apache-2.0
// The attacks on a card that runs kernels: launches with spoilt blocks and segment tables around a good image, while a
// neighbour's kernels compute. Its results are those of the golden model, bit for bit.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>

#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"
#include "shared/memory_order.hpp"
#include "tests/conformance/attacker.hpp"
#include "tests/conformance/kernel_provider.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace svp::conformance {
namespace {

using svp::SpyreTensor;

// A neighbour that adds two tensors again and again.
class Adder {
 public:
  Adder() : context_(kernel_provider().open_bystander_context()) {
    std::mt19937_64 random(attack_seed());
    for (auto* values : {&a_, &b_}) {
      values->resize(kElements);
      for (auto& value : *values) value = wire::dl16_from_fp32(static_cast<float>(random() % 2000) / 16 - 60);
    }
    expected_.resize(kElements);
    golden::add_dl16(a_, b_, expected_);
    tensors_ = {to_device(a_), to_device(b_), context_->empty(DataType::Float32, {kRows, kColumns}, DeviceType::Dl16)};
    plan_.emplace({Job(CompiledKernel(context_->kernel("add"), {{"M", kRows}, {"N", kColumns}}))});
    context_->load(*plan_);
  }
  ~Adder() {
    stop_ = true;
    if (worker_.joinable()) worker_.join();  // bounded: the flag is set; each of its waits is bounded
  }

  void start() {
    worker_ = std::thread([this] {
      try {
        for (; !stop_; ++rounds_) wrong_ += !add_once();
      } catch (const Error& error) {
        ADD_FAILURE() << error.what();
      }
    });
  }
  void stop() {
    const std::uint64_t before = rounds_;
    for (const auto limit = test::soon(); rounds_ < before + 2 && Device::Clock::now() < limit;)
      std::this_thread::yield();
    EXPECT_GE(rounds_, before + 2) << "the neighbour does not get on";
    stop_ = true;
    worker_.join();  // bounded: the flag is set; each of its waits is bounded
    EXPECT_EQ(wrong_, 0u) << "the neighbour computed something else";
  }

 private:
  static constexpr std::int64_t kRows = 64;
  static constexpr std::int64_t kColumns = 64;
  static constexpr std::size_t kElements = kRows * kColumns;

  static HostShape shape() { return HostShape::contiguous(DataType::Float32, {kRows, kColumns}); }
  SpyreTensor to_device(const std::vector<std::uint16_t>& values) {
    std::vector<float> floats(values.size());
    std::ranges::transform(values, floats.begin(), [](std::uint16_t v) { return wire::fp32_from_dl16(v); });
    return context_->to_device({shape(), std::as_bytes(std::span(floats))}, DeviceType::Dl16);
  }
  bool add_once() {
    svp::SpyreStream stream = context_->default_stream();
    LaunchKernel(stream, *plan_, tensors_);
    std::vector<float> floats(kElements);
    context_->to_host(tensors_[2], {shape(), std::as_writable_bytes(std::span(floats))}, stream);
    std::vector<std::uint16_t> sum(kElements);
    std::ranges::transform(floats, sum.begin(), [](float v) { return wire::dl16_from_fp32(v); });
    return sum == expected_;
  }

  std::unique_ptr<svp::Context> context_;
  std::vector<std::uint16_t> a_, b_, expected_;
  std::vector<SpyreTensor> tensors_;
  std::optional<ExecutionPlan> plan_;
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::atomic<std::uint64_t> wrong_{0};
  std::thread worker_;
};

TEST(AttacksBesideKernels, SpoiltLaunchesEndTypedAndTheNeighboursKernelsComputeRight) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  Adder neighbour;
  {
    Attacker attacker({}, kernel_provider().kernel_image("empty"));
    ASSERT_TRUE(attacker.begin());
    neighbour.start();
    attacker.control_blocks(attack_seed() + 6, 2000);
    EXPECT_GT(attacker.refused(), attacker.attempts() / 3);
    const auto stats = attacker.driver().admin(attacker.driver().admin_request(wire::AdminCommand::Stats)).values.stats;
    EXPECT_GT(stats.launches, 0u) << "no attempt was good enough to be launched";
    attacker.expect_works();
  }
  neighbour.stop();
  provider().expect_alive();
}

class StreamsUnderKernels : public testing::Test {
 protected:
  void SetUp() override {
    epoch_ = driver_.header().boot_epoch;
    neighbour_.start();
  }
  void TearDown() override {
    neighbour_.stop();
    EXPECT_EQ(driver_.header().boot_epoch, epoch_) << "the firmware restarted";
    ASSERT_TRUE(driver_.bring_up());
    fwtest::StreamHandle stream;
    EXPECT_EQ(driver_.run(driver_.nop(stream)).outcome, wire::Outcome::Ok);
    EXPECT_EQ(driver_.set_status(0), 0u);
    provider().expect_alive();
  }
  void wait_started(const fwtest::StreamHandle& stream, std::uint64_t sequence) {
    const auto* started = driver_.at<std::uint64_t>(wire::kStartedSequences.offset) + stream.id;
    for (const auto limit = test::soon(); wire::load_acquire(*started) != sequence;) {
      ASSERT_LT(Device::Clock::now(), limit) << "the kernel did not start";
      slot_.pump();
    }
  }

  Adder neighbour_;
  BareSlot slot_{provider().slot()};
  fwtest::RawDriver driver_{slot_.window(), [this] { slot_.pump(); }};
  std::uint64_t epoch_ = 0;
};

TEST_F(StreamsUnderKernels, UnawaitedRequestsAreAnsweredAndReachNobodyElse) {
  SCOPED_TRACE("SPYRE_SEED=" + std::to_string(attack_seed()));
  raw::UnawaitedRequests tenant(driver_,
                                {{kernel_provider().kernel_image("spin")}, {kernel_provider().kernel_image("empty")}},
                                attack_seed() + 8);
  tenant.begin();
  for (int i = 0; i < 10'000; ++i) tenant.step();
  tenant.drain();
  print_counts(tenant);
  EXPECT_GT(tenant.blocks_ok(), 0u);
  EXPECT_GT(tenant.queue_resets(), 0u);
  EXPECT_GT(tenant.requests(), 0u);
}

// A kernel that has to be stopped keeps the close waiting: blocks of the next incarnation come meanwhile.
TEST_F(StreamsUnderKernels, ACloseLeavesNothingOfTheNextIncarnationBehind) {
  constexpr int kRounds = 20;
  constexpr unsigned kCopies = 500;  // more than the card fetches while the kernel is being stopped
  ASSERT_TRUE(driver_.bring_up());
  const auto image = kernel_provider().kernel_image("spin");
  const auto program = driver_.acquire(2 * wire::kMiB, wire::RegionType::Program).value();
  fwtest::StreamHandle loader;
  std::memcpy(slot_.window().data() + wire::kHostMemoryOffset, image.data(), image.size());
  ASSERT_EQ(driver_
                .run(driver_.dma(loader, fwtest::RawDriver::host(wire::kHostMemoryOffset),
                                 fwtest::RawDriver::device(program, 0), image.size()))
                .outcome,
            wire::Outcome::Ok);
  for (int round = 0; round < kRounds; ++round) {
    auto victim = driver_.open_stream();
    ASSERT_TRUE(victim) << "round " << round;
    driver_.submit(driver_.compute(*victim, program, 0, image.size(), 0));
    wait_started(*victim, 1);
    const auto close = driver_.send_admin(driver_.stream_request(wire::AdminCommand::StreamClose, *victim));
    for (unsigned i = 0; i < kCopies; ++i) {
      fwtest::StreamHandle next{victim->id, victim->incarnation + 1, 1};
      driver_.submit(driver_.compute(next, program, 0, image.size(), 0));
      if (i == kCopies / 4) slot_.pump();
    }
    const auto closed = driver_.wait_admin(close);
    ASSERT_TRUE(closed);
    EXPECT_EQ(closed->outcome, wire::Outcome::Ok);
    for (const auto& end : driver_.wait_for(kCopies + 1)) {
      if (end.completion.incarnation != victim->incarnation) EXPECT_EQ(end.completion.outcome, wire::Outcome::Rejected);
    }
    ASSERT_TRUE(driver_.reset_queue(wire::kControlBlockQueue)) << "round " << round;
    ASSERT_TRUE(driver_.set_queue(wire::kControlBlockQueue));
  }
}

}  // namespace
}  // namespace svp::conformance
