// SPDX-License-Identifier: Apache-2.0
// Each reset level on a working card, with work in flight and with bystanders beside it: what it ends, what it leaves
// (the table of docs/recovery.md), and that twenty of them leave nothing behind.
#include <string>

#include "host_driver/transport/window.hpp"
#include "shared/memory_order.hpp"
#include "tests/device/recovery/recovery_support.hpp"
#include "tests/support/admin_requests.hpp"
#include "tests/support/block_stream.hpp"
#include "tests/support/expected_array.hpp"

namespace svp {
namespace {

using test::Owner;
using testing::HasSubstr;

// As part of a test's name.
std::string text_of(ResetLevel level) {
  std::string text(name(level));
  std::erase(text, ' ');
  return text;
}

std::shared_ptr<Card> boot_shared() { return test::boot(); }

// Recovers `owner` from `reset level` on with endless work in flight, of which somebody waits for the end.
RecoveryReport recover_from(Owner& owner, ResetLevel level,
                            unsigned (Owner::*start_work)() = &Owner::start_endless_work) {
  const unsigned launches = (owner.*start_work)();
  test::Waiter waiter(owner.stream());
  const RecoveryReport report = owner.context().recover(level);
  EXPECT_TRUE(waiter.told()) << "a waiter was not told that its work is lost";
  EXPECT_EQ(report.aborted + report.lost, launches);
  EXPECT_EQ(report.level(), level) << describe(report);
  return report;
}

TEST(Levels, AStreamResetLeavesEverythingButTheStreamsThatFailed) {
  const auto card = boot_shared();
  Owner owner(card, 0);
  owner.leave_patterns();
  FlexStream& bystander = owner.runtime().next_stream(StreamPriority::Low);
  const Job spin = owner.kernel("spin");
  const Job empty = owner.kernel("empty");
  owner.stream().Launch(spin, {}, {.budget_slices = 5});
  EXPECT_THROW(owner.stream().Synchronize(test::in_time()), StreamError);
  bystander.Launch(spin, {}, {.budget_slices = 1'000'000});
  const RecoveryReport report = owner.context().recover();
  EXPECT_EQ(report.level(), ResetLevel::Stream);
  EXPECT_FALSE(bystander.Query()) << "a bystander stream was reset";
  bystander.Reset();
  owner.stream().Launch(empty, {});
  owner.stream().Synchronize(test::in_time());
  owner.expect_patterns();
}

TEST(Levels, AQueueResetEndsAllStreamsAndLeavesMemoryAndPrograms) {
  const auto card = boot_shared();
  Owner owner(card, 1), bystander(card, 2);
  owner.leave_patterns();
  bystander.leave_patterns();
  const Job empty = owner.kernel("empty");
  FlexStream& third = owner.runtime().next_stream(StreamPriority::High);
  third.Launch(empty, {});
  third.Synchronize(test::in_time());
  recover_from(owner, ResetLevel::Queue);
  for (FlexStream* stream : {&owner.stream(), &third}) {
    EXPECT_TRUE(stream->Query());
    stream->Launch(empty, {});
    stream->Synchronize(test::in_time());
  }
  owner.expect_patterns();
  owner.expect_works();
  bystander.expect_patterns();
}

TEST(Levels, AFunctionResetClearsItsFunctionAndNoOther) {
  const auto card = boot_shared();
  Owner physical(card, 0), owner(card, 1), bystander(card, 2);
  for (Owner* each : {&physical, &owner, &bystander}) each->leave_patterns();
  test::LaunchEndings endings;
  const Job empty = bystander.kernel("empty");
  recover_from(owner, ResetLevel::Function);
  bystander.stream().Launch(empty, {}, {.observer = &endings});
  owner.expect_handles_refused();
  owner.expect_pinned_pattern();
  EXPECT_EQ(owner.runtime().allocator().statistics().bytes.current,
            Runtime::kCorrectionSlots * Runtime::kCorrectionSlotBytes)
      << "the correction slots, and nothing else";
  owner.expect_works();
  bystander.stream().Synchronize(test::in_time());
  EXPECT_THAT(endings.outcomes(), testing::ElementsAre(wire::Outcome::Ok));
  bystander.expect_patterns();
  physical.expect_patterns();
}

void expect_all_come_back(ResetLevel level) {
  const auto card = boot_shared();
  Owner first(card, 0), second(card, 1), third(card, 2);
  for (Owner* each : {&first, &second, &third}) each->leave_patterns();
  recover_from(second, level);
  EXPECT_EQ(card->boots(), 2u);
  second.expect_works();
  // The others find out, and come back at the function reset: the card is brought back once.
  for (Owner* each : {&first, &third}) {
    const RecoveryReport report = each->context().recover();
    EXPECT_EQ(report.level(), ResetLevel::Function) << describe(report);
    each->expect_handles_refused();
    each->expect_pinned_pattern();
    each->expect_works();
  }
  EXPECT_EQ(card->boots(), 2u);
  second.expect_works();
}

TEST(Levels, AfterAFirmwareRestartAllContextsRecover) { expect_all_come_back(ResetLevel::Firmware); }

// Nothing has failed: there is no record, and however often it is asked for, the card does not give up.
TEST(Levels, ARequestedFirmwareRestartLeavesNoRecordAndCountsAsNoDeath) {
  constexpr unsigned kMoreThanInARow = 10;  // hal::kMostRestarts is 8
  const auto card = boot_shared();
  std::uint64_t before = svp::value_or_throw(card->open_management())->config().boot_epoch;
  for (unsigned i = 0; i < kMoreThanInARow; ++i) {
    ASSERT_TRUE(card->restart_firmware().has_value());
    const std::uint64_t epoch = svp::value_or_throw(card->open_management())->config().boot_epoch;
    EXPECT_EQ(epoch, before + 1);
    before = epoch;
  }
  const auto slot = card->slot(0);
  ASSERT_TRUE(slot.has_value());
  const auto window = svp::value_or_throw(Window::map(slot->window_fd(), slot->window_bytes()));
  EXPECT_EQ(wire::load_acquire(window->at<wire::WindowHeader>(0).record_bytes), 0u);
  Owner(card, 1).expect_works();
}

TEST(Levels, AfterACardResetAllContextsRecover) { expect_all_come_back(ResetLevel::Card); }

TEST(Levels, AfterAPowerCycleAllContextsRecover) { expect_all_come_back(ResetLevel::PowerCycle); }

TEST(Levels, ProgramsReloadOnRequestAndOldOnesAreRefused) {
  const auto card = boot_shared();
  Owner owner(card, 1);
  ExecutionPlan plan({Job(CompiledKernel(owner.context().kernel("empty"), {}))});
  owner.context().load(plan);
  for (const ResetLevel level : {ResetLevel::Function, ResetLevel::Card, ResetLevel::PowerCycle}) {
    owner.context().recover(level);
    EXPECT_THROW(owner.stream().Launch(plan.jobs()[0], {}), Error) << name(level);
    owner.context().load(plan);
    owner.stream().Launch(plan.jobs()[0], {});
    EXPECT_NO_THROW(owner.stream().Synchronize(test::in_time())) << name(level);
  }
}

// What another function's manager did is an end like any other.
TEST(Levels, AFunctionThatMHasResetComesBackWithOneCall) {
  const auto card = boot_shared();
  Owner owner(card, 1), bystander(card, 2);
  bystander.leave_patterns();
  owner.start_endless_work();
  {
    const auto management = svp::value_or_throw(card->open_management());
    const auto reply = test::manage(*management, wire::AdminCommand::FunctionReset, wire::target_of_virtual(1));
    ASSERT_EQ(reply.outcome, wire::Outcome::Ok);
  }
  try {
    owner.stream().Synchronize(test::in_time());
    ADD_FAILURE() << "work that was reset ended well";
  } catch (const StreamError& error) {
    EXPECT_EQ(error.info().outcome, wire::Outcome::Indeterminate);
    EXPECT_THAT(error.info().next_step, HasSubstr("recover"));
  }
  EXPECT_EQ(owner.context().recover().level(), ResetLevel::Function);
  owner.expect_works();
  bystander.expect_patterns();
}

// ---- the compute array ----------------------------------------------------------------------------------------------

// On a card without array the same copies are the engine's.
class ArrayWork : public testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(version() != 0, test::cards_have_array()); }
  // The owner computes, and its card has the array that it had.
  void TearDown() override {
    owner_.expect_computes();
    EXPECT_EQ(version(), version_);
  }
  std::uint64_t version() { return owner_.context().device().config().array_version; }
  ErrorInfo error_of_work() {
    try {
      owner_.stream().Synchronize(test::in_time());
    } catch (const StreamError& error) {
      return error.info();
    }
    ADD_FAILURE() << "endless work ended well";
    return {};
  }

  Owner owner_{boot_shared(), 1};
  const std::uint64_t version_ = version();
};

class ArrayWorkAtEachLevel : public ArrayWork, public testing::WithParamInterface<ResetLevel> {};

TEST_P(ArrayWorkAtEachLevel, EndsAndTheNextOperationIsRight) {
  recover_from(owner_, GetParam(), &Owner::start_endless_array_work);
}

INSTANTIATE_TEST_SUITE_P(Each, ArrayWorkAtEachLevel,
                         testing::Values(ResetLevel::Queue, ResetLevel::Function, ResetLevel::Firmware,
                                         ResetLevel::Card, ResetLevel::PowerCycle),
                         [](const auto& info) { return text_of(info.param); });

TEST_F(ArrayWork, EndsByAResetOfItsStream) {
  owner_.start_endless_array_work();
  owner_.stream().Reset();
  EXPECT_FALSE(owner_.stream().error());
  EXPECT_TRUE(owner_.stream().Query());
}

TEST_F(ArrayWork, EndsByACancelThatIsToldToItsStream) {
  owner_.start_endless_array_work();
  Device& device = owner_.context().device();
  const std::uint32_t stream = owner_.stream().stream_index();
  const auto reply = test::cancel(device, stream, test::started_sequence(device, stream));
  EXPECT_EQ(test::ok_or_reason(reply), "");
  const ErrorInfo error = error_of_work();
  EXPECT_EQ(error.outcome, wire::Outcome::Fault) << describe(error);
  EXPECT_EQ(error.status, wire::Status::Stopped) << describe(error);
  owner_.stream().Reset();
}

// ---- twenty of each -------------------------------------------------------------------------------------------------

class TwentyOf : public testing::TestWithParam<ResetLevel> {};

TEST_P(TwentyOf, NothingIsLeftBehind) {
  const ResetLevel level = GetParam();
  const auto card = boot_shared();
  Owner owner(card, 1);
  // What a second round takes, every further one takes.
  for (int i = 0; i < 2; ++i) {
    owner.context().recover(level);
    owner.expect_works();
  }
  const auto before = test::count_process_resources();
  const auto memory = owner.runtime().host_memory().statistics();
  for (int i = 0; i < 20; ++i) {
    const RecoveryReport report = owner.context().recover(level);
    EXPECT_EQ(report.level(), level) << describe(report);
    owner.expect_works();
  }
  EXPECT_EQ(test::left_over(before), "");
  EXPECT_EQ(owner.runtime().host_memory().statistics().used_bytes, memory.used_bytes);
}

INSTANTIATE_TEST_SUITE_P(Each, TwentyOf,
                         testing::Values(ResetLevel::Queue, ResetLevel::Function, ResetLevel::Firmware,
                                         ResetLevel::Card, ResetLevel::PowerCycle),
                         [](const auto& info) { return text_of(info.param); });

}  // namespace
}  // namespace svp
