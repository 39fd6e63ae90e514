// SPDX-License-Identifier: Apache-2.0
#include "qemu/spawn.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>

#include "qemu/reaper_protocol.hpp"
#include "qemu/timeouts.hpp"
#include "tests/bounds.hpp"
#include "tests/support/process_resources.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace qemu {
namespace {

constexpr Timeouts::Duration kBound = test_bounds::kPlayedEmulator;

/// Any program can stand for the emulator here.
class SpawnTest : public testing::Test {
 protected:
  void SetUp() override {
    before_ = svp::test::count_resources_without_threads();
    null_.reset(::open("/dev/null", O_RDWR | O_CLOEXEC));
  }
  void TearDown() override {
    EXPECT_TRUE(end_reaper(guarded_, kBound));
    guarded_ = {};
    null_.reset();
    EXPECT_EQ(svp::test::count_resources_without_threads(), before_);
  }
  Result<void> spawn_shell(const std::string& script, std::span<const int> inherited = {}) {
    auto spawned = spawn_guarded("/bin/sh", {"-c", script}, inherited, null_.get(), kBound);
    if (!spawned) return std::unexpected(spawned.error());
    guarded_ = std::move(*spawned);
    return {};
  }
  reaper::Report next_report() {
    pollfd event{guarded_.link.get(), POLLIN, 0};
    reaper::Report report{};
    if (::poll(&event, 1, test_bounds::in_milliseconds(kBound)) == 1)
      (void)::recv(guarded_.link.get(), &report, sizeof report, MSG_DONTWAIT);
    return report;
  }

  svp::test::ProcessResources before_;
  svp::UniqueFd null_;
  Guarded guarded_;
};

TEST_F(SpawnTest, ExitCodesAreReported) {
  ASSERT_TRUE(spawn_shell("exit 42"));
  const auto report = next_report();
  EXPECT_EQ(report.kind, reaper::ReportKind::kExited);
  EXPECT_EQ(report.value, 42);
}

TEST_F(SpawnTest, TheEmulatorIsAProcessGroupOfItsOwnInTheOwnersSession) {
  ASSERT_TRUE(spawn_shell("exec sleep 60"));
  const pid_t group = ::getpgid(guarded_.emulator);
  EXPECT_NE(group, ::getpgid(0)) << "the terminal's signals reach the emulator";
  EXPECT_EQ(group, guarded_.reaper);
  EXPECT_EQ(::getsid(guarded_.emulator), ::getsid(0)) << "a session of its own is a scheduling group of its own";
}

TEST_F(SpawnTest, SignalsAreReported) {
  ASSERT_TRUE(spawn_shell("kill -SEGV $$"));
  const auto report = next_report();
  EXPECT_EQ(report.kind, reaper::ReportKind::kSignaled);
  EXPECT_EQ(report.value, SIGSEGV);
}

TEST_F(SpawnTest, AnExecThatFailsIsATypedErrorWithItsReason) {
  const auto spawned = spawn_guarded("/nonexistent/emulator", {}, {}, null_.get(), kBound);
  ASSERT_FALSE(spawned);
  EXPECT_EQ(spawned.error().kind, MachineError::Kind::kStartFailed);
  EXPECT_TRUE(spawned.error().message.contains("No such file"));
}

TEST_F(SpawnTest, DroppingTheLinkKills) {
  ASSERT_TRUE(spawn_shell("exec sleep 60"));
  guarded_.link.reset();
  EXPECT_TRUE(test::wait_for_end(guarded_.emulator, kBound));
}

TEST_F(SpawnTest, AKilledReaperTakesTheEmulatorAlong) {
  ASSERT_TRUE(spawn_shell("exec sleep 60"));
  ASSERT_EQ(::kill(guarded_.reaper, SIGKILL), 0);
  EXPECT_TRUE(test::wait_for_end(guarded_.emulator, kBound));
}

TEST_F(SpawnTest, AnIgnoredChildSignalDoesNotHideTheStatus) {
  const auto old = ::signal(SIGCHLD, SIG_IGN);
  for (int i = 0; i < 20 && !HasFailure(); ++i) {  // now and then the reaper has ended before it is looked at
    const auto spawned = spawn_shell("exit 7");
    EXPECT_TRUE(spawned) << to_string(spawned.error());
    EXPECT_EQ(spawned ? next_report().value : -1, 7);
    EXPECT_TRUE(end_reaper(guarded_, kBound));
  }
  ::signal(SIGCHLD, old);
}

TEST_F(SpawnTest, AReaperThatIsLateIsCollectedLater) {
  const auto before = svp::test::count_process_resources();
  bool late = false;
  for (int tries = 0; tries < 1000 && !late; ++tries) {
    ASSERT_TRUE(spawn_shell("exec sleep 60"));
    const auto ended = end_reaper(guarded_, Timeouts::Duration{0});
    late = !ended;
    if (late) EXPECT_EQ(ended.error().kind, MachineError::Kind::kTimeout);
    guarded_ = {};
  }
  EXPECT_TRUE(late) << "no reaper was late";
  EXPECT_EQ(svp::test::left_over(before), "");
}

TEST_F(SpawnTest, OnlyTheNamedDescriptorsAreInherited) {
  // One that every careless library leaves behind: without close-on-exec.
  const svp::UniqueFd careless{::open("/dev/null", O_RDONLY)};
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const svp::UniqueFd read_end{ends[0]};
  svp::UniqueFd write_end{ends[1]};
  const std::array inherited{write_end.get()};
  ASSERT_TRUE(spawn_shell("cd /proc/self/fd && echo * >&6", inherited));
  write_end.reset();
  std::string text;
  // bounded: the script that holds the other end is one echo
  for (char c; ::read(read_end.get(), &c, 1) == 1;) text += c;
  // The shell expands `*` itself and reads the folder through one more descriptor.
  EXPECT_TRUE(text.starts_with("0 1 2 ")) << text;
  EXPECT_TRUE(text.contains('6')) << text;
  EXPECT_LE(text.size(), std::string{"0 1 2 3 6\n"}.size()) << text;
}

TEST_F(SpawnTest, ManyDescriptorsKeepTheirOrder) {
  constexpr int kCount = 60;
  const test::TemporaryFolder folder;
  std::vector<svp::UniqueFd> files;
  std::vector<int> inherited;
  std::string script = "ok=0;";
  for (int i = 0; i < kCount; ++i) {
    const std::string path = folder.file(std::to_string(i), std::to_string(i) + "\n");
    files.emplace_back(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    // Reverse order of creation: sources and targets overlap in every way.
    inherited.insert(inherited.begin(), files.back().get());
    script += "read line < /proc/self/fd/" + std::to_string(first_inherited_descriptor() + i) +
              "; [ \"$line\" = " + std::to_string(kCount - 1 - i) + " ] || ok=1;";
  }
  ASSERT_TRUE(spawn_shell(script + "exit $ok", inherited));
  const auto report = next_report();
  EXPECT_EQ(report.kind, reaper::ReportKind::kExited);
  EXPECT_EQ(report.value, 0);
}

TEST_F(SpawnTest, TheReaperHoldsNothingOfTheEmulators) {
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const svp::UniqueFd read_end{ends[0]};
  svp::UniqueFd write_end{ends[1]};
  const std::array inherited{write_end.get()};
  ASSERT_TRUE(spawn_shell("exec 6>&-; exec sleep 60", inherited));
  write_end.reset();
  pollfd event{read_end.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&event, 1, test_bounds::in_milliseconds(kBound)), 1) << "somebody still holds the write end";
  EXPECT_TRUE(event.revents & POLLHUP);
}

TEST_F(SpawnTest, TheReaperIsTiny) {
  ASSERT_TRUE(spawn_shell("exec sleep 60"));
  std::ifstream status("/proc/" + std::to_string(guarded_.reaper) + "/statm");
  long pages = 0;
  status >> pages;
  EXPECT_GT(pages, 0);
  EXPECT_LT(pages, 256) << "whole address space, in pages";
}

}  // namespace
}  // namespace qemu
