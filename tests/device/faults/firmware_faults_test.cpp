// SPDX-License-Identifier: Apache-2.0
// Kernels, harts and the firmware itself, broken on purpose: what finds it, and that nobody else notices.
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>

#include "host_driver/base/host_faults.hpp"
#include "host_driver/device/bring_up.hpp"
#include "shared/timeouts.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/device/faults/armed_fault.hpp"

namespace svp {
namespace {

using test::ArmedFault;
using test::CompletionRecorder;
using test::fault_of;
using test::Workbench;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint32_t kVf1 = wire::target_of_virtual(1);
constexpr std::uint64_t kEmptyAt = 0, kSpinAt = 256 * wire::kKiB;

class FirmwareFaults : public testing::Test {
 protected:
  explicit FirmwareFaults(std::string boot_arguments = "watchdog=20")
      : card_(test::boot(test::small_card(std::move(boot_arguments)))),
        management_(value_or_throw(card_->open_management())),
        victim_(value_or_throw(card_->open_virtual(1))),
        neighbour_(value_or_throw(card_->open_virtual(2))),
        bench_(*victim_),
        neighbours_bench_(*neighbour_),
        empty_(test::kernel_image(*card_, "empty")),
        spin_(test::kernel_image(*card_, "spin")) {
    for (const Workbench* bench : {&bench_, &neighbours_bench_}) {
      bench->load(kEmptyAt, empty_);
      bench->load(kSpinAt, spin_);
    }
  }

  wire::ControlBlock empty(std::uint64_t core_mask = 1) const {
    return bench_.compute(kEmptyAt, empty_.size(), core_mask);
  }
  void expect_neighbour_well() const {
    for (const std::uint64_t mask : {1u, 2u, 3u}) {
      EXPECT_EQ(neighbours_bench_.run(neighbours_bench_.compute(kEmptyAt, empty_.size(), mask)).outcome, Outcome::Ok);
    }
  }
  // Of the victim, those of one kind; waits for `count` of them.
  std::vector<wire::DeviceEvent> events(Device& device, wire::EventKind kind, std::size_t count) {
    std::vector<wire::DeviceEvent> found;
    (void)device.wait_until(
        [&] {
          for (const auto& event : device.take_events()) {
            if (event.kind == kind) found.push_back(event);
          }
          return found.size() >= count;
        },
        test::soon());
    return found;
  }

  std::unique_ptr<Card> card_;
  std::unique_ptr<Device> management_;
  std::unique_ptr<Device> victim_;
  std::unique_ptr<Device> neighbour_;
  Workbench bench_;
  Workbench neighbours_bench_;
  std::vector<std::byte> empty_;
  std::vector<std::byte> spin_;
};

// The traps are the kernel's own: planted instructions run in U-mode in its context.
TEST_F(FirmwareFaults, AGoodKernelTrapsOrHangsWhereItIsToldToAndTheNextOneIsGood) {
  const struct {
    FaultAction action;
    Outcome outcome;
    Status status;
  } kCases[] = {{FaultAction::Illegal, Outcome::Fault, Status::IllegalInstruction},
                {FaultAction::Stray, Outcome::Fault, Status::LoadFault},
                {FaultAction::Hang, Outcome::Timeout, Status::WatchdogExpired}};
  EXPECT_EQ(bench_.run(empty()).outcome, Outcome::Ok);
  for (const std::uint64_t core : {0u, 1u}) {
    for (const auto& c : kCases) {
      ArmedFault fault(*management_, fault_of(FaultPoint::Kernel, c.action, kVf1));
      const auto end = bench_.run(empty(std::uint64_t{1} << core));
      EXPECT_EQ(end.outcome, c.outcome) << wire::name(c.action);
      EXPECT_EQ(end.status, c.status) << wire::name(end.status);
      EXPECT_EQ(end.fault.core, core);
      EXPECT_EQ(end.fault.pc, ~std::uint64_t{0}) << "outside of its text";
      if (c.action == FaultAction::Stray) EXPECT_EQ(end.fault.region_ordinal, wire::kNoRegionOrdinal);
      const auto evidence = fault.evidence();
      EXPECT_EQ(evidence.fired, 1u);
      EXPECT_EQ(evidence.function, kVf1);
      EXPECT_EQ(evidence.hart, core);
      expect_neighbour_well();
      value_or_throw(victim_->reset_stream(0));
      EXPECT_EQ(bench_.run(empty(3)).outcome, Outcome::Ok);
    }
  }
  test::expect_healthy(*card_, *victim_);
}

TEST_F(FirmwareFaults, AHangingKernelIsWarnedOfBeforeItIsKilled) {
  const auto end = bench_.run(bench_.compute(kSpinAt, spin_.size(), 2));
  EXPECT_EQ(end.outcome, Outcome::Timeout);
  const auto warned = events(*victim_, wire::EventKind::WatchdogWarning, 1);
  ASSERT_EQ(warned.size(), 1u);
  EXPECT_EQ(warned[0].stream, end.stream);
  EXPECT_EQ(warned[0].incarnation, end.incarnation);
}

TEST_F(FirmwareFaults, ASlowCoreIsNoHang) {
  ArmedFault fault(*management_, [&] {
    auto spec = fault_of(FaultPoint::Kernel, FaultAction::Slow, kVf1, 1000);
    spec.trigger.every = 1;
    return spec;
  }());
  EXPECT_EQ(bench_.run(empty(2)).outcome, Outcome::Ok);
  EXPECT_GE(fault.evidence().fired, 1u);
}

TEST_F(FirmwareFaults, AHartThatStandsStillStopsItsOwnLaunchesOnly) {
  ArmedFault fault(*management_,
                   fault_of(FaultPoint::FirmwareHart, FaultAction::Stall, kVf1, wire::kTicksPerSecond / 5));
  CompletionRecorder endings;
  const auto block = empty(2);
  const ControlBlockRequest request{&block, &endings};
  ASSERT_EQ(value_or_throw(victim_->submit(0, {&request, 1})), 1u);
  EXPECT_TRUE(fault.fires());
  const auto other = neighbours_bench_.run(neighbours_bench_.compute(kEmptyAt, empty_.size(), 1));
  EXPECT_EQ(other.outcome, Outcome::Ok) << "core 0 goes on";
  ASSERT_EQ(victim_->wait_until([&] { return endings.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(endings.all()[0].outcome, Outcome::Ok);
  EXPECT_GE(endings.all()[0].end_time - endings.all()[0].start_time, wire::kTicksPerSecond / 5);
}

TEST_F(FirmwareFaults, AStalledDispatcherIsSilentForItsTimeAndComesBack) {
  auto spec = fault_of(FaultPoint::Dispatcher, FaultAction::Stall, wire::kAnyFunction, wire::kTicksPerSecond / 5);
  ArmedFault fault(*management_, spec);
  // The loop's next iteration fires it; the first query may still be answered by the iteration that armed it.
  EXPECT_TRUE(fault.fires());
  EXPECT_EQ(fault.evidence().fired, 1u);
  EXPECT_EQ(bench_.run(Workbench::nop()).outcome, Outcome::Ok);
  test::expect_healthy(*card_, *victim_);
}

TEST_F(FirmwareFaults, AHeartbeatThatStopsStopsForItsFunctionOnly) {
  auto spec = fault_of(FaultPoint::Heartbeat, FaultAction::Suppress, kVf1);
  spec.trigger.every = 1;
  ArmedFault fault(*management_, spec);
  const auto beat = [](const Device& device) {
    const auto* header = reinterpret_cast<const wire::WindowHeader*>(test::window_of(device));
    return std::atomic_ref(const_cast<std::uint64_t&>(header->heartbeat)).load();
  };
  const auto before = beat(*victim_);
  const auto others = beat(*neighbour_);
  EXPECT_EQ(neighbour_->wait_until([&] { return beat(*neighbour_) > others + 4; }, test::soon()), WaitStatus::Done);
  EXPECT_LE(beat(*victim_), before + 1);
  EXPECT_EQ(bench_.run(Workbench::nop()).outcome, Outcome::Ok) << "only the beat has stopped";
}

class ThreeTimeouts : public FirmwareFaults {
 protected:
  ThreeTimeouts() : FirmwareFaults("watchdog=2 strikes=3") {}
};

TEST_F(ThreeTimeouts, TheThirdTimeOutBansTheStream) {
  const auto stream = value_or_throw(victim_->open_stream(StreamPriority::Low));
  for (int timeouts = 1; timeouts <= 3; ++timeouts) {
    EXPECT_EQ(bench_.run(bench_.compute(kSpinAt, spin_.size(), 1), stream).outcome, Outcome::Timeout);
    const auto reset = victim_->reset_stream(stream);
    EXPECT_EQ(reset.has_value(), timeouts < 3);
    if (!reset) {
      EXPECT_NE(reset.error().message.find(wire::name(Status::StreamBanned)), std::string::npos)
          << describe(reset.error());
    }
  }
  EXPECT_EQ(events(*victim_, wire::EventKind::StreamBanned, 1).size(), 1u);
  EXPECT_EQ(bench_.run(empty()).outcome, Outcome::Ok) << "stream 0 goes on";
  expect_neighbour_well();
}

// ---- resets that stall ----------------------------------------------------------------------------------------------

// Counts steps of bring-up and fails none.
HostFault steps_of_bring_up() {
  HostFault fault{fault::Point::BringUpStep, fault::Action::Fail};
  fault.trigger = wire::occurrences(kBringUpSteps + 1, 0, 0);
  return fault;
}

TEST(StalledReset, TheNextOwnerJoinsTheResetWhoseEndTheLastOneDidNotSee) {
  auto options = test::small_card();
  options.timeouts.detach = std::chrono::milliseconds{100};  // reached: the reset stalls
  const auto card = test::boot(options);
  auto management = value_or_throw(card->open_management());
  auto owner = value_or_throw(card->open_virtual(1));
  std::optional<ArmedFault> fault;
  fault.emplace(*management, fault_of(FaultPoint::FunctionReset, FaultAction::Stall, kVf1));
  owner.reset();
  ASSERT_TRUE(fault->fires());

  const auto injector = std::make_shared<HostFaults>();
  const unsigned row = injector->arm(steps_of_bring_up()).value();
  Expected<std::unique_ptr<Device>> next;
  std::atomic<bool> ended = false;
  std::jthread attaching([&] {  // bounded: by the driver's time-outs
    OpenOptions hooked;
    hooked.faults.injector = injector;
    next = card->open_virtual(1, std::move(hooked));
    ended = true;
  });
  const auto joins = [&] { return injector->evidence(row).counted > static_cast<unsigned>(BringUpStep::Reset); };
  EXPECT_EQ(management->wait_until([&] { return joins() || ended; }, test::soon()), WaitStatus::Done);
  EXPECT_FALSE(ended) << "it was refused";
  fault.reset();
  attaching.join();  // bounded: by the driver's time-outs
  ASSERT_TRUE(next) << describe(next.error());
  EXPECT_EQ(Workbench(**next).run(Workbench::nop()).outcome, Outcome::Ok);
}

// ---- the firmware breaks itself: the end of its card, or of this boot of it -----------------------------------------

class OwnFaults : public testing::TestWithParam<FaultAction> {};

TEST_P(OwnFaults, ABrokenFirmwareSaysSoOnItsWayOut) {
  const auto card = test::boot();
  auto management = value_or_throw(card->open_management());
  // The reply may come, or the card may be faster.
  (void)fault::FaultClient(*management).arm(fault_of(FaultPoint::Firmware, GetParam(), wire::kAnyFunction));
  (void)management->wait_until([&] { return card->machine().console().find("PANIC hart 0") != std::string::npos; },
                               test::soon());
  const std::string console = card->machine().console();
  EXPECT_NE(console.find("PANIC hart 0"), std::string::npos) << console;
  (void)management->wait_until([&] { return management->health() != Health::Alive; }, test::soon());
  const auto failure = management->failure();
  ASSERT_TRUE(failure);
  EXPECT_NE(failure->message.find("PANIC hart 0: "), std::string::npos) << describe(*failure);
  EXPECT_EQ(failure->message.find(", pc "), std::string::npos) << "an address of the firmware: " << describe(*failure);
}

INSTANTIATE_TEST_SUITE_P(EachWay, OwnFaults,
                         testing::Values(FaultAction::Trap, FaultAction::Assert, FaultAction::StackOverflow),
                         [](const auto& info) {
                           std::string name(wire::name(info.param));
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace svp
