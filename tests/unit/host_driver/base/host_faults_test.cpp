// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/host_faults.hpp"

#include <gtest/gtest.h>

#include <future>
#include <thread>
#include <vector>

#include "host_driver/base/system_call.hpp"
#include "shared/units.hpp"
#include "tests/bounds.hpp"

namespace svp {
namespace {

std::vector<std::uint64_t> shots_of(const HostFault& fault, std::uint64_t occurrences) {
  HostFaults faults;
  EXPECT_TRUE(faults.arm(fault));
  std::vector<std::uint64_t> fired;
  for (std::uint64_t n = 1; n <= occurrences; ++n) {
    if (faults.armed(fault.point) && faults.occur(fault.point, {})) fired.push_back(n);
  }
  return fired;
}

using Numbers = std::vector<std::uint64_t>;

TEST(HostFaults, FiresAtFirstAndThenEveryAsOftenAsItHasShots) {
  EXPECT_EQ(shots_of({.trigger = wire::occurrences(3)}, 20), (Numbers{3}));
  EXPECT_EQ(shots_of({.trigger = wire::occurrences(3, 4, 0)}, 20), (Numbers{3, 7, 11, 15, 19}));
  EXPECT_EQ(shots_of({.trigger = wire::occurrences(3, 4, 2)}, 20), (Numbers{3, 7}));
  EXPECT_EQ(shots_of({.trigger = wire::occurrences(1, 1, 0)}, 4), (Numbers{1, 2, 3, 4}));
  EXPECT_EQ(shots_of({.trigger = wire::occurrences(21)}, 20), Numbers{});
}

TEST(HostFaults, CountsOnlyWhatMatches) {
  HostFaults faults;
  HostFault fault{.point = fault::Point::Completion, .trigger = wire::occurrences(2)};
  fault.trigger.function = 2, fault.trigger.stream = 5, fault.trigger.sequence = 9;
  const auto row = faults.arm(fault);
  ASSERT_TRUE(row);
  const HostOccurrence right{.function = 2, .stream = 5, .sequence = 9};
  for (const HostOccurrence& other : {HostOccurrence{.function = 3, .stream = 5, .sequence = 9},
                                      HostOccurrence{.function = 2, .stream = 6, .sequence = 9},
                                      HostOccurrence{.function = 2, .stream = 5, .sequence = 8}}) {
    EXPECT_FALSE(faults.occur(fault::Point::Completion, other));
  }
  EXPECT_FALSE(faults.occur(fault::Point::Window, right)) << "another point";
  EXPECT_EQ(faults.evidence(*row).counted, 0u);
  EXPECT_FALSE(faults.occur(fault::Point::Completion, right));
  EXPECT_TRUE(faults.occur(fault::Point::Completion, right));
  const HostEvidence evidence = faults.evidence(*row);
  EXPECT_EQ(evidence.counted, 2u);
  EXPECT_EQ(evidence.fired, 1u);
  EXPECT_EQ(evidence.last.stream, 5u);
  EXPECT_FALSE(evidence.armed) << "it has no shot left";
  EXPECT_FALSE(faults.armed(fault::Point::Completion)) << "what is spent costs what is disarmed costs";
}

TEST(HostFaults, NothingCountsBeforeItsTime) {
  HostFaults faults;
  HostFault fault{.point = fault::Point::Window};
  fault.trigger.not_before = 3600 * wire::kTicksPerSecond;
  const auto row = faults.arm(fault);
  EXPECT_FALSE(faults.occur(fault::Point::Window, {}));
  EXPECT_EQ(faults.evidence(*row).counted, 0u);
  faults.begin(HostFaults::Clock::now() - std::chrono::hours(2));
  EXPECT_TRUE(faults.occur(fault::Point::Window, {}));
}

TEST(HostFaults, DisarmedItKeepsItsEvidenceAndFiresNoMore) {
  HostFaults faults;
  const auto row = faults.arm({.point = fault::Point::DoorbellToCard, .trigger = wire::occurrences(1, 1, 0)});
  EXPECT_TRUE(faults.occur(fault::Point::DoorbellToCard, {}));
  faults.disarm(*row);
  EXPECT_FALSE(faults.armed(fault::Point::DoorbellToCard));
  EXPECT_FALSE(faults.occur(fault::Point::DoorbellToCard, {}));
  EXPECT_EQ(faults.evidence(*row).fired, 1u);
}

TEST(HostFaults, HasSoManyRowsAndNotOneMore) {
  HostFaults faults;
  for (unsigned i = 0; i < HostFaults::kRows; ++i) EXPECT_TRUE(faults.arm({}));
  EXPECT_FALSE(faults.arm({}));
}

TEST(HostFaults, ManyThreadsAreCountedExactly) {
  HostFaults faults;
  const auto row = faults.arm({.point = fault::Point::Window, .trigger = wire::occurrences(10, 10, 0)});
  std::atomic<unsigned> fired{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 1000; ++i) fired += faults.occur(fault::Point::Window, {}) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();  // bounded: each occurs a number of times
  EXPECT_EQ(fired, 400u);
  EXPECT_EQ(faults.evidence(*row).counted, 4000u);
}

TEST(HostFaults, WhatComesLaterComesAndWhatIsLeftIsDropped) {
  std::promise<void> came;
  auto faults = std::make_unique<HostFaults>();
  faults->later(std::chrono::hours(1), [] { ADD_FAILURE() << "before its time"; });
  faults->later(std::chrono::microseconds(10), [&] { came.set_value(); });
  EXPECT_EQ(came.get_future().wait_for(test_bounds::kAnswer), std::future_status::ready);
  faults.reset();
}

TEST(DriverCall, OnlyWhatIsMarkedIsTheDrivers) {
  HostFaults faults;
  const auto row =
      faults.arm({.point = fault::Point::SystemCall, .trigger = wire::occurrences(1, 1, 0), .argument = EMFILE});
  EXPECT_EQ(system_call([] { return 7; }), 7);
  {
    const DriverCall call(&faults, 3);
    EXPECT_EQ(system_call([] { return 7; }), -1);
    EXPECT_EQ(errno, EMFILE);
    const DriverCall somebody_else(nullptr);
    EXPECT_EQ(system_call([] { return 7; }), 7);
  }
  EXPECT_EQ(system_call([] { return 7; }), 7);
  EXPECT_EQ(faults.evidence(*row).counted, 1u);
  EXPECT_EQ(faults.evidence(*row).last.function, 3u);
  // bounded: it does one thing and ends
  std::thread([&] { EXPECT_EQ(system_call([] { return 7; }), 7) << "another thread"; }).join();
}

}  // namespace
}  // namespace svp
