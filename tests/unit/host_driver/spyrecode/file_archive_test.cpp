// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/file_archive.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <string>

#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {
namespace {

using Bytes = std::vector<std::byte>;

const NamedFiles kFiles{{"bundle.mlir", "module {}"}, {"empty", ""}, {"sdsc_0.json", std::string("{\0}", 3)}};

std::string message_of(const Bytes& bytes) {
  try {
    (void)read_archive(bytes, "x.bin");
  } catch (const InvalidPlan& error) {
    EXPECT_EQ(error.field(), "x.bin");
    EXPECT_FALSE(error.info().next_step.empty());
    return error.info().message;
  }
  return "accepted";
}

template <typename T>
std::string with(std::size_t at, T value) {
  Bytes bytes = write_archive(kFiles);
  std::memcpy(bytes.data() + at, &value, sizeof value);
  return message_of(bytes);
}

TEST(FileArchive, IsReadAsItWasWritten) {
  for (const NamedFiles& files :
       {NamedFiles{}, kFiles, NamedFiles{{std::string(255, 'a'), std::string(100'000, '\xFF')}}}) {
    const Bytes bytes = write_archive(files);
    EXPECT_EQ(bytes.size() % wire::kStickBytes, 0u);
    EXPECT_EQ(read_archive(bytes, "x.bin"), files);
  }
}

TEST(FileArchive, IsRefusedWhereverItIsCutOff) {
  Bytes bytes = write_archive(kFiles);
  ASSERT_EQ(bytes.size(), 128u);
  const std::size_t all = sizeof(ArchiveHeader) + 3 * sizeof(ArchiveEntry) + 11 + 9 + 5 + 11 + 3;
  for (std::size_t size = 0; size < all; ++size) {
    EXPECT_EQ(message_of(Bytes(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(size))),
              "x.bin: the archive of its bundle is cut off");
  }
  bytes.resize(all);
  EXPECT_EQ(message_of(bytes), "accepted");
}

TEST(FileArchive, WhatIsWrongIsSaid) {
  const std::string begin = "x.bin: the archive of its bundle ";
  constexpr std::size_t kEntry = sizeof(ArchiveHeader), kName = kEntry + sizeof(ArchiveEntry);
  EXPECT_EQ(with(0, 'X'), begin + "is none");
  EXPECT_EQ(with(offsetof(ArchiveHeader, reserved), 1), begin + "is none");
  EXPECT_EQ(with(offsetof(ArchiveHeader, files), 5000), begin + "has 5000 files, more than 4097");
  EXPECT_EQ(with(offsetof(ArchiveHeader, files), 2), begin + "goes on behind its last file");
  EXPECT_EQ(with(127, '\1'), begin + "goes on behind its last file");
  EXPECT_EQ(with(kEntry, 256), begin + "has a name of more than 255 bytes");
  EXPECT_EQ(with(kEntry, 0), begin + "has a name that is not plain, of file 0");
  EXPECT_EQ(with(kEntry + 4, 0xFFFFFFFFu), begin + "is cut off");
  for (const char c : {'/', '\0', '\\', ' ', '\x80'}) {
    EXPECT_EQ(with(kName, c), begin + "has a name that is not plain, of file 0");
  }
  Bytes long_one = write_archive(kFiles);
  long_one.resize(256);
  EXPECT_EQ(message_of(long_one), begin + "goes on behind its last file");
  Bytes twice = write_archive({{"a", ""}, {"b", ""}});
  twice[kName + 1 + sizeof(ArchiveEntry)] = std::byte{'a'};
  EXPECT_EQ(message_of(twice), begin + "has the file a twice");
  EXPECT_EQ(message_of(Bytes(kMostArchiveBytes + 128)), begin + "has 16777344 bytes, more than 16777216");
}

TEST(FileArchive, MoreThanItHoldsIsRefusedWhenItIsWritten) {
  const auto refusal_of = [](const NamedFiles& files) {
    try {
      (void)write_archive(files);
    } catch (const InvalidPlan& error) {
      return error.info().message;
    }
    return std::string("accepted");
  };
  NamedFiles many;
  for (unsigned i = 0; i <= kMostArchiveFiles; ++i) many.emplace("f" + std::to_string(i), "");
  EXPECT_EQ(refusal_of(many), "the files of the bundle are 4098, and an archive holds 4097");
  EXPECT_EQ(refusal_of({{"a", std::string(kMostArchiveBytes, ' ')}}),
            "the files of the bundle have 16777241 bytes, and an archive has at most 16777216");
  EXPECT_EQ(refusal_of({{"a/b", ""}}), "the files of the bundle have a name that is not plain");
}

}  // namespace
}  // namespace svp::spyrecode
