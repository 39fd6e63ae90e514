// SPDX-License-Identifier: Apache-2.0
//
// No emulator survives its owner, however the owner ends. The owner is a process of its own (machine_owner.cpp).
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>

#include "tests/bounds.hpp"
#include "tests/support/process_end.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace qemu {
namespace {

constexpr std::chrono::milliseconds kBound = test_bounds::kPlayedEmulator;

class LifetimeTest : public testing::Test {
 protected:
  void SetUp() override { before_ = svp::test::count_resources_without_threads(); }
  // A killed owner may leave a process behind for a moment: under AddressSanitizer the tracer of its leak check.
  void TearDown() override {
    const auto deadline = std::chrono::steady_clock::now() + kBound;
    while (svp::test::count_resources_without_threads() != before_ && std::chrono::steady_clock::now() < deadline) {
      ::usleep(1000);  // bounded: a pause of the bounded loop
    }
    EXPECT_EQ(svp::test::count_resources_without_threads(), before_);
  }

  void start(const std::string& ending) {
    owner_.emplace(SPYRE_MACHINE_OWNER, SPYRE_FAKE_EMULATOR, folder_.firmware(), ending);
    ASSERT_GT(owner_->emulator(), 0);
  }
  void expect_all_gone() {
    EXPECT_TRUE(test::wait_for_end(owner_->emulator(), kBound));
    if (owner_->reaper() > 1) EXPECT_TRUE(test::wait_for_end(owner_->reaper(), kBound));
    owner_.reset();
  }
  void expect_ended_under_a_running_owner() {
    EXPECT_TRUE(test::wait_for_end(owner_->emulator(), kBound));
    if (owner_->reaper() > 1) EXPECT_TRUE(test::wait_for_end(owner_->reaper(), kBound));
    EXPECT_TRUE(test::is_alive(owner_->pid())) << "the owner's end would have ended them too";
    owner_.reset();
  }
  void expect_running() {
    EXPECT_TRUE(test::is_alive(owner_->emulator()));
    EXPECT_TRUE(test::is_alive(owner_->reaper()));
  }

  test::TemporaryFolder folder_;
  std::optional<test::Owner> owner_;
  svp::test::ProcessResources before_;
};

TEST_F(LifetimeTest, EndsWhenTheOwnerReturns) {
  start("return");
  expect_all_gone();
}

TEST_F(LifetimeTest, EndsWhenTheOwnerLeavesWithoutDestructors) {
  start("_exit");
  expect_all_gone();
}

TEST_F(LifetimeTest, EndsWhenTheOwnerAborts) {
  start("abort");
  expect_all_gone();
}

TEST_F(LifetimeTest, EndsWhenTheOwnerBecomesAnotherProgram) {
  start("exec");
  expect_all_gone();
}

TEST_F(LifetimeTest, EndsWhenAnExceptionUnwindsIt) {
  start("exception");
  expect_all_gone();
}

TEST_F(LifetimeTest, EndsOnRequestOfAnOwnerThatMayNotSignalIt) {
  start("unprivileged");
  expect_ended_under_a_running_owner();
}

TEST_F(LifetimeTest, EndsWithTheMachineOfAnOwnerThatMayNotSignalIt) {
  start("unprivileged-close");
  expect_ended_under_a_running_owner();
}

TEST_F(LifetimeTest, EndsWhenTheOwnerIsKilled) {
  start("hold");
  expect_running();
  owner_->kill();
  expect_all_gone();
}

TEST_F(LifetimeTest, EndsWhenTheOwnerIsKilledWhileAForkHoldsItsDescriptors) {
  start("fork-hold");
  expect_running();
  const pid_t holder = owner_->forked_child();
  owner_->kill();
  EXPECT_TRUE(test::wait_for_end(owner_->emulator(), kBound));
  EXPECT_TRUE(test::wait_for_end(owner_->reaper(), kBound));
  EXPECT_TRUE(test::is_alive(holder)) << "the test must not have passed because the holder ended";
  svp::test::send_signal(holder, SIGKILL);
  EXPECT_TRUE(test::wait_for_end(holder, kBound));
}

TEST_F(LifetimeTest, SurvivesTheExitOfAForkedChild) {
  start("fork-exit");
  expect_running();
  owner_->kill();
  expect_all_gone();
}

TEST_F(LifetimeTest, SurvivesTheThreadThatStartedIt) {
  start("thread");
  expect_running();
  owner_->kill();
  expect_all_gone();
}

}  // namespace
}  // namespace qemu
