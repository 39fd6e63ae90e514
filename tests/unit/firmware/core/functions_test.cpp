// SPDX-License-Identifier: Apache-2.0
// Functions as M and the PF manage them: who may do what to whom, slots that serve one owner in their lifetime, resets
// by others, quotas, and what M is told of violations.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "firmware/core/dispatcher.hpp"
#include "firmware/core/reset.hpp"
#include "firmware/hal/board.hpp"
#include "firmware/hal/hart.hpp"
#include "tests/support/bytes.hpp"
#include "tests/unit/firmware/core/played_kernels.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using fwtest::StreamHandle;
using wire::AdminCommand;
using wire::AdminReply;
using wire::AdminRequest;
using wire::Field;
using wire::FunctionState;
using wire::Outcome;
using wire::Status;
using wire::Target;

constexpr unsigned kSpares = 4;
constexpr Target kPf = wire::kTargetPhysical;
constexpr Target kVf1 = wire::target_of_virtual(1);
constexpr Target kVf2 = wire::target_of_virtual(2);
constexpr unsigned kFirstSpare = 4;  // M, PF, two VFs

class Functions : public testing::Test {
 protected:
  explicit Functions(fwtest::CardOptions options = {.virtual_functions = 2, .spare_slots = kSpares})
      : card_(std::move(options)) {
    for (unsigned slot = 0; slot < kFirstSpare; ++slot) EXPECT_TRUE(card_.driver(slot).bring_up());
  }

  static AdminRequest about(RawDriver& driver, AdminCommand command, Target target, std::uint32_t slot = 0) {
    auto request = driver.admin_request(command);
    request.arguments.function = {target, slot};
    return request;
  }
  // Of a renewable slot.
  AdminReply bind(Target target, const fw::Place& place) {
    auto request = manager_.admin_request(AdminCommand::SlotBind);
    request.arguments.bind = {target, place.slot, place.serial, place.doorbell, place.peer};
    return manager_.admin(request);
  }
  AdminReply ask(AdminCommand command, Target target, std::uint32_t slot = 0) {
    return manager_.admin(about(manager_, command, target, slot));
  }
  AdminReply query(Target target) {
    const auto reply = ask(AdminCommand::FunctionQuery, target);
    EXPECT_EQ(reply.outcome, Outcome::Ok);
    return reply;
  }
  static void expect_refused(const AdminReply& reply, Status status, Field field) {
    EXPECT_EQ(reply.outcome, Outcome::Rejected);
    EXPECT_EQ(reply.status, status) << wire::name(reply.status);
    EXPECT_EQ(reply.field, field) << wire::name(reply.field);
  }
  // Fills `window` with the pattern from host memory on.
  static void scribble(std::span<std::byte> window) { std::ranges::fill(window, std::byte{0x5a}); }

  fwtest::TestCard card_;
  RawDriver& manager_ = card_.driver(0);
  RawDriver& pf_ = card_.driver(1);
  RawDriver& vf1_ = card_.driver(2);
  RawDriver& vf2_ = card_.driver(3);
};

// ---- rights ---------------------------------------------------------------------------------------------------------

TEST_F(Functions, RightsAreAsInTheTable) {
  struct Right {
    AdminCommand command;
    bool self, pf_of_vf, vf_of_other, m_of_vf;
  };
  const Right rights[] = {
      {AdminCommand::Stats, true, true, false, true},          {AdminCommand::FunctionQuery, true, true, false, true},
      {AdminCommand::FunctionReset, false, true, false, true}, {AdminCommand::QuotaSet, false, true, false, true},
      {AdminCommand::EventGrant, false, false, false, true},   {AdminCommand::EventRevoke, false, false, false, true},
      {AdminCommand::SlotRetire, false, false, false, true},   {AdminCommand::SlotBind, false, false, false, true}};
  const auto allowed = [](RawDriver& driver, AdminCommand command, Target target) {
    // Slot 99 does not exist: a permitted SLOT_BIND is refused for that, and changes nothing.
    const auto reply = driver.admin(about(driver, command, target, command == AdminCommand::SlotBind ? 99 : 0));
    EXPECT_TRUE(reply.outcome == Outcome::Ok || reply.outcome == Outcome::Rejected);
    if (reply.status != Status::NotPermitted) return true;
    EXPECT_EQ(reply.field, Field::AdminTarget);
    return false;
  };
  for (const Right& right : rights) {
    SCOPED_TRACE(wire::name(right.command));
    EXPECT_EQ(allowed(vf1_, right.command, wire::kTargetSelf), right.self);
    EXPECT_EQ(allowed(vf1_, right.command, kVf1), right.self) << "a function may name itself";
    EXPECT_EQ(allowed(vf1_, right.command, kVf2), right.vf_of_other);
    EXPECT_EQ(allowed(vf1_, right.command, kPf), right.vf_of_other);
    EXPECT_EQ(allowed(pf_, right.command, kPf), right.self);
    EXPECT_EQ(allowed(pf_, right.command, kVf2), right.pf_of_vf);
    vf2_.forget();
    EXPECT_EQ(allowed(manager_, right.command, kVf2), right.m_of_vf);
  }
}

TEST_F(Functions, OnlyMRestartsTheFirmwareAndOnlyAfterTheReply) {
  for (RawDriver* tenant : {&pf_, &vf1_}) {
    expect_refused(tenant->admin(tenant->admin_request(AdminCommand::FirmwareRestart)), Status::NotPermitted,
                   Field::AdminCommand);
  }
  EXPECT_FALSE(card_.card().restart_requested());
  auto stale = manager_.admin_request(AdminCommand::FirmwareRestart);
  ++stale.generation;
  expect_refused(manager_.admin(stale), Status::StaleGeneration, Field::Generation);
  EXPECT_FALSE(card_.card().restart_requested());
  EXPECT_EQ(manager_.admin(manager_.admin_request(AdminCommand::FirmwareRestart)).outcome, Outcome::Ok);
  EXPECT_TRUE(card_.card().restart_requested()) << "the reply is there, the restart follows";
}

TEST_F(Functions, QueryTellsTheDeviceTime) {
  const auto first = vf1_.admin(vf1_.admin_request(AdminCommand::Query)).values.region.time;
  const auto second = manager_.admin(manager_.admin_request(AdminCommand::Query)).values.region.time;
  EXPECT_NE(first, 0u);
  EXPECT_GE(second, first);
}

TEST_F(Functions, AnUnknownTargetIsNamed) {
  for (const Target target : {4u, 17u, ~0u}) {
    expect_refused(ask(AdminCommand::FunctionReset, target), Status::UnknownFunction, Field::AdminTarget);
    expect_refused(pf_.admin(about(pf_, AdminCommand::FunctionQuery, target)), Status::UnknownFunction,
                   Field::AdminTarget);
  }
}

TEST_F(Functions, MHoldsNoRegionsAndRunsNothing) {
  auto acquire = manager_.admin_request(AdminCommand::RegionAcquire);
  acquire.arguments.region_acquire = {wire::kGranuleBytes, wire::RegionType::Tensor};
  expect_refused(manager_.admin(acquire), Status::NotPermitted, Field::AdminCommand);
  expect_refused(manager_.admin(manager_.admin_request(AdminCommand::StreamOpen)), Status::NotPermitted,
                 Field::AdminCommand);
  StreamHandle stream;
  const auto completion = manager_.run(manager_.nop(stream));
  EXPECT_EQ(completion.outcome, Outcome::Rejected);
  EXPECT_EQ(completion.status, Status::UnknownStream);
}

// ---- slots ----------------------------------------------------------------------------------------------------------

TEST_F(Functions, ARetiredWindowReachesNothingAndTheNextOwnerStartsFromNothing) {
  const auto region = vf1_.acquire(wire::kGranuleBytes);
  ASSERT_TRUE(region);
  StreamHandle stream;
  EXPECT_EQ(vf1_.run(vf1_.fill(stream, *region, 0, 4096, 0x1111111111111111)).outcome, Outcome::Ok);
  const auto generation = query(kVf1).values.function.generation;

  EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).values.function.state, FunctionState::Unbound);
  scribble(card_.window(2));
  card_.pump();
  expect_refused(ask(AdminCommand::FunctionReset, kVf1), Status::FunctionUnbound, Field::AdminTarget);
  const std::vector<std::byte> scribbled(card_.window(2).begin(), card_.window(2).end());

  const auto bound = ask(AdminCommand::SlotBind, kVf1, kFirstSpare);
  ASSERT_EQ(bound.outcome, Outcome::Ok) << wire::name(bound.status);
  EXPECT_EQ(bound.values.function.state, FunctionState::Idle);
  EXPECT_EQ(bound.values.function.slot, kFirstSpare);
  EXPECT_GT(bound.values.function.generation, generation);
  RawDriver& next = card_.driver(kFirstSpare);
  ASSERT_TRUE(next.bring_up());
  EXPECT_EQ(next.config().function_index, 1u);
  EXPECT_EQ(next.admin(next.admin_request(AdminCommand::Stats)).values.stats.completed, 0u);
  // The handle of the old owner names nothing, and the memory that comes next is clean.
  StreamHandle fresh;
  EXPECT_EQ(next.run(next.fill(fresh, *region, 0, 4096, 1)).status, Status::UnknownRegion);
  const auto again = next.acquire(wire::kGranuleBytes);
  ASSERT_TRUE(again);
  EXPECT_TRUE(svp::test::all_bytes_are(card_.board().region_memory().first(wire::kGranuleBytes), std::byte{0}));
  EXPECT_TRUE(std::ranges::equal(card_.window(2), scribbled)) << "the card still writes to a retired window";
}

TEST_F(Functions, ASlotIsBoundOnceInItsLifetime) {
  ASSERT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  expect_refused(ask(AdminCommand::SlotBind, kVf1, 2), Status::SlotUsed, Field::AdminSlot);
  expect_refused(ask(AdminCommand::SlotBind, kVf1, 3), Status::SlotUsed, Field::AdminSlot);  // another function's
  expect_refused(ask(AdminCommand::SlotBind, kVf1, 0), Status::SlotUsed, Field::AdminSlot);
  expect_refused(ask(AdminCommand::SlotBind, kVf1, kFirstSpare + kSpares), Status::UnknownSlot, Field::AdminSlot);
  EXPECT_EQ(ask(AdminCommand::SlotBind, kVf1, kFirstSpare).outcome, Outcome::Ok);
  expect_refused(ask(AdminCommand::SlotBind, kVf1, kFirstSpare + 1), Status::Busy, Field::AdminTarget);
}

TEST_F(Functions, BindingAndRetiringTwiceIsNoError) {
  EXPECT_EQ(ask(AdminCommand::SlotBind, kVf1, 2).outcome, Outcome::Ok);
  EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  EXPECT_EQ(ask(AdminCommand::SlotBind, kVf1, kFirstSpare).outcome, Outcome::Ok);
  EXPECT_EQ(ask(AdminCommand::SlotBind, kVf1, kFirstSpare).outcome, Outcome::Ok);
  EXPECT_EQ(query(kVf1).values.function.resets, 1u + 1u) << "bring-up's own and the one of the retirement";
}

TEST_F(Functions, AWarmResetForgetsNoRetiredSlot) {
  ASSERT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  ASSERT_EQ(ask(AdminCommand::SlotBind, kVf1, kFirstSpare).outcome, Outcome::Ok);
  ASSERT_EQ(ask(AdminCommand::SlotRetire, kVf2).outcome, Outcome::Ok);
  card_.warm_reset();
  ASSERT_TRUE(manager_.bring_up());
  EXPECT_EQ(query(kVf1).values.function.slot, kFirstSpare);
  EXPECT_EQ(query(kVf2).values.function.state, FunctionState::Unbound);
  expect_refused(ask(AdminCommand::SlotBind, kVf2, 2), Status::SlotUsed, Field::AdminSlot);
  expect_refused(ask(AdminCommand::SlotBind, kVf2, 3), Status::SlotUsed, Field::AdminSlot);
  EXPECT_EQ(ask(AdminCommand::SlotBind, kVf2, kFirstSpare + 1).outcome, Outcome::Ok);
}

TEST_F(Functions, ASlotTableThatCannotBeBelievedLeavesOnlyM) {
  hal::persistent()[wire::kStickBytes + 5] ^= std::byte{1};
  card_.warm_reset();
  ASSERT_TRUE(manager_.bring_up());
  for (const Target target : {kPf, kVf1, kVf2}) {
    EXPECT_EQ(query(target).values.function.state, FunctionState::Unbound);
    expect_refused(ask(AdminCommand::SlotBind, target, kFirstSpare), Status::SlotUsed, Field::AdminSlot);
  }
}

// ---- renewable slots ------------------------------------------------------------------------------------------------

class RenewableSlots : public Functions {
 protected:
  static constexpr unsigned kPort = 4;
  static constexpr unsigned kOtherPort = 5;
  RenewableSlots() : Functions({.virtual_functions = 2, .ports = 2}) {
    EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  }
  static constexpr fw::Place place(std::uint32_t serial, unsigned slot = kPort) {
    return {.slot = slot, .serial = serial, .doorbell = kVf1, .peer = 1 + serial};
  }
};

TEST_F(RenewableSlots, AWindowThatIsPluggedServesTheNextOwnerAndIsUnpluggedBehindIt) {
  for (std::uint32_t serial = 1; serial <= 5; ++serial) {
    RawDriver& owner = card_.plug(kPort);
    const auto bound = bind(kVf1, place(serial));
    ASSERT_EQ(bound.outcome, Outcome::Ok) << wire::name(bound.status);
    EXPECT_EQ(bound.values.function.slot, kPort);
    EXPECT_EQ(bound.values.function.serial, serial);
    ASSERT_TRUE(owner.bring_up());
    EXPECT_EQ(owner.config().function_index, 1u);
    EXPECT_EQ(card_.unplugged(kPort), serial - 1);
    EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
    EXPECT_EQ(card_.unplugged(kPort), serial);
  }
}

TEST_F(RenewableSlots, BindSignalsTheNewPeerAndWorkSignalsNobodyElse) {
  RawDriver& owner = card_.plug(kPort);
  const auto before = card_.rings(kVf1);
  ASSERT_EQ(bind(kVf1, place(9)).outcome, Outcome::Ok);
  EXPECT_EQ(card_.rings(kVf1), before + 1);
  EXPECT_EQ(card_.last_peer(kVf1), 10u);
  ASSERT_TRUE(owner.bring_up());
  StreamHandle stream;
  EXPECT_EQ(owner.run(owner.nop(stream)).outcome, Outcome::Ok);
  EXPECT_GT(card_.rings(kVf1), before + 1);
  EXPECT_EQ(card_.last_peer(kVf1), 10u);
  EXPECT_EQ(card_.rings(kPort), 0u);
}

TEST_F(RenewableSlots, ASerialThatIsNotLargerThanAllBeforeIsRefused) {
  card_.plug(kPort);
  ASSERT_EQ(bind(kVf1, place(7)).outcome, Outcome::Ok);
  ASSERT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  card_.plug(kPort);
  for (const std::uint32_t old : {0u, 1u, 6u, 7u}) {
    expect_refused(bind(kVf1, place(old)), Status::SlotUsed, Field::AdminSerial);
  }
  card_.warm_reset();
  ASSERT_TRUE(manager_.bring_up());
  expect_refused(bind(kVf1, place(7)), Status::SlotUsed, Field::AdminSerial);
  EXPECT_EQ(bind(kVf1, place(8)).outcome, Outcome::Ok);
}

TEST_F(RenewableSlots, AWindowThatIsBoundServesNobodyElse) {
  card_.plug(kPort);
  ASSERT_EQ(bind(kVf1, place(7)).outcome, Outcome::Ok);
  ASSERT_EQ(ask(AdminCommand::SlotRetire, kVf2).outcome, Outcome::Ok);
  fw::Place taken = place(8);
  taken.doorbell = kVf2;
  expect_refused(bind(kVf2, taken), Status::SlotUsed, Field::AdminSerial);
  EXPECT_EQ(bind(kVf1, place(7)).outcome, Outcome::Ok) << "the same again is no error";
  expect_refused(bind(kVf1, place(8)), Status::Busy, Field::AdminTarget);
}

TEST_F(RenewableSlots, AnEmptySlotIsRefusedAndItsSerialIsNotUsedUp) {
  expect_refused(bind(kVf1, place(3)), Status::OutOfSlots, Field::AdminSlot);
  card_.plug(kPort);
  EXPECT_EQ(bind(kVf1, place(3)).outcome, Outcome::Ok);
}

TEST_F(RenewableSlots, DoorbellsThatAreNotThereOrNotFreeAreRefused) {
  card_.plug(kPort);
  card_.plug(kOtherPort);
  const auto with = [](std::uint32_t doorbell, std::uint32_t peer) {
    return fw::Place{.slot = kPort, .serial = 1, .doorbell = doorbell, .peer = peer};
  };
  for (const std::uint32_t absent : {0u, kPort, kOtherPort, 6u, ~0u}) {
    expect_refused(bind(kVf1, with(absent, 2)), Status::UnknownSlot, Field::AdminDoorbell);
  }
  for (const Target other : {kPf, kVf2}) {
    expect_refused(bind(kVf1, with(other, 2)), Status::Busy, Field::AdminDoorbell);
  }
  for (const std::uint32_t peer : {wire::kCardPeer, wire::kLastPeer + 1, ~0u}) {
    expect_refused(bind(kVf1, with(kVf1, peer)), Status::UnknownSlot, Field::AdminPeer);
  }
  EXPECT_EQ(bind(kVf1, with(kVf1, wire::kLastPeer)).outcome, Outcome::Ok);
}

TEST_F(RenewableSlots, AFixedSlotBringsItsOwnDoorbellAndNothingElseIsUnderstood) {
  const auto refused = [&](fw::Place place, Field field) {
    expect_refused(bind(kVf1, place), Status::ReservedBits, field);
  };
  refused({.slot = 2, .serial = 1}, Field::AdminSerial);
  refused({.slot = 2, .doorbell = 2}, Field::AdminDoorbell);
  refused({.slot = 2, .peer = 2}, Field::AdminPeer);
  expect_refused(bind(kVf1, {.slot = 2}), Status::SlotUsed, Field::AdminSlot);
}

TEST_F(RenewableSlots, AWarmResetKeepsTheWindowAndItsPeer) {
  RawDriver& owner = card_.plug(kOtherPort);
  ASSERT_EQ(bind(kVf1, place(3, kOtherPort)).outcome, Outcome::Ok);
  ASSERT_TRUE(owner.bring_up());
  card_.warm_reset();
  ASSERT_TRUE(manager_.bring_up());
  EXPECT_EQ(card_.unplugged(kOtherPort), 0u);
  EXPECT_EQ(query(kVf1).values.function.slot, kOtherPort);
  EXPECT_EQ(query(kVf1).values.function.serial, 3u);
  EXPECT_EQ(bind(kVf1, place(3, kOtherPort)).outcome, Outcome::Ok) << "as a broker repeats it";
  owner.forget();
  EXPECT_TRUE(owner.bring_up());
  EXPECT_EQ(card_.last_peer(kVf1), 4u);
}

TEST_F(RenewableSlots, ARetirementThatAResetInterruptedIsFinishedByTheNextBoot) {
  card_.plug(kPort);
  ASSERT_EQ(bind(kVf1, place(3)).outcome, Outcome::Ok);
  card_.card().slots.retire(kVf1);  // and no further
  card_.warm_reset();
  ASSERT_TRUE(manager_.bring_up());
  EXPECT_EQ(card_.unplugged(kPort), 1u);
  EXPECT_EQ(query(kVf1).values.function.state, FunctionState::Unbound);
  card_.plug(kPort);
  EXPECT_EQ(bind(kVf1, place(4)).outcome, Outcome::Ok);
}

TEST_F(RenewableSlots, ATableThatCannotBeBelievedBindsNothing) {
  card_.plug(kPort);
  hal::persistent()[wire::kStickBytes + 5] ^= std::byte{1};
  card_.warm_reset();
  ASSERT_TRUE(manager_.bring_up());
  for (const std::uint32_t serial : {1u, 1000u, ~0u}) {
    expect_refused(bind(kVf1, place(serial)), Status::SlotUsed, Field::AdminSerial);
  }
}

// ---- resets by others -----------------------------------------------------------------------------------------------

TEST_F(Functions, AResetByAnotherEndsTheWorkAndTellsTheDriver) {
  const auto region = vf1_.acquire(wire::kGranuleBytes);
  ASSERT_TRUE(region);
  const auto before = query(kVf1).values.function;
  EXPECT_EQ(before.state, FunctionState::Running);
  EXPECT_EQ(before.granted_bytes, wire::kGranuleBytes);

  const auto reply = pf_.admin(about(pf_, AdminCommand::FunctionReset, kVf1));
  ASSERT_EQ(reply.outcome, Outcome::Ok);
  EXPECT_EQ(reply.values.function.state, FunctionState::Idle);
  EXPECT_EQ(reply.values.function.granted_bytes, 0u);
  EXPECT_EQ(reply.values.function.resets, before.resets + 1);
  EXPECT_GT(vf1_.header().generation, before.generation);
  EXPECT_EQ(vf1_.header().device_status, 0u);
  const auto told = vf1_.receive();
  ASSERT_TRUE(told);
  EXPECT_EQ(told->header.op, static_cast<std::uint8_t>(wire::MessageOp::EventConfig));
  wire::ConfigEvent event{};
  ASSERT_TRUE(wire::read_payload(*told, event));
  EXPECT_NE(event.status & wire::kStatusNeedsReset, 0u);
  vf1_.forget();
  EXPECT_TRUE(vf1_.bring_up());
}

TEST_F(Functions, AResetOfOneLeavesTheOthersAlone) {
  const auto region = vf2_.acquire(wire::kGranuleBytes);
  ASSERT_TRUE(region);
  StreamHandle stream;
  EXPECT_EQ(vf2_.run(vf2_.fill(stream, *region, 0, 4096, 0x2222222222222222)).outcome, Outcome::Ok);
  vf2_.submit(vf2_.nop(stream));
  EXPECT_EQ(ask(AdminCommand::FunctionReset, kVf1).outcome, Outcome::Ok);
  EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  EXPECT_EQ(vf2_.wait_for(1).front().completion.outcome, Outcome::Ok);
  StreamHandle other = stream;
  EXPECT_EQ(
      vf2_.run(vf2_.dma(other, RawDriver::device(*region, 0), RawDriver::host(wire::kHostMemoryOffset), 4096)).outcome,
      Outcome::Ok);
  EXPECT_EQ(*vf2_.at<std::uint64_t>(wire::kHostMemoryOffset), 0x2222222222222222u);
}

class FunctionsWithKernels : public Functions {
 protected:
  explicit FunctionsWithKernels(std::optional<native::WorkClock> clock = {})
      : Functions(
            {.virtual_functions = 2, .spare_slots = kSpares, .kernel = kernels().player(), .clock = std::move(clock)}) {
    kernels().board = &card_.board();
    kernels().released = false;
  }
  static fwtest::PlayedKernels& kernels() {
    static fwtest::PlayedKernels played;
    return played;
  }
  void launch_until_released(RawDriver& driver) {
    StreamHandle stream;
    const auto programs = fwtest::load_programs(driver, stream);
    driver.submit(fwtest::launch_of(driver, stream, programs, fwtest::Program::UntilReleased));
    card_.run_until_idle();
  }
};

TEST_F(FunctionsWithKernels, AResetWaitsForTheKernelAndWhoeverAskedMeanwhileJoins) {
  launch_until_released(vf1_);
  ASSERT_TRUE(card_.card().launches.active(kVf1));
  const auto before = card_.function(kVf1).reset.count();
  const auto first = manager_.send_admin(about(manager_, AdminCommand::FunctionReset, kVf1));
  const auto second = pf_.send_admin(about(pf_, AdminCommand::FunctionReset, kVf1));
  vf1_.send(vf1_.request(wire::MessageOp::SetDeviceStatus, wire::StatusValue{0}));
  card_.run_until_idle();
  EXPECT_EQ(card_.function(kVf1).reset.count(), before) << "the kernel is still in U-mode";
  unsigned quiet = 0;
  for (int i = 0; i < 100 && card_.card().launches.active(kVf1); ++i) fw::loop_step(card_.card(), quiet);
  EXPECT_EQ(manager_.wait_admin(first)->outcome, Outcome::Ok);
  EXPECT_EQ(pf_.wait_admin(second)->outcome, Outcome::Ok);
  const auto answer = vf1_.receive();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->header.op, static_cast<std::uint8_t>(wire::MessageOp::SetDeviceStatus));
  EXPECT_EQ(card_.function(kVf1).reset.count(), before + 1);
}

// Only work advances the clock: each look at it is 10 µs.
class PacedResets : public FunctionsWithKernels {
 protected:
  PacedResets() : FunctionsWithKernels(native::WorkClock{.reading_ticks = 10 * wire::kTicksPerMicrosecond}) {}
};

TEST_F(PacedResets, ABurstOfResetsIsSlowedWhileOthersWorkAndEveryOneIsAnswered) {
  const auto burst = [&](bool used, std::uint64_t resets) {
    const auto began = hal::now();
    for (std::uint64_t i = 0; i < resets; ++i) {
      vf1_.forget();
      if (used) {
        EXPECT_TRUE(vf1_.bring_up());
      }
      EXPECT_EQ(vf1_.set_status(0), 0u) << i;
    }
    return hal::now() - began;
  };
  constexpr std::uint64_t kLater = 3;
  EXPECT_LT(burst(true, fw::kResetsInARow + kLater), kLater * fw::kResetTicks) << "nobody else was at work";
  launch_until_released(vf2_);
  EXPECT_GE(burst(true, fw::kResetsInARow + kLater), kLater * fw::kResetTicks);
  EXPECT_LT(burst(false, 2 * fw::kResetsInARow), fw::kResetTicks) << "nobody was disturbed by these";
  // Others are not made to wait, and a slot is taken away at once.
  ASSERT_TRUE(vf1_.bring_up());
  const auto began = hal::now();
  EXPECT_EQ(ask(AdminCommand::FunctionReset, kPf).outcome, Outcome::Ok);
  EXPECT_EQ(ask(AdminCommand::SlotRetire, kVf1).outcome, Outcome::Ok);
  EXPECT_LT(hal::now() - began, fw::kResetTicks);  // elapsed: under the WorkClock
}

TEST_F(FunctionsWithKernels, RetiringWhileAKernelRunsStopsItAndFreesTheFunction) {
  launch_until_released(vf1_);
  const auto retired = manager_.send_admin(about(manager_, AdminCommand::SlotRetire, kVf1));
  card_.run_until_idle();
  EXPECT_EQ(query(kVf1).values.function.state, FunctionState::Resetting);
  const auto bind = manager_.send_admin(about(manager_, AdminCommand::SlotBind, kVf1, kFirstSpare));
  scribble(card_.window(2));
  unsigned quiet = 0;
  for (int i = 0; i < 100 && card_.card().launches.active(kVf1); ++i) fw::loop_step(card_.card(), quiet);
  EXPECT_EQ(manager_.wait_admin(retired)->outcome, Outcome::Ok);
  EXPECT_EQ(manager_.wait_admin(bind)->outcome, Outcome::Ok);
  EXPECT_EQ(query(kVf1).values.function.slot, kFirstSpare);
  EXPECT_TRUE(card_.driver(kFirstSpare).bring_up());
  EXPECT_EQ(card_.card().pool.unclean_bytes(), 0u);
}

// ---- quota ----------------------------------------------------------------------------------------------------------

TEST_F(Functions, AQuotaBoundsWhatAFunctionHoldsAndNotTheOthers) {
  auto request = about(manager_, AdminCommand::QuotaSet, kVf1);
  request.arguments.quota.bytes = 4 * wire::kMiB;
  EXPECT_EQ(manager_.admin(request).values.function.quota_bytes, 4 * wire::kMiB);
  EXPECT_EQ(vf1_.config().quota_bytes, 4 * wire::kMiB);
  const auto first = vf1_.acquire(2 * wire::kMiB);
  ASSERT_TRUE(first);
  auto acquire = vf1_.admin_request(AdminCommand::RegionAcquire);
  acquire.arguments.region_acquire = {4 * wire::kMiB, wire::RegionType::Tensor};
  const auto refused = vf1_.admin(acquire);
  expect_refused(refused, Status::QuotaExceeded, Field::AdminBytes);
  EXPECT_EQ(refused.values.region.free_bytes, 2 * wire::kMiB);
  EXPECT_EQ(refused.values.region.total_bytes, 4 * wire::kMiB);
  EXPECT_TRUE(vf1_.acquire(2 * wire::kMiB));
  EXPECT_TRUE(vf2_.acquire(16 * wire::kMiB));
  vf1_.release(*first);
  EXPECT_TRUE(vf1_.acquire(1)) << "released memory counts no more";
  request.arguments.quota.bytes = wire::kGranuleBytes + 1;
  expect_refused(manager_.admin(request), Status::BadAlignment, Field::AdminBytes);
}

TEST_F(Functions, AWeightIsAShareOfTheQuanta) {
  auto request = about(manager_, AdminCommand::QuotaSet, kVf1);
  request.arguments.quota.weight = wire::kMaxWeight + 1;
  expect_refused(manager_.admin(request), Status::BadCount, Field::AdminWeight);
  request.arguments.quota.weight = 3;
  EXPECT_EQ(manager_.admin(request).values.function.weight, 3u);
  EXPECT_EQ(query(kVf2).values.function.weight, 1u);
  // Opening pumps the card, submitting does not.
  std::array<StreamHandle, 3> streams1;
  std::array<StreamHandle, 3> streams2;
  for (auto& stream : streams1) stream = vf1_.open_stream().value();
  for (auto& stream : streams2) stream = vf2_.open_stream().value();
  for (unsigned i = 0; i < 3 * wire::kStreamCredits; ++i) {
    vf1_.submit(vf1_.nop(streams1[i % 3]));
    vf2_.submit(vf2_.nop(streams2[i % 3]));
  }
  const auto done = [&](Target target) { return card_.function(target).counters().completed; };
  for (int i = 0; i < 100 && done(kVf1) == 0; ++i) fw::run_iteration(card_.card());
  const auto first = done(kVf1);
  const auto second = done(kVf2);
  fw::run_iteration(card_.card());
  EXPECT_EQ(done(kVf1) - first, 3 * (done(kVf2) - second));
  EXPECT_GT(done(kVf2), second);
}

// ---- violations -----------------------------------------------------------------------------------------------------

TEST_F(Functions, MIsToldOfViolationsAndTheyAreCounted) {
  manager_.post_event_buffers(4);
  StreamHandle stream;
  for (int i = 0; i < 3; ++i) {
    auto block = vf1_.nop(stream);
    block.header.generation ^= 1;
    vf1_.seal(block);
    --stream.next_sequence;
    EXPECT_EQ(vf1_.run(block).status, Status::StaleGeneration);
  }
  EXPECT_EQ(query(kVf1).values.function.violations, 3u);
  EXPECT_EQ(query(kVf2).values.function.violations, 0u);
  card_.card().heart.start(0);
  unsigned quiet = 0;
  for (int i = 0; i < 64; ++i) fw::loop_step(card_.card(), quiet);
  const auto events = manager_.events();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, wire::EventKind::FunctionViolation);
  EXPECT_EQ(events[0].target, kVf1);
  EXPECT_EQ(events[0].status, Status::StaleGeneration);
  EXPECT_EQ(events[0].argument, 3u);
}

TEST_F(Functions, RunningOutOfMemoryIsNoViolation) {
  auto acquire = vf1_.admin_request(AdminCommand::RegionAcquire);
  acquire.arguments.region_acquire = {std::uint64_t{1} << 34, wire::RegionType::Tensor};
  EXPECT_EQ(vf1_.admin(acquire).status, Status::OutOfDeviceMemory);
  EXPECT_EQ(query(kVf1).values.function.violations, 0u);
}

}  // namespace
