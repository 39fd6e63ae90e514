// SPDX-License-Identifier: Apache-2.0
// What one function may wait for others, counted. With n functions at work, before a quantum of its own a function
// waits for at most one quantum of each of the others, times its weight; and a part that wants a core for at most the
// slices that the others' weights give them. The card counts both for every function (FUNCTION_QUERY, waited_*); here
// the counts are held against what the test sees itself, under a clock that work alone moves on.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "firmware/core/dispatcher.hpp"
#include "tests/unit/firmware/core/played_kernels.hpp"

namespace {

using fwtest::Program;
using fwtest::RawDriver;
using fwtest::RegionHandle;
using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::Outcome;

constexpr std::uint64_t kRegionBytes = 16 * wire::kMiB;
constexpr std::uint64_t kNoWatchdog = 1'000'000;  // slices
// Of one function of weight 1: its bytes, or the step in which its time was over, and what the last block or command of
// it is charged with besides its bytes.
constexpr std::uint64_t kQuantumAndStepBytes = fw::kQuantumBytes + fw::kDmaStepBytes + fw::AddressSpaces::kBytesOfALoad;

enum class Kind { Nops, SingleNops, Fills, ShortFills, Strided, Refused, Admin, Kernels, Calls, Buffers };
constexpr Kind kKinds[] = {Kind::Nops,    Kind::SingleNops, Kind::Fills,   Kind::ShortFills, Kind::Strided,
                           Kind::Refused, Kind::Admin,      Kind::Kernels, Kind::Calls,      Kind::Buffers};

// A function that keeps the card as busy with one kind of work as it can.
class Neighbour {
 public:
  Neighbour(fwtest::TestCard& card, unsigned slot, Kind kind) : driver_(card.driver(slot)), kind_(kind) {
    EXPECT_TRUE(driver_.bring_up(wire::kMandatoryFeatures));
    region_ = driver_.acquire(kRegionBytes).value();
    programs_ = fwtest::load_programs(driver_, stream_);
    if (kind == Kind::Calls || kind == Kind::Buffers) write_buffer();
    if (kind == Kind::Calls) buffer_ = driver_.admin(create()).values.buffer;
    if (kind != Kind::Kernels) return;
    for (unsigned i = 0; i < fw::kContextsPerCore; ++i) {
      StreamHandle own = driver_.open_stream().value();
      auto block = fwtest::launch_of(driver_, own, programs_, Program::Endless);
      block.header.budget = kNoWatchdog;
      driver_.submit(block);
    }
  }
  void top_up() {
    ended_ += driver_.collect().size();
    switch (kind_) {
      case Kind::Nops: return fill_ring(120, [&] { return driver_.nop(stream_); });
      case Kind::SingleNops: return fill_ring(1, [&] { return driver_.nop(stream_); });
      case Kind::Fills: return fill_ring(4, [&] { return driver_.fill(stream_, region_, 0, kRegionBytes, 1); });
      case Kind::ShortFills:
        return fill_ring(1, [&] { return driver_.fill(stream_, region_, 0, 100 * wire::kKiB, 1); });
      case Kind::Strided:
        return fill_ring(4, [&] {
          // A million bytes, one by one.
          const wire::StridedLevel levels[] = {{wire::kMiB, 1, 3}};
          const auto from = RawDriver::host(wire::kHostMemoryOffset);
          return driver_.strided(stream_, from, RawDriver::device(region_, 0), 1, levels);
        });
      case Kind::Refused:
        return fill_ring(120, [&] {
          auto block = driver_.nop(stream_);
          block.header.generation += 1;
          return block;
        });
      case Kind::Admin: return ask();
      case Kind::Kernels: return;
      case Kind::Calls:
        return fill_ring(4, [&] {
          auto block = driver_.nop(stream_);
          block.header.opcode = wire::Opcode::Call;
          block.payload.call = {buffer_.buffer, 0, buffer_.epoch, 0, {}};
          return block;
        });
      case Kind::Buffers: return make_buffers();
    }
  }
  std::uint64_t ended() const { return ended_; }

 private:
  template <typename Make>
  void fill_ring(std::uint64_t most, Make make) {
    for (; submitted_ < ended_ + most; ++submitted_) driver_.submit(make());
  }
  // As large as a buffer can be; every eighth block fills so much that its quantum is over.
  void write_buffer() {
    auto* blocks = driver_.at<wire::ControlBlock>(wire::kHostMemoryOffset);
    for (unsigned i = 0; i < wire::kMaxBufferBlocks; ++i) {
      wire::ControlBlock block{};
      block.header.magic = wire::kControlBlockMagic;
      block.header.sticks = 1;
      block.header.opcode = i % 8 == 7 ? wire::Opcode::Fill : wire::Opcode::Nop;
      if (i % 8 == 7) {
        block.payload.fill.destination = RawDriver::device(region_, 0);
        block.payload.fill.bytes = kRegionBytes;
      }
      blocks[i] = block;
    }
  }
  wire::AdminRequest create() {
    auto request = driver_.admin_request(AdminCommand::BufferCreate);
    request.arguments.buffer_create = {wire::kHostMemoryOffset, wire::kMaxBufferBlocks, wire::kMaxBufferDataBytes};
    return request;
  }
  // Made and destroyed, again and again.
  void make_buffers() {
    std::vector<std::uint16_t> next;
    for (const std::uint16_t slot : asked_) {
      const auto reply = driver_.take_admin(slot);
      if (!reply) {
        next.push_back(slot);
        continue;
      }
      EXPECT_EQ(reply->outcome, Outcome::Ok) << wire::name(reply->status);
      ++ended_;
      if (reply->values.buffer.epoch == 0) continue;  // of a destroy
      auto destroy = driver_.admin_request(AdminCommand::BufferDestroy);
      destroy.arguments.buffer_destroy = {reply->values.buffer.buffer, 0, reply->values.buffer.epoch};
      next.push_back(driver_.send_admin(destroy));
    }
    asked_ = std::move(next);
    while (asked_.size() < 8) asked_.push_back(driver_.send_admin(create()));
  }
  void ask() {
    for (const std::uint16_t slot : asked_) ended_ += driver_.wait_admin(slot).has_value();
    asked_.clear();
    while (asked_.size() < 8) asked_.push_back(driver_.send_admin(driver_.admin_request(AdminCommand::Query)));
  }

  RawDriver& driver_;
  const Kind kind_;
  StreamHandle stream_;
  RegionHandle region_{}, programs_{};
  decltype(wire::AdminReply::Values::buffer) buffer_{};
  std::vector<std::uint16_t> asked_;
  std::uint64_t submitted_ = 0;
  std::uint64_t ended_ = 0;
};

class FairQuanta : public testing::TestWithParam<Kind> {
 protected:
  static constexpr unsigned kVictim = 5;  // slot; the others are those before it
  explicit FairQuanta()
      : card_({.virtual_functions = 4,
               .region_bytes = 512 * wire::kMiB,
               .kernel = kernels_.player(),
               .clock = native::WorkClock{},
               .page_bytes = 512 * wire::kMiB}) {
    kernels_.board = &card_.board();
    EXPECT_TRUE(victim_.bring_up(wire::kMandatoryFeatures));
    region_ = victim_.acquire(kRegionBytes).value();
    programs_ = fwtest::load_programs(victim_, stream_);
  }
  void add(unsigned slot, Kind kind) { neighbours_.push_back(std::make_unique<Neighbour>(card_, slot, kind)); }
  // Forgets what was waited for while the functions were brought up.
  void forget_waits() {
    for (unsigned f = 0; f < card_.card().functions.count(); ++f) card_.function(f).waiting.forget();
  }
  void step() {
    for (const auto& neighbour : neighbours_) neighbour->top_up();
    fw::loop_step(card_.card(), quiet_);
  }
  wire::Completion run(const wire::ControlBlock& block) {
    victim_.submit(block);
    for (int i = 0; i < 100'000; ++i) {
      step();
      if (const auto ended = victim_.collect(); !ended.empty()) return ended[0].completion;
    }
    ADD_FAILURE() << "it never ended";
    return {};
  }
  // Jobs of all kinds, at moments that a seed chooses.
  void work(unsigned jobs) {
    std::mt19937 random(11);
    for (unsigned i = 0; i < jobs; ++i) {
      for (auto quiet = random() % 300; quiet != 0; --quiet) step();
      const auto end = run(i % 3 == 0   ? victim_.nop(stream_)
                           : i % 3 == 1 ? victim_.fill(stream_, region_, 0, wire::kMiB, i)
                                        : fwtest::launch_of(victim_, stream_, programs_, Program::Slices));
      ASSERT_EQ(end.outcome, Outcome::Ok);
    }
  }
  wire::AdminReply::Values query() {
    auto request = victim_.admin_request(AdminCommand::FunctionQuery);
    const auto slot = victim_.send_admin(request);
    for (int i = 0; i < 10'000; ++i) {
      step();
      if (const auto reply = victim_.take_admin(slot)) return reply->values;
    }
    ADD_FAILURE() << "it was never answered";
    return {};
  }
  // `others` functions are at work beside the victim, of weight 1.
  void expect_fair(unsigned others) {
    for (unsigned f = 1; f < card_.card().functions.count(); ++f) {
      const fw::Served& waited = card_.function(f).waiting.most();
      EXPECT_LE(waited.quanta, others) << "function " << f;
      EXPECT_LE(waited.bytes, (others + 1) * kQuantumAndStepBytes) << "function " << f;
      EXPECT_LE(card_.card().run_queues.most_waited_slices(f), others) << "function " << f;
    }
  }

  fwtest::PlayedKernels kernels_;
  fwtest::TestCard card_;
  RawDriver& victim_ = card_.driver(kVictim);
  StreamHandle stream_;
  RegionHandle region_{}, programs_{};
  std::vector<std::unique_ptr<Neighbour>> neighbours_;
  unsigned quiet_ = 0;
};

TEST_P(FairQuanta, AFunctionWaitsForOneQuantumOfEachOther) {
  for (unsigned slot = 2; slot < kVictim; ++slot) add(slot, GetParam());
  for (int i = 0; i < 100; ++i) step();
  forget_waits();
  work(60);
  expect_fair(3);
  const auto values = query().function;
  EXPECT_EQ(values.waited_quanta, card_.function(kVictim).waiting.most().quanta);
  if (GetParam() == Kind::Kernels) {
    EXPECT_EQ(values.waited_slices, 3u) << "there were neighbours";
  } else {
    EXPECT_EQ(values.waited_quanta, 3u) << "there were neighbours";
  }
}

// A function that has been quiet is found after a quantum of what others do, however short their quanta are.
TEST_P(FairQuanta, AFunctionThatWasQuietIsFoundAfterAQuantum) {
  if (GetParam() == Kind::Kernels) GTEST_SKIP() << "they are slices, and not of hart 0's rings";
  add(2, GetParam());
  std::mt19937 random(3);
  for (int round = 0; round < 50; ++round) {
    for (unsigned i = 0; i < 2 * fw::kQuietLooks + random() % 100; ++i) step();
    neighbours_[0]->top_up();
    const std::uint64_t bytes = card_.card().plan.served().bytes, ended = neighbours_[0]->ended();
    ASSERT_EQ(run(victim_.nop(stream_)).outcome, Outcome::Ok);
    EXPECT_LE(card_.card().plan.served().bytes - bytes, 2 * kQuantumAndStepBytes);
    neighbours_[0]->top_up();
    constexpr std::uint64_t kQuantumBlocks = 64;
    EXPECT_LE(neighbours_[0]->ended() - ended, 2 * kQuantumBlocks);
  }
}

// Who was quiet gets no larger quantum than others have while it is served beside one of them.
TEST_P(FairQuanta, AFunctionThatWasQuietGetsTheQuantumOfOneThatWasNot) {
  if (GetParam() == Kind::Admin) GTEST_SKIP() << "it lets the card run while it waits";
  add(2, GetParam());
  for (unsigned i = 0; i < 2 * fw::kQuietLooks; ++i) step();
  ASSERT_FALSE(card_.card().plan.busy(card_.function(kVictim)));
  for (unsigned i = 0; i < 2 * fw::Card::kContendedBudget; ++i) victim_.submit(victim_.nop(stream_));
  std::size_t ended = 0;
  for (int i = 0; i < 1000 && ended == 0; ++i) {
    step();
    ended = victim_.collect().size();
  }
  EXPECT_EQ(ended, fw::Card::kContendedBudget);
}

INSTANTIATE_TEST_SUITE_P(Kinds, FairQuanta, testing::ValuesIn(kKinds),
                         [](const auto& info) { return std::to_string(static_cast<int>(info.param)); });

class FairQuantaOfAll : public FairQuanta {};

TEST_F(FairQuantaOfAll, MixedNeighboursWithWeights) {
  add(2, Kind::Fills);
  add(3, Kind::Nops);
  add(4, Kind::Kernels);
  card_.function(2).set_weight(3);
  card_.card().run_queues.set_weight(4, 5);
  for (int i = 0; i < 100; ++i) step();
  forget_waits();
  work(60);
  const fw::Served& waited = card_.function(kVictim).waiting.most();
  EXPECT_LE(waited.quanta, 3u);
  EXPECT_LE(waited.bytes, 2 * 3 * kQuantumAndStepBytes);
  EXPECT_LE(card_.card().run_queues.most_waited_slices(kVictim), 5u);
  EXPECT_EQ(card_.card().run_queues.most_waited_slices(kVictim), 5u) << "five slices are its weight";
}

// A reset of another function is a quantum of that function, and the command for it one of M's.
TEST_F(FairQuantaOfAll, ABurstOfResetsCostsOneIterationEach) {
  add(3, Kind::Fills);
  RawDriver& management = card_.driver(0);
  ASSERT_TRUE(management.bring_up());
  auto reset = management.admin_request(AdminCommand::FunctionReset);
  reset.arguments.function.target = wire::target_of_virtual(1);
  for (int i = 0; i < 100; ++i) step();
  forget_waits();
  const std::uint64_t resets = card_.function(2).reset.count();
  std::deque<std::uint16_t> asked;
  for (unsigned i = 0; i < 200; ++i) {
    asked.push_back(management.send_admin(reset));
    if (asked.size() > wire::kAdminSlots / 2) {
      ASSERT_TRUE(management.wait_admin(asked.front()));
      asked.pop_front();
    }
    const auto end = run(i % 2 == 0 ? victim_.nop(stream_) : victim_.fill(stream_, region_, 0, wire::kMiB, i));
    ASSERT_EQ(end.outcome, Outcome::Ok);
    management.poll_admin();
  }
  EXPECT_GE(card_.function(2).reset.count(), resets + 150);
  expect_fair(3);
}

}  // namespace
