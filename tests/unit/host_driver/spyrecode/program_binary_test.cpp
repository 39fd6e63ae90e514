// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/program_binary.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "host_driver/spyrecode/binary.hpp"
#include "host_driver/spyrecode/spyre_code.hpp"
#include "shared/crc32c.hpp"

namespace svp::spyrecode {
namespace {

using Bytes = std::vector<std::byte>;
using Header = ProgramBinaryHeader;

const Bytes kProgram(256, std::byte{0xAB});

Bytes example() {
  return write_program_binary({.program = kProgram, .name = "softmax", .core_mask = 5, .budget_slices = 7});
}

std::string message_of(const Bytes& bytes) {
  try {
    (void)read_program_binary(bytes, "x.bin");
  } catch (const InvalidPlan& error) {
    EXPECT_EQ(error.field(), "x.bin");
    return error.info().message;
  }
  return "accepted";
}

Bytes example_with_bundle() {
  static const Bytes kArchive(384, std::byte{0xCD});
  return write_program_binary({.program = kProgram, .name = "gather", .archive = kArchive});
}

// With the checksum that the change needs.
template <typename T>
std::string with(std::size_t at, T value, Bytes bytes = example()) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
  Header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  header.crc32c = 0;
  std::memcpy(bytes.data(), &header, sizeof header);
  header.crc32c = wire::crc32c(0, bytes.data(), std::min<std::size_t>(header.bytes, bytes.size()));
  std::memcpy(bytes.data(), &header, sizeof header);
  return message_of(bytes);
}

TEST(ProgramBinary, IsReadAsItWasWritten) {
  Bytes bytes = example();
  bytes.resize(bytes.size() + 77, std::byte{1});
  ASSERT_TRUE(is_program_binary(bytes));
  const ProgramBinary binary = read_program_binary(bytes, "x.bin");
  EXPECT_TRUE(std::ranges::equal(binary.program, kProgram));
  EXPECT_EQ(binary.name, "softmax");
  EXPECT_EQ(binary.core_mask, 5u);
  EXPECT_EQ(binary.budget_slices, 7u);
}

TEST(ProgramBinary, BringsABundle) {
  const Bytes bytes = example_with_bundle();
  ASSERT_TRUE(is_program_binary(bytes));
  const ProgramBinary binary = read_program_binary(bytes, "x.bin");
  EXPECT_TRUE(std::ranges::equal(binary.program, kProgram));
  EXPECT_EQ(binary.archive.size(), 384u);
  EXPECT_TRUE(std::ranges::all_of(binary.archive, [](std::byte b) { return b == std::byte{0xCD}; }));
  EXPECT_TRUE(read_program_binary(example(), "x.bin").archive.empty());
}

TEST(ProgramBinary, AnArchiveLiesInWholeSticksApartFromTheProgram) {
  const std::string place =
      "x.bin: the archive does not lie in at most 16777216 bytes of whole sticks between the header and the end, apart "
      "from the program";
  const auto archive = [](std::uint64_t offset, std::uint32_t bytes) {
    Bytes changed = example_with_bundle();
    std::memcpy(changed.data() + offsetof(Header, archive_bytes), &bytes, sizeof bytes);
    return with(offsetof(Header, archive_offset), offset, changed);
  };
  EXPECT_EQ(archive(384, 384), "accepted");
  EXPECT_EQ(archive(512, 256), "accepted");
  EXPECT_EQ(archive(384, 0), place);
  EXPECT_EQ(archive(0, 384), place);
  EXPECT_EQ(archive(128, 128), place);
  EXPECT_EQ(archive(256, 256), place);
  EXPECT_EQ(archive(512, 384), place);
  EXPECT_EQ(archive(400, 128), place);
  EXPECT_EQ(archive(384, 100), place);
  EXPECT_EQ(archive(~std::uint64_t{127}, 384), place);
  EXPECT_EQ(with(offsetof(Header, version), std::uint32_t{2}, example_with_bundle()),
            "x.bin: the header names an archive, which version 2 has not");
  EXPECT_THROW((void)read_binary(example_with_bundle(), "x.bin"), InvalidPlan);
}

TEST(ProgramBinary, ANameHasItsPlace) {
  const auto name = [](std::string_view text) {
    const Bytes bytes = write_program_binary({.program = kProgram, .name = text});
    return std::string(read_program_binary(bytes, "x.bin").name);
  };
  EXPECT_EQ(name(""), "program");
  EXPECT_EQ(name(std::string(100, 'a')), std::string(kMostProgramName, 'a'));
  EXPECT_EQ(name(std::string_view("a\0b\n", 4)), "a_b_");
}

TEST(ProgramBinary, EachKindIsRefusedWhereTheOtherIsExpected) {
  EXPECT_THROW((void)read_binary(example(), "x.bin"), InvalidPlan);
  BinaryCommand command{};
  command.code = CommandCode::Compute;
  const Bytes kernel = write_binary(kProgram, "{}", command);
  EXPECT_FALSE(is_program_binary(kernel));
  EXPECT_EQ(message_of(kernel), "x.bin: is no binary of a device program");
  EXPECT_FALSE(is_program_binary({}));
}

TEST(ProgramBinary, WhatIsWrongIsSaid) {
  EXPECT_EQ(message_of({}), "x.bin: 0 bytes are less than the header of a binary");
  Bytes cut = example();
  cut.resize(cut.size() - 1);
  EXPECT_EQ(message_of(cut), "x.bin: is cut off: 383 of 384 bytes");
  Bytes other = example();
  other.back() ^= std::byte{1};
  EXPECT_EQ(message_of(other), "x.bin: has another checksum than it says");
  EXPECT_EQ(with(offsetof(Header, bytes), std::uint64_t{100}),
            "x.bin: says that it has 100 bytes; a binary has whole sticks, up to 51380224");
  EXPECT_EQ(with(offsetof(Header, kind), std::uint32_t{2}), "x.bin: has the unknown kind 2");
  const std::string none = "x.bin: the header names an archive, which version 2 has not";
  EXPECT_EQ(with(offsetof(Header, archive_bytes), 128), none);
  EXPECT_EQ(with(offsetof(Header, archive_offset), 128), none);
  const std::string place = "x.bin: the program does not lie in whole sticks between the header and the end";
  EXPECT_EQ(with(offsetof(Header, program_offset), std::uint64_t{0}), place);
  EXPECT_EQ(with(offsetof(Header, program_offset), ~std::uint64_t{127}), place);
  EXPECT_EQ(with(offsetof(Header, program_bytes), std::uint64_t{0}), place);
  EXPECT_EQ(with(offsetof(Header, program_bytes), std::uint64_t{130}), place);
  EXPECT_EQ(with(offsetof(Header, name) + 1, '\x80'),
            "x.bin: the name of the program has a character that is not printable");
  const std::string name = "x.bin: the name of the program is empty, or something stands behind its end";
  EXPECT_EQ(with(offsetof(Header, name), '\0'), name);
  EXPECT_EQ(with(offsetof(Header, name) + kMostProgramName - 1, 'x'), name);
}

}  // namespace
}  // namespace svp::spyrecode
