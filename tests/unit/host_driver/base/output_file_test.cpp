// SPDX-License-Identifier: Apache-2.0
#include "host_driver/base/output_file.hpp"

#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <thread>

#include "host_driver/base/file_size_signal.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class OutputFile : public testing::Test {
 protected:
  static Expected<void> write(const fs::path& path, const std::string& text) {
    return write_output_file(path, [&](std::ostream& out) { out << text; });
  }
  std::ptrdiff_t entries() const { return std::distance(fs::directory_iterator(folder_.path()), {}); }
  fs::path path(const char* name) const { return folder_.path() / name; }

  qemu::test::TemporaryFolder folder_;
};

TEST_F(OutputFile, ANewFileIsMadeAndARegularOneIsReplaced) {
  ASSERT_TRUE(write(path("a"), "first"));
  ASSERT_EQ(::chmod(path("a").c_str(), 0640), 0);
  fs::create_hard_link(path("a"), path("before"));
  ASSERT_TRUE(write(path("a"), std::string(200'000, 'x')));
  EXPECT_EQ(text_of(path("a")), std::string(200'000, 'x'));
  EXPECT_EQ(text_of(path("before")), "first") << "not written in place: a reader would see a part";
  EXPECT_EQ(fs::status(path("a")).permissions(), static_cast<fs::perms>(0640));
  EXPECT_EQ(entries(), 2);
}

TEST_F(OutputFile, WhatIsNoRegularFileIsWrittenAndStaysWhatItIs) {
  ASSERT_TRUE(write(path("target"), "old"));
  fs::create_symlink("target", path("link"));
  fs::create_symlink("made", path("dangling"));
  ASSERT_TRUE(write(path("link"), "new"));
  ASSERT_TRUE(write(path("dangling"), "new"));
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(path("link"))));
  EXPECT_TRUE(fs::is_symlink(fs::symlink_status(path("dangling"))));
  EXPECT_EQ(text_of(path("target")), "new");
  EXPECT_EQ(text_of(path("made")), "new");

  ASSERT_EQ(::mkfifo(path("fifo").c_str(), 0600), 0);
  std::string read;
  std::thread reader([&] { read = text_of(path("fifo")); });
  EXPECT_TRUE(write(path("fifo"), std::string(300'000, 'y')));
  reader.join();  // bounded: the writer has closed the FIFO
  EXPECT_EQ(read, std::string(300'000, 'y'));
  EXPECT_TRUE(fs::is_fifo(fs::symlink_status(path("fifo"))));
  EXPECT_EQ(entries(), 5);
}

TEST_F(OutputFile, ADeviceIsWrittenAndStaysOne) {
  fs::create_symlink("/dev/full", path("full"));
  const auto full = write(path("full"), "x");
  ASSERT_FALSE(full);
  EXPECT_THAT(full.error().message, testing::HasSubstr("No space left"));
  if (::mknod(path("null").c_str(), S_IFCHR | 0600, ::makedev(1, 3)) != 0) GTEST_SKIP() << "devices need privileges";
  (void)write(path("null"), "x");  // a mount may forbid its use
  EXPECT_TRUE(fs::is_character_file(fs::symlink_status(path("null"))));
}

TEST_F(OutputFile, WhatCannotBeWrittenIsNamedAndNothingIsLeft) {
  ASSERT_TRUE(write(path("kept"), "kept"));
  EXPECT_THAT(write(folder_.path(), "x").error().message, testing::HasSubstr("Is a directory"));
  EXPECT_THAT(write(path("no") / "folder", "x").error().message, testing::HasSubstr("No such file"));
  EXPECT_THROW((void)write_output_file(path("kept"),
                                       [](std::ostream& out) {
                                         out << "part";
                                         throw std::runtime_error("of the content");
                                       }),
               std::runtime_error);
  EXPECT_EQ(text_of(path("kept")), "kept");
  EXPECT_EQ(entries(), 1);
}

class FileSizeLimit : public OutputFile {
 protected:
  void SetUp() override {
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before_), 0);
    rlimit small = before_;
    small.rlim_cur = 1000;
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  }
  void TearDown() override { EXPECT_EQ(::setrlimit(RLIMIT_FSIZE, &before_), 0); }

  rlimit before_{};
};

TEST_F(FileSizeLimit, IsAnErrorThatNamesItAndNoSignal) {
  const auto written = write(path("large"), std::string(2000, 'x'));
  ASSERT_FALSE(written);
  EXPECT_THAT(written.error().message, testing::HasSubstr("RLIMIT_FSIZE"));
  EXPECT_THAT(written.error().next_step, testing::HasSubstr("ulimit -f"));
  EXPECT_EQ(entries(), 0);
}

TEST_F(FileSizeLimit, LeavesTheProgramsSignalsAsTheyWere) {
  struct sigaction disposition{};
  sigset_t mask;
  sigset_t pending;
  (void)write(path("large"), std::string(2000, 'x'));
  ASSERT_EQ(::sigaction(SIGXFSZ, nullptr, &disposition), 0);
  EXPECT_EQ(disposition.sa_handler, SIG_DFL);
  ASSERT_EQ(::pthread_sigmask(SIG_SETMASK, nullptr, &mask), 0);
  EXPECT_EQ(sigismember(&mask, SIGXFSZ), 0);
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGXFSZ), 0);
}

TEST_F(FileSizeLimit, ASignalThatTheProgramHoldsBackStaysWaiting) {
  sigset_t one;
  sigemptyset(&one);
  sigaddset(&one, SIGXFSZ);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &one, nullptr), 0);
  ASSERT_EQ(::raise(SIGXFSZ), 0);
  {
    const FileSizeSignalHeld held;
  }
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(sigismember(&pending, SIGXFSZ), 1);
  constexpr timespec kNow{};
  EXPECT_EQ(::sigtimedwait(&one, nullptr, &kNow), SIGXFSZ);
  ASSERT_EQ(::pthread_sigmask(SIG_UNBLOCK, &one, nullptr), 0);
}

}  // namespace
}  // namespace svp
