// SPDX-License-Identifier: Apache-2.0
// Prepared launches and captures over each reset level of a real card: what stays, what ends, how a replay under way
// ends, that other functions go on, and that the card takes back what it held.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/prepared_launches.hpp"
#include "tests/device/recovery/recovery_support.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp {
namespace {

using test::Owner;
using wire::Outcome;
using wire::Status;

constexpr std::int64_t kRows = 64, kColumns = 128;
constexpr std::uint64_t kNoEnd = 1'000'000;  // slices of a kernel that ends by nothing but a reset
constexpr std::uint64_t kMark = 0x5EED'5EED'5EED'5EED;

// Firmware memory that all functions of the card hold for kernels and command buffers, in pages.
std::uint64_t pages_held(Card& card) { return test::pool_figures(*value_or_throw(card.open_management())).arena_pages; }

// What one function has prepared: a sum of two tensors, and a capture that marks host memory, adds, and then stands at
// a kernel without end, with a fill behind it.
class Prepared {
 public:
  explicit Prepared(Owner& owner)
      : owner_(owner),
        one_(filled(1)),
        sum_(filled(0)),
        marked_(owner.runtime().allocator().allocate(wire::kStickBytes)),
        mark_(owner.runtime().host_memory().allocate(wire::kStickBytes)),
        add_(addition()),
        spin_(owner.kernel("spin")) {
    std::memset(mark_.data(), 0, mark_.size());
    sum_only_ = prepare({{.job = &add_, .arguments = arguments()}});
    const Job fill = Job::fill(marked_, wire::kStickBytes, kMark);
    const Job tell = Job::from_device(mark_.data(), marked_, wire::kStickBytes);
    const Job behind = Job::fill(marked_, wire::kStickBytes, ~kMark);
    capture_ = prepare({{.job = &fill},
                        {.job = &add_, .arguments = arguments()},
                        {.job = &tell},
                        {.job = &spin_, .options = {.budget_slices = kNoEnd}},
                        {.job = &behind}});
    failing_ = prepare({{.job = &fill}, {.job = &spin_, .options = {.budget_slices = 5}}, {.job = &behind}});
  }

  // A replay of the capture that has come to its endless kernel.
  void replay() {
    std::memset(mark_.data(), 0, mark_.size());
    owner_.stream().Launch(*capture_);
    std::atomic_ref<std::uint64_t> word(*reinterpret_cast<std::uint64_t*>(mark_.data()));
    const auto marked = [&] { return word.load(std::memory_order_acquire) == kMark; };
    EXPECT_EQ(owner_.runtime().device().wait_until(marked, test::in_time()), WaitStatus::Done) << "it never began";
  }
  // A replay of which a block fails by itself.
  ErrorInfo fail() {
    owner_.stream().Launch(*failing_);
    try {
      owner_.stream().Synchronize(test::in_time());
    } catch (const StreamError& error) {
      return error.info();
    }
    ADD_FAILURE() << "an endless kernel ended well";
    return {};
  }
  // Beside whatever stands on the owner's default stream.
  void expect_sum() {
    clear_sum();
    other_.Launch(*sum_only_);
    other_.Synchronize(test::in_time());
    EXPECT_EQ(first_of_sum(), 2.0F);
  }
  // What stands behind the endless kernel has not run.
  void expect_nothing_behind() {
    std::array<std::uint64_t, wire::kStickBytes / 8> back{};
    other_.Launch(Job::from_device(back.data(), marked_, wire::kStickBytes), {});
    other_.Synchronize(test::in_time());
    EXPECT_EQ(back[0], kMark);
  }
  void patch() {
    other_.Patch(*sum_only_, 0, arguments());
    other_.Synchronize(test::in_time());
  }
  void expect_ended() {
    expect_stale([&] { owner_.stream().Launch(*sum_only_); });
    expect_stale([&] { owner_.stream().Launch(*capture_); });
    expect_stale([&] { owner_.stream().Patch(*sum_only_, 0, arguments()); });
    expect_stale([&] { owner_.stream().Patch(*capture_, 1, arguments()); });
    EXPECT_NO_THROW(owner_.stream().Synchronize(test::in_time())) << "a refused launch is no error of its stream";
  }
  bool waits() { return !owner_.stream().Query(); }

 private:
  template <typename Call>
  static void expect_stale(Call call) {
    try {
      call();
      ADD_FAILURE() << "it was taken";
    } catch (const Error& error) {
      EXPECT_EQ(error.info().status, Status::StaleCommandBuffer) << error.what();
      EXPECT_NE(error.info().next_step.find("prepare"), std::string::npos) << error.info().next_step;
    }
  }
  std::shared_ptr<PreparedLaunches> prepare(std::initializer_list<LaunchRequest> requests) {
    return owner_.stream().Prepare({requests.begin(), requests.size()});
  }
  SpyreTensor filled(float value) {
    const std::vector<float> values(kRows * kColumns, value);
    SpyreTensor tensor = owner_.context().to_device(
        {HostShape::contiguous(DataType::Float32, {kRows, kColumns}), std::as_bytes(std::span(values))},
        DeviceType::Dl16);
    owner_.context().default_stream().Synchronize(test::in_time());
    return tensor;
  }
  Job addition() {
    ExecutionPlan plan({Job(CompiledKernel(owner_.context().kernel("add"), {{"M", kRows}, {"N", kColumns}}))});
    owner_.context().load(plan);
    return plan.jobs()[0];
  }
  std::span<const Argument> arguments() {
    arguments_ = {one_.argument(), one_.argument(), sum_.argument()};
    return arguments_;
  }
  void clear_sum() {
    const std::vector<float> zeros(kRows * kColumns, 0);
    owner_.context().copy(sum_, {sum_shape(), std::as_bytes(std::span(zeros))}, SpyreStream(other_));
    other_.Synchronize(test::in_time());
  }
  float first_of_sum() {
    std::vector<float> values(kRows * kColumns);
    owner_.context().to_host(sum_, {sum_shape(), std::as_writable_bytes(std::span(values))}, SpyreStream(other_));
    EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == values[0]; }));
    return values[0];
  }
  static HostShape sum_shape() { return HostShape::contiguous(DataType::Float32, {kRows, kColumns}); }

  Owner& owner_;
  FlexStream& other_ = owner_.runtime().next_stream(StreamPriority::Low);
  SpyreTensor one_, sum_;
  AllocationIndex marked_;
  PinnedBuffer mark_;
  Job add_, spin_;
  std::array<Argument, 3> arguments_{};
  std::shared_ptr<PreparedLaunches> sum_only_, capture_, failing_;
};

// ---- stream and queue -----------------------------------------------------------------------------------------------

template <typename Reset>
void expect_stays(Reset reset) {
  const std::shared_ptr<Card> card = test::boot();
  Owner owner(card, 1);
  Prepared prepared(owner);
  prepared.expect_sum();
  // Again and again: the capture stays as well.
  for (int round = 0; round < 3; ++round) {
    prepared.replay();
    reset(owner);
    EXPECT_TRUE(owner.stream().Query());
    prepared.expect_nothing_behind();
    prepared.expect_sum();
    prepared.patch();
    prepared.expect_sum();
  }
}

// Its owner's Reset() is no error of what is launched behind it, and tells its waiters nothing.
TEST(PreparedLevels, AStreamResetLeavesThem) {
  expect_stays([](Owner& owner) {
    const auto behind = owner.stream().Record();
    owner.stream().Reset();
    EXPECT_EQ(behind->stage(), EventStage::Failed) << "the replay ended well";
  });
}

TEST(PreparedLevels, AfterAFailureInTheMiddleAStreamResetHelps) {
  const std::shared_ptr<Card> card = test::boot();
  Owner owner(card, 1);
  Prepared prepared(owner);
  for (int round = 0; round < 3; ++round) {
    const ErrorInfo failure = prepared.fail();
    EXPECT_EQ(failure.outcome, Outcome::Timeout) << wire::name(failure.outcome);
    EXPECT_EQ(failure.status, Status::WatchdogExpired) << wire::name(failure.status);
    const RecoveryReport report = owner.context().recover();
    EXPECT_EQ(report.level(), ResetLevel::Stream) << describe(report);
    prepared.expect_nothing_behind();
    prepared.expect_sum();
  }
}

// Recovers under the replay. Its outcome: what ran may have left half of its work behind.
wire::Outcome outcome_of_replay(Owner& owner, ResetLevel level) {
  test::Waiter waiter(owner.stream());
  const RecoveryReport report = owner.context().recover(level);
  EXPECT_EQ(report.level(), level) << describe(report);
  EXPECT_EQ(report.aborted + report.lost, 1u) << "a replay is one launch";
  const auto told = waiter.told();
  EXPECT_TRUE(told) << "nobody was told";
  return told ? told->outcome : Outcome::Ok;
}

TEST(PreparedLevels, AQueueResetLeavesThem) {
  expect_stays([](Owner& owner) { EXPECT_EQ(outcome_of_replay(owner, ResetLevel::Queue), Outcome::Fault); });
}

// ---- function and above ---------------------------------------------------------------------------------------------

// Recovers under a replay. The replay ends once, typed, and what was prepared is refused from then on.
void expect_ends(Owner& owner, Prepared& prepared, ResetLevel level) {
  prepared.replay();
  // The card was asked to stop it before: it could tell.
  EXPECT_EQ(outcome_of_replay(owner, level), Outcome::Fault);
  prepared.expect_ended();
}

void expect_prepared_anew(Owner& owner) {
  Prepared again(owner);
  again.expect_sum();
  again.patch();
  again.expect_sum();
  again.replay();
  owner.stream().Reset();
}

TEST(PreparedLevels, AFunctionResetEndsItsOwnOnly) {
  const std::shared_ptr<Card> card = test::boot();
  Owner bystander(card, 2);
  Prepared theirs(bystander);
  theirs.expect_sum();
  theirs.replay();
  theirs.expect_sum();
  const std::uint64_t before = pages_held(*card);
  Owner owner(card, 1);
  for (int round = 0; round < 2; ++round) {
    Prepared prepared(owner);
    prepared.expect_sum();
    EXPECT_GT(pages_held(*card), before);
    expect_ends(owner, prepared, ResetLevel::Function);
    EXPECT_EQ(pages_held(*card), before) << "something of the function stayed charged";
    EXPECT_TRUE(theirs.waits()) << "the replay of another function has ended";
    theirs.expect_sum();
    theirs.patch();
    theirs.expect_sum();
  }
  expect_prepared_anew(owner);
  bystander.stream().Reset();
  theirs.expect_nothing_behind();
  theirs.expect_sum();
}

// As many as a function may have, all of them of the owner before.
TEST(PreparedLevels, AFunctionResetGivesAllPlacesBack) {
  const std::shared_ptr<Card> card = test::boot();
  Owner owner(card, 1);
  const std::uint64_t before = pages_held(*card);
  for (int round = 0; round < 2; ++round) {
    const auto memory = owner.runtime().allocator().allocate(wire::kStickBytes);
    const Job fill = Job::fill(memory, wire::kStickBytes, kMark);
    const LaunchRequest request{.job = &fill};
    std::vector<std::shared_ptr<PreparedLaunches>> all;
    all.reserve(wire::kCommandBuffers);
    for (unsigned i = 0; i < wire::kCommandBuffers; ++i) all.push_back(owner.stream().Prepare({&request, 1}));
    EXPECT_GE(pages_held(*card), before + wire::kCommandBuffers);
    try {
      (void)owner.stream().Prepare({&request, 1});
      ADD_FAILURE() << "there was a place more than a function has";
    } catch (const Error& error) {
      EXPECT_EQ(error.info().status, Status::OutOfCommandBuffers) << error.what();
    }
    (void)owner.context().recover(ResetLevel::Function);
    EXPECT_EQ(pages_held(*card), before);
  }
}

void expect_all_end(ResetLevel level) {
  const std::shared_ptr<Card> card = test::boot();
  const std::uint64_t before = pages_held(*card);
  Owner owner(card, 1), other(card, 2);
  Prepared prepared(owner), theirs(other);
  prepared.expect_sum();
  theirs.expect_sum();
  theirs.replay();
  test::Waiter waiter(other.stream());
  expect_ends(owner, prepared, level);
  const auto told = waiter.told();
  ASSERT_TRUE(told) << "the other function was not told";
  EXPECT_TRUE(told->outcome == Outcome::Indeterminate || told->outcome == Outcome::Lost) << wire::name(told->outcome);
  const RecoveryReport report = other.context().recover();
  EXPECT_EQ(report.level(), ResetLevel::Function) << describe(report);
  theirs.expect_ended();
  EXPECT_EQ(pages_held(*card), before) << "something stayed charged";
  expect_prepared_anew(owner);
  expect_prepared_anew(other);
}

TEST(PreparedLevels, AFirmwareRestartEndsAll) { expect_all_end(ResetLevel::Firmware); }

TEST(PreparedLevels, ACardResetEndsAll) { expect_all_end(ResetLevel::Card); }

TEST(PreparedLevels, APowerCycleEndsAll) { expect_all_end(ResetLevel::PowerCycle); }

}  // namespace
}  // namespace svp
