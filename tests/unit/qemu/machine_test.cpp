// SPDX-License-Identifier: Apache-2.0
#include "qemu/machine.hpp"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <fstream>
#include <future>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tests/bounds.hpp"
#include "tests/support/forbidden_signals.hpp"
#include "tests/support/process_end.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace qemu {
namespace {

using nlohmann::json;
using std::chrono::milliseconds;
using Kind = MachineError::Kind;
using testing::HasSubstr;

constexpr milliseconds kBound = test_bounds::kPlayedEmulator;

class MachineTest : public testing::Test {
 protected:
  void SetUp() override {
    options_.emulator = SPYRE_FAKE_EMULATOR;
    options_.firmware = folder_.firmware();
    before_ = svp::test::count_resources_without_threads();
  }
  void TearDown() override { EXPECT_EQ(svp::test::count_resources_without_threads(), before_); }

  void behave(const std::string& behaviour) { options_.extra_arguments = {"-fake", behaviour}; }
  Machine start() {
    auto machine = Machine::start(options_);
    if (!machine) {
      ADD_FAILURE() << to_string(machine.error());
      std::abort();
    }
    return std::move(*machine);
  }
  MachineError fail_to_start() {
    auto machine = Machine::start(options_);
    if (machine) return {Kind::kTimeout, "it started", ""};
    EXPECT_FALSE(machine.error().message.empty());
    EXPECT_FALSE(machine.error().next_step.empty());
    return std::move(machine.error());
  }

  test::TemporaryFolder folder_;
  MachineOptions options_;
  svp::test::ProcessResources before_;
};

bool ring_and_wait(const svp::SlotHandle& slot) {
  const char ring[svp::kDoorbellBytes] = {};
  if (::write(slot.doorbell_to_card(), ring, sizeof ring) != ssize_t(sizeof ring)) return false;
  pollfd event{slot.doorbell_from_card(), POLLIN, 0};
  if (::poll(&event, 1, test_bounds::in_milliseconds(kBound)) != 1) return false;
  char drained[64];
  // bounded: poll() said that there is something
  return ::read(slot.doorbell_from_card(), drained, sizeof drained) > 0;
}

TEST_F(MachineTest, EverySlotIsConnectedWhenStartReturns) {
  for (const unsigned count : {0U, 1U, 3U, 26U, 64U}) {
    options_.slots.assign(count, {.window_bytes = kMiB});
    Machine machine = start();
    ASSERT_EQ(machine.slot_count(), count);
    for (unsigned i = 0; i < count; ++i) {
      const auto slot = machine.slot(i);
      ASSERT_TRUE(slot);
      EXPECT_EQ(slot->index(), i);
      EXPECT_TRUE(ring_and_wait(*slot)) << "slot " << i << " of " << count;
    }
    EXPECT_EQ(machine.slot(count).error().kind, Kind::kInvalidOption);
  }
}

TEST_F(MachineTest, RequestsAndEventsReachTheirCallers) {
  std::promise<MachineEvent> reset;
  options_.on_event = [&](const MachineEvent& event) {
    if (event.kind == MachineEvent::Kind::kReset) reset.set_value(event);
  };
  Machine machine = start();
  EXPECT_EQ(machine.version(), (Version{10, 1, 0}));
  EXPECT_TRUE(machine.stop());
  EXPECT_TRUE(machine.cont());
  EXPECT_EQ(machine.execute("echo", {{"a", 1}}).value_or(json{}), (json{{"a", 1}}));
  const auto harts = machine.hart_threads();
  ASSERT_TRUE(harts);
  EXPECT_EQ(harts->at(0).host_thread, machine.pid());
  ASSERT_TRUE(machine.system_reset());
  auto event = reset.get_future();
  ASSERT_EQ(event.wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(event.get().reason, "host-qmp-system-reset");  // bounded: it is ready, as just seen
}

TEST_F(MachineTest, OverlappingRequestsGetTheirOwnAnswers) {
  Machine machine = start();
  std::vector<std::jthread> callers;
  callers.reserve(8);
  for (int caller = 0; caller < 8; ++caller) {
    callers.emplace_back([&, caller] {
      for (int i = 0; i < 50; ++i) {
        const json question{{"caller", caller}, {"i", i}};
        EXPECT_EQ(machine.execute("echo", question).value_or(json{}), question);
      }
    });
  }
}

TEST_F(MachineTest, ConsoleIsCollectedCutIntoLinesAndCopied) {
  std::vector<std::string> lines;
  options_.on_console_line = [&](std::string_view line) { lines.emplace_back(line); };
  options_.console_file = folder_.path() / "console.txt";
  options_.boot_arguments = "slots=m,pf";
  {
    Machine machine = start();
    EXPECT_TRUE(machine.wait_console("unfinished", kBound));
    EXPECT_THAT(machine.console(), HasSubstr("boot arguments: slots=m,pf"));
    ASSERT_TRUE(machine.kill());
    EXPECT_FALSE(machine.wait_console("never written", kBound));
  }
  EXPECT_THAT(lines, testing::ElementsAre("boot arguments: slots=m,pf", "unfinished"));
  std::ifstream file(options_.console_file);
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_THAT(text.str(), HasSubstr("unfinished"));
}

TEST_F(MachineTest, PausedCardsWaitForTheirOwner) {
  options_.start_paused = true;
  Machine machine = start();
  ASSERT_TRUE(machine.execute("query-status", {}));
  EXPECT_EQ(machine.console(), "");
  ASSERT_TRUE(machine.cont());
  EXPECT_TRUE(machine.wait_console("boot arguments", kBound));
}

TEST_F(MachineTest, AFirmwareExitCodeReachesEveryone) {
  std::promise<ExitStatus> told;
  options_.on_exit = [&](const ExitStatus& status) { told.set_value(status); };
  options_.start_paused = true;
  behave("exit:7");
  Machine machine = start();
  const auto exit_fd = machine.exit_fd();
  ASSERT_TRUE(exit_fd);
  pollfd event{exit_fd->get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, 0), 0);
  [[maybe_unused]] const auto answer_or_death = machine.cont();
  EXPECT_EQ(::poll(&event, 1, test_bounds::in_milliseconds(kBound)), 1);
  const ExitStatus expected{ExitStatus::Kind::kExited, 7};
  EXPECT_EQ(machine.wait_exit(kBound).value_or(ExitStatus{}), expected);
  EXPECT_EQ(machine.exit_status(), expected);
  EXPECT_FALSE(machine.alive());
  auto answer = told.get_future();
  ASSERT_EQ(answer.wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(answer.get(), expected);  // bounded: it is ready, as just seen
  EXPECT_EQ(machine.stop().error().kind, Kind::kDied);
  EXPECT_THAT(machine.console(), HasSubstr("unfinished")) << "the last words must be there when the end is known";
}

TEST_F(MachineTest, ASignalIsToldApartFromAnExit) {
  Machine machine = start();
  EXPECT_EQ(machine.wait_exit(milliseconds{0}).error().kind, Kind::kTimeout);
  svp::test::send_signal(machine.pid(), SIGKILL);
  EXPECT_EQ(machine.wait_exit(kBound).value_or(ExitStatus{}), (ExitStatus{ExitStatus::Kind::kSignaled, SIGKILL}));
}

TEST_F(MachineTest, QuitEndsWithCodeZero) {
  Machine machine = start();
  ASSERT_TRUE(machine.quit());
  EXPECT_EQ(machine.wait_exit(kBound).value_or(ExitStatus{}), (ExitStatus{ExitStatus::Kind::kExited, 0}));
}

TEST_F(MachineTest, KillIsIdempotent) {
  Machine machine = start();
  const ExitStatus killed{ExitStatus::Kind::kSignaled, SIGKILL};
  EXPECT_EQ(machine.kill().value_or(ExitStatus{}), killed);
  EXPECT_EQ(machine.kill().value_or(ExitStatus{}), killed);
}

TEST_F(MachineTest, AKilledReaperIsADeathWithoutAKnownStatus) {
  Machine machine = start();
  svp::test::send_signal(test::parent_of(machine.pid()), SIGKILL);
  EXPECT_EQ(machine.wait_exit(kBound).value_or(ExitStatus{ExitStatus::Kind::kExited, 1}), ExitStatus{});
}

TEST_F(MachineTest, MovingKeepsTheCardAndAssignmentEndsTheOldOne) {
  Machine first = start();
  const pid_t first_pid = first.pid();
  Machine second{std::move(first)};
  EXPECT_TRUE(second.alive());
  EXPECT_EQ(second.pid(), first_pid);
  second = start();
  EXPECT_FALSE(test::is_alive(first_pid));
  EXPECT_TRUE(second.alive());
}

TEST_F(MachineTest, CallbacksCanNotStallTheMachine) {
  std::promise<Kind> refused;
  Machine* self = nullptr;
  std::atomic<bool> ready{false};
  options_.on_event = [&](const MachineEvent& event) {
    if (event.kind != MachineEvent::Kind::kStop) return;
    while (!ready) std::this_thread::yield();  // bounded: the test sets it when start() returns, which is bounded
    EXPECT_FALSE(self->wait_exit(kBound));
    refused.set_value(self->cont().error().kind);
  };
  Machine machine = start();
  self = &machine;
  ready = true;
  [[maybe_unused]] const auto answer = machine.stop();
  auto refusal = refused.get_future();
  ASSERT_EQ(refusal.wait_for(kBound), std::future_status::ready);
  EXPECT_EQ(refusal.get(), Kind::kQmpError);  // bounded: it is ready, as just seen
}

TEST_F(MachineTest, GarbageBetweenMessagesIsSkipped) {
  behave("garbage");
  EXPECT_TRUE(start().stop());
}

TEST_F(MachineTest, ARefusedOrUnansweredRequestLeavesTheCardAlone) {
  behave("refuse");
  {
    Machine machine = start();
    const auto refused = machine.stop();
    EXPECT_EQ(refused.error().kind, Kind::kQmpError);
    EXPECT_THAT(refused.error().message, HasSubstr("told to refuse"));
    EXPECT_TRUE(machine.cont());
  }
  behave("mute");
  Machine machine = start();
  EXPECT_EQ(machine.stop().error().kind, Kind::kQmpError);
  EXPECT_TRUE(machine.cont());
}

TEST_F(MachineTest, EndlessLinesDoNotGrowWithoutBound) {
  std::atomic<std::size_t> longest{0};
  options_.on_console_line = [&](std::string_view line) { longest = std::max(longest.load(), line.size()); };
  behave("endless");
  Machine machine = start();
  EXPECT_TRUE(machine.wait_console(std::string(30'000, 'x'), kBound));
  EXPECT_LT(longest, 64'000U);
}

TEST_F(MachineTest, StartErrorsAreTyped) {
  options_.slots.assign(2, {.window_bytes = kMiB});
  {
    MachineOptions saved = options_;
    options_.emulator = "/nonexistent/emulator";
    EXPECT_EQ(fail_to_start().kind, Kind::kEmulatorNotFound);
    options_ = saved;
    options_.firmware = "/nonexistent/firmware.elf";
    EXPECT_EQ(fail_to_start().kind, Kind::kFirmwareMissing);
    options_ = saved;
    options_.harts = 0;
    EXPECT_EQ(fail_to_start().kind, Kind::kInvalidOption);
    options_ = saved;
    options_.console_file = "/nonexistent/console.txt";
    EXPECT_EQ(fail_to_start().kind, Kind::kInvalidOption);
    options_ = saved;
  }
  behave("fail");
  const MachineError failed = fail_to_start();
  EXPECT_EQ(failed.kind, Kind::kStartFailed);
  EXPECT_EQ(failed.exit, (ExitStatus{ExitStatus::Kind::kExited, 3}));
  EXPECT_THAT(failed.message, HasSubstr("told to fail"));
}

TEST_F(MachineTest, OldEmulatorsAreRefusedHoweverTheyFail) {
  behave("old");
  const MachineError greeted = fail_to_start();
  EXPECT_EQ(greeted.kind, Kind::kEmulatorTooOld);
  EXPECT_THAT(greeted.message, HasSubstr("8.1.0"));
  EXPECT_THAT(greeted.message, HasSubstr("9.2.0"));
  EXPECT_THAT(greeted.next_step, HasSubstr("scripts/bootstrap"));

  options_.emulator = folder_.file("old-emulator",
                                   "#!/bin/sh\n[ \"$1\" = --version ] && echo 'QEMU emulator version 7.2.22 (old)' && "
                                   "exit 0\necho unknown option >&2\nexit 1\n",
                                   true);
  const MachineError ended = fail_to_start();
  EXPECT_EQ(ended.kind, Kind::kEmulatorTooOld);
  EXPECT_THAT(ended.message, HasSubstr("7.2.22"));
}

TEST_F(MachineTest, EveryWaitOfTheStartIsBounded) {
  behave("silent");
  options_.timeouts.greeting = milliseconds{50};  // reached: the emulator says nothing
  EXPECT_EQ(fail_to_start().kind, Kind::kHandshakeTimeout);
  behave("silent");
  options_.timeouts.greeting = kBound;              // reached: or the one below is
  options_.timeouts.handshake = milliseconds{200};  // reached: for the same reason
  EXPECT_EQ(fail_to_start().kind, Kind::kHandshakeTimeout);
}

TEST_F(MachineTest, TooFewDescriptorsAreATypedError) {
  rlimit saved{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &saved), 0);
  // Raising the hard limit again needs a privilege: try it in a child, its exit code is the answer.
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit small{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_NOFILE, &small);
    options_.slots.assign(64, {.window_bytes = kMiB});
    const auto machine = Machine::start(options_);
    ::_exit(!machine && machine.error().kind == Kind::kDescriptorLimit ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);  // bounded: the child looks at the machine once and leaves
  EXPECT_EQ(status, 0);
}

TEST_F(MachineTest, RepeatedDeathsLeaveNothingBehind) {
  // TearDown counts.
  options_.slots.assign(8, {.window_bytes = kMiB});
  for (int i = 0; i < 20; ++i) {
    Machine machine = start();
    if (i % 2 == 0) svp::test::send_signal(machine.pid(), SIGKILL);
  }
}

// A process that may not signal it asks the reaper; here that has been killed, and the emulator, which would have ended
// with it, has given up that as well, as the kernel does for one that changes its user.
TEST_F(MachineTest, OneThatNobodyIsLeftToEndIsATypedError) {
  behave("orphan");
  options_.timeouts.kill = milliseconds(200);  // reached: the emulator goes on
  Machine machine = start();
  const pid_t emulator = machine.pid(), reaper = test::parent_of(emulator);
  svp::test::send_signal(reaper, SIGKILL);
  ASSERT_TRUE(test::wait_for_end(reaper, kBound));
  std::optional<Result<ExitStatus>> ended;
  std::thread unprivileged([&] {
    svp::test::forbid_signals();
    ended = machine.kill();
  });
  unprivileged.join();  // bounded: kill() is, by Timeouts::kill
  ASSERT_FALSE(*ended);
  EXPECT_EQ(ended->error().kind, Kind::kNotPermitted) << to_string(ended->error());
  EXPECT_THAT(ended->error().next_step, HasSubstr("kill -9 " + std::to_string(emulator)));
  EXPECT_TRUE(test::is_alive(emulator));
  EXPECT_TRUE(machine.kill()) << "this thread may";
}

}  // namespace
}  // namespace qemu
