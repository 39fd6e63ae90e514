// SPDX-License-Identifier: Apache-2.0
// Files of a plan: what is read, what is refused, how they are written.
#include "host_driver/spyrecode/directory.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <fstream>
#include <string>

#include "host_driver/spyrecode/spyre_code.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::spyrecode {
namespace {

namespace fs = std::filesystem;

std::string text_of(const FileContent& content) {
  return {reinterpret_cast<const char*>(content.bytes.data()), content.bytes.size()};
}

template <typename Call>
std::string message_of(Call call) {
  try {
    call();
  } catch (const Error& error) {
    EXPECT_FALSE(error.info().next_step.empty());
    return error.info().message;
  }
  return "accepted";
}

class DirectoryFiles : public testing::Test {
 protected:
  DirectoryFiles() {
    write("a.bin", "0123456789");
    fs::create_directory(folder.path() / "sub");
    write("sub/b.bin", "inside");
  }
  void write(const std::string& name, const std::string& text) const {
    std::ofstream(folder.path() / name, std::ios::binary) << text;
  }
  std::string refused(const std::string& name) const {
    const Directory directory(folder.path());
    return message_of([&] { (void)directory.read(name, 1); });
  }

  qemu::test::TemporaryFolder folder;
};

TEST_F(DirectoryFiles, TheFrontOfAFileIsRead) {
  const Directory directory(folder.path());
  EXPECT_EQ(text_of(directory.read("a.bin", 4)), "0123");
  EXPECT_EQ(text_of(directory.read("sub/b.bin", 6)), "inside");
  EXPECT_EQ(text_of(directory.read_all("a.bin", 10)), "0123456789");
}

TEST_F(DirectoryFiles, AFileThatIsTooShortOrTooLongIsRefused) {
  const Directory directory(folder.path());
  EXPECT_EQ(message_of([&] { (void)directory.read("a.bin", 11); }), "a.bin has 10 bytes, and 11 are to be transferred");
  EXPECT_EQ(message_of([&] { (void)directory.read_all("a.bin", 9); }), "a.bin has 10 bytes, more than 9");
}

TEST_F(DirectoryFiles, NamesThatLeadOutAreRefused) {
  for (const char* name : {"../a.bin", "/etc/passwd", "sub/../../x", ".", "sub/", "", "sub//b.bin", "./a.bin"}) {
    EXPECT_EQ(refused(name), "'" + std::string(name) + "' leads out of the directory, or names no file of it");
  }
  EXPECT_EQ(message_of([&] { (void)Directory(folder.path()).identity("../a.bin"); }),
            "'../a.bin' leads out of the directory, or names no file of it");
}

TEST_F(DirectoryFiles, SymbolicLinksAreRefusedAlsoOnTheWay) {
  fs::create_symlink("a.bin", folder.path() / "link.bin");
  fs::create_directory_symlink("sub", folder.path() / "way");
  fs::create_symlink("nowhere", folder.path() / "dangling");
  EXPECT_EQ(refused("link.bin"), "link.bin leads through a symbolic link");
  EXPECT_EQ(refused("way/b.bin"), "way/b.bin leads through a symbolic link");
  EXPECT_EQ(refused("dangling"), "dangling leads through a symbolic link");
}

TEST_F(DirectoryFiles, WhatIsNoRegularFileIsRefused) {
  ASSERT_EQ(::mkfifo((folder.path() / "pipe").c_str(), 0600), 0);
  EXPECT_EQ(refused("pipe"), "pipe is no regular file");
  EXPECT_EQ(refused("sub"), "sub is no regular file");
  const std::string path = fs::canonical(folder.path()).string();
  EXPECT_EQ(refused("missing.bin"), "there is no file missing.bin in " + path);
  EXPECT_EQ(refused("a.bin/x"), "can not open a.bin/x: Not a directory");
}

TEST_F(DirectoryFiles, ADirectoryThatIsNoneIsRefused) {
  const std::string path = folder.path().string();
  EXPECT_EQ(message_of([&] { Directory directory(folder.path() / "none"); }),
            "there is no directory " + path + "/none: No such file or directory");
  EXPECT_EQ(message_of([&] { Directory directory(folder.path() / "a.bin"); }), path + "/a.bin is no directory");
}

TEST_F(DirectoryFiles, ALinkToADirectoryIsTheDirectory) {
  const fs::path link = folder.path() / "link";
  fs::create_directory_symlink("sub", link);
  EXPECT_EQ(Directory(link).path(), fs::canonical(folder.path() / "sub"));
}

TEST_F(DirectoryFiles, AnIdentityChangesWithTheFile) {
  const Directory directory(folder.path());
  const FileIdentity before = directory.identity("a.bin");
  EXPECT_EQ(directory.identity("a.bin"), before);
  EXPECT_EQ(directory.read_all("a.bin", 100).identity, before);
  write("new.bin", "0123456789");
  fs::rename(folder.path() / "new.bin", folder.path() / "a.bin");
  EXPECT_NE(directory.identity("a.bin"), before);
}

TEST_F(DirectoryFiles, FilesAreWrittenAndReplacedAndNothingElseIsLeft) {
  const fs::path target = folder.path() / "made" / "deep";
  const std::string first = "first", second = "the second";
  const auto bytes = [](const std::string& text) { return std::as_bytes(std::span(text)); };
  write_files(target, std::array{NamedBytes{"x.bin", bytes(first)}, NamedBytes{"y.bin", bytes(second)}});
  write_files(target, std::array{NamedBytes{"x.bin", bytes(second)}});
  const Directory directory(target);
  EXPECT_EQ(text_of(directory.read_all("x.bin", 100)), second);
  EXPECT_EQ(text_of(directory.read_all("y.bin", 100)), second);
  EXPECT_EQ(std::distance(fs::directory_iterator(target), fs::directory_iterator()), 2);
}

TEST_F(DirectoryFiles, APlaceThatCannotBeWrittenIsNamed) {
  const std::string path = folder.path().string();
  EXPECT_EQ(message_of([&] { write_files(folder.path() / "a.bin", {}); }),
            "can not make the directory " + path + "/a.bin: Not a directory");
  const std::string text = "x";
  const NamedBytes file{"sub", std::as_bytes(std::span(text))};
  EXPECT_EQ(message_of([&] { write_files(folder.path(), std::span(&file, 1)); }),
            path + "/sub can not be written: Is a directory");
  EXPECT_EQ(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()), 2) << "a part was left";
}

TEST_F(DirectoryFiles, AFileOfAProgramIsReadByItsPath) {
  fs::create_symlink("a.bin", folder.path() / "link.bin");
  EXPECT_EQ(text_of(read_file(folder.path() / "link.bin", 10)), "0123456789");
  const std::string path = folder.path().string();
  EXPECT_EQ(message_of([&] { (void)read_file(folder.path() / "none", 1); }),
            "can not open " + path + "/none: No such file or directory");
  EXPECT_EQ(message_of([&] { (void)read_file(folder.path(), 1); }), path + " is no regular file");
  EXPECT_EQ(message_of([&] { (void)read_file(folder.path() / "a.bin", 9); }),
            path + "/a.bin has 10 bytes, more than 9");
}

}  // namespace
}  // namespace svp::spyrecode
