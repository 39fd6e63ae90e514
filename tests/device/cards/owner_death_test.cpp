// SPDX-License-Identifier: Apache-2.0
// Owners end in the middle of something: what they left running is stopped in time, and the next owner finds nothing of
// it.
#include <csignal>

#include "tests/support/process_end.hpp"

#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::Tenant;

class OwnerDeath : public testing::TestWithParam<const char*> {
 protected:
  // From its second owner on, a function has a renewed window: the first ones are those of the boot.
  static void SetUpTestSuite() {
    card_ = std::make_unique<test::ServedCard>(2);
    for (const char* function : {"PF", "VF1", "VF2"}) Tenant first(card().folder(), function, "attach");
    EXPECT_TRUE(card().wait_until([](const auto& now) { return now.retirements.count == 3; }));
    EXPECT_TRUE(card().wait_until_at_rest());
  }
  static void TearDownTestSuite() { card_.reset(); }
  static test::ServedCard& card() { return *card_; }

  // The owner is gone when `end` returns: then the function is stopped in time, and clean for the next owner.
  static void expect_retired(const std::string& function, wire::Target target, const std::function<void()>& end) {
    const auto old_serial = card().function(target).serial;
    end();
    ASSERT_TRUE(wait_for_new_window(target, old_serial));
    const auto looked_at = card().function(target).serial;
    Tenant next(card().folder(), function, "look");
    EXPECT_EQ(next.attached.substr(0, 9 + function.size()), "attached " + function);
    EXPECT_EQ(next.wait_for("clean"), "clean") << next.read_line();
    EXPECT_EQ(next.wait_exit(), 0);
    ASSERT_TRUE(wait_for_new_window(target, looked_at));
  }
  // A free function with a larger serial has been retired since.
  static bool wait_for_new_window(wire::Target target, std::uint32_t old_serial) {
    return card().wait_until([=](const auto& now) {
      const auto& function = now.functions[target - wire::kTargetPhysical];
      return function.use == FunctionUse::Free && function.serial > old_serial;
    });
  }

  static inline std::unique_ptr<test::ServedCard> card_;
};

TEST_P(OwnerDeath, KilledOwnerIsRetiredInTimeAndLeavesNothing) {
  const auto before = test::count_both(card());
  for (const wire::Target target : {wire::kTargetPhysical, wire::target_of_virtual(1)}) {
    const std::string function = function_name(target);
    Tenant bystander(card().folder(), "VF2", "compute");
    Tenant owner(card().folder(), function, GetParam());
    ASSERT_EQ(owner.attached.substr(0, 9 + function.size()), "attached " + function);
    ASSERT_EQ(owner.wait_for("working"), "working") << owner.read_line();
    expect_retired(function, target, [&] { owner.kill(); });
    EXPECT_EQ(bystander.wait_for("computed"), "computed 50 rounds");
    EXPECT_EQ(bystander.wait_exit(), 0);
    ASSERT_TRUE(card().wait_until([](const auto& now) { return now.functions[2].use == FunctionUse::Free; }));
  }
  EXPECT_EQ(test::left_over(card(), before), "");
}

INSTANTIATE_TEST_SUITE_P(Busy, OwnerDeath,
                         testing::Values("attach", "dma-loop", "kernel-loop", "admin-loop", "event-loop"),
                         [](const auto& tested) {
                           std::string name = tested.param;
                           std::erase(name, '-');
                           return name;
                         });

using OwnerFork = OwnerDeath;

TEST_F(OwnerFork, OwnerIsGoneThoughItsChildHoldsTheSocket) {
  Tenant owner(card().folder(), "VF1", "fork-and-die");
  const std::string line = owner.wait_for("child");
  ASSERT_FALSE(line.empty());
  const pid_t child = std::stoi(line.substr(6));
  expect_retired("VF1", wire::target_of_virtual(1), [&] {
    owner.close_input();
    EXPECT_EQ(owner.wait_exit(), 0);
  });
  EXPECT_TRUE(qemu::test::is_alive(child)) << "the test must not have passed because the holder ended";
  svp::test::send_signal(child, SIGKILL);
  EXPECT_TRUE(qemu::test::wait_for_end(child, test::kBound));
}

TEST_F(OwnerFork, StoppedOwnerKeepsItsFunction) {
  Tenant owner(card().folder(), "VF1", "attach");
  ASSERT_TRUE(test::stop_process(owner.pid()));
  const auto refused = attach(card().folder(), FunctionChoice::virtual_function(1));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, testing::HasSubstr("owned by pid " + std::to_string(owner.pid())));
  const auto target = wire::target_of_virtual(1);
  const auto old_serial = card().function(target).serial;
  owner.kill();
  ASSERT_TRUE(wait_for_new_window(target, old_serial));
}

}  // namespace
}  // namespace svp
