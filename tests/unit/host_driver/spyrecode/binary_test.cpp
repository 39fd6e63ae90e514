// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/binary.hpp"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstring>
#include <functional>
#include <string>

#include "host_driver/spyrecode/spyre_code.hpp"
#include "shared/crc32c.hpp"

namespace svp::spyrecode {
namespace {

using Bytes = std::vector<std::byte>;

BinaryCommand example_command() {
  BinaryCommand command{};
  command.code = CommandCode::Compute;
  command.extent_count = 2;
  command.core_mask = 5;
  command.budget_slices = 7;
  command.extents[0] = 64;
  command.extents[1] = 192;
  return command;
}

Bytes example() {
  const Bytes image(300, std::byte{0xAB});
  return write_binary(image, "{\"name\": \"x\"}", example_command());
}

template <typename T>
void put(Bytes& bytes, std::size_t at, T value) {
  std::memcpy(bytes.data() + at, &value, sizeof value);
}

// With the checksum that the change needs.
Bytes changed(const std::function<void(Bytes&)>& change) {
  Bytes bytes = example();
  change(bytes);
  put(bytes, offsetof(BinaryHeader, crc32c), std::uint32_t{0});
  BinaryHeader header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.bytes <= bytes.size()) {
    put(bytes, offsetof(BinaryHeader, crc32c), wire::crc32c(0, bytes.data(), header.bytes));
  }
  return bytes;
}

std::string message_of(const Bytes& bytes) {
  try {
    (void)read_binary(bytes, "x.bin");
  } catch (const InvalidPlan& error) {
    EXPECT_EQ(error.field(), "x.bin");
    return error.info().message;
  }
  return "accepted";
}

constexpr std::size_t kCommandAt = sizeof(BinaryHeader);

TEST(Binary, WhatIsWrittenIsReadAgain) {
  const Bytes bytes = example();
  const Binary binary = read_binary(bytes, "x.bin");
  EXPECT_EQ(binary.image.size(), 300u);
  EXPECT_EQ(binary.image[299], std::byte{0xAB});
  EXPECT_EQ(binary.metadata, "{\"name\": \"x\"}");
  EXPECT_EQ(binary.command.core_mask, 5u);
  EXPECT_EQ(binary.command.budget_slices, 7u);
  EXPECT_EQ(std::vector(binary.extents().begin(), binary.extents().end()), (std::vector<std::int64_t>{64, 192}));
}

TEST(Binary, WhatStandsBehindItIsNotLookedAt) {
  Bytes bytes = example();
  bytes.resize(bytes.size() + 1000, std::byte{0xFF});
  EXPECT_EQ(message_of(bytes), "accepted");
}

// The table of docs/spyrecode.md.
TEST(Binary, TheBytesStandWhereThePageSays) {
  const Bytes bytes = example();
  EXPECT_EQ(std::memcmp(bytes.data(), "SPYRBIN1", 8), 0);
  const auto number = [&](std::size_t at, std::size_t size) {
    std::uint64_t value = 0;
    std::memcpy(&value, bytes.data() + at, size);
    return value;
  };
  EXPECT_EQ(number(8, 4), 1u);
  EXPECT_EQ(number(16, 8), bytes.size());
  EXPECT_EQ(number(24, 8), 384u);
  EXPECT_EQ(number(32, 8), 300u);
  EXPECT_EQ(number(40, 8), 768u);
  EXPECT_EQ(number(48, 8), 13u);
  EXPECT_EQ(number(56, 8), 128u);
  EXPECT_EQ(number(64, 4), 1u);
  EXPECT_EQ(number(68, 4), 256u);
  EXPECT_EQ(number(128, 4), 1u);
  EXPECT_EQ(number(132, 4), 2u);
  EXPECT_EQ(number(136, 8), 5u);
  EXPECT_EQ(number(144, 8), 7u);
  EXPECT_EQ(number(160, 8), 64u);
  EXPECT_EQ(number(168, 8), 192u);
}

TEST(Binary, EveryRefusalHasAMessageOfItsOwn) {
  const auto with = [](std::size_t at, auto value) {
    return message_of(changed([&](Bytes& bytes) { put(bytes, at, value); }));
  };
  EXPECT_EQ(message_of(Bytes(127)), "x.bin: 127 bytes are less than the header of a binary");
  EXPECT_EQ(message_of(Bytes(128)), "x.bin: is no binary of this card: it does not begin with SPYRBIN1");
  EXPECT_EQ(with(8, std::uint32_t{3}), "x.bin: is a device program, where a kernel is expected");
  EXPECT_EQ(with(8, std::uint32_t{4}), "x.bin: has format version 4, this driver reads 1");
  EXPECT_EQ(with(16, std::uint64_t{100}),
            "x.bin: says that it has 100 bytes; a binary has whole sticks, up to 8388608");
  EXPECT_EQ(with(16, std::uint64_t{1} << 40),
            "x.bin: says that it has 1099511627776 bytes; a binary has whole sticks, up to 8388608");
  Bytes cut = example();
  cut.resize(cut.size() - 128);
  EXPECT_EQ(message_of(cut), "x.bin: is cut off: 768 of 896 bytes");
  Bytes damaged = example();
  damaged[400] ^= std::byte{1};
  EXPECT_EQ(message_of(damaged), "x.bin: has another checksum than it says");
  EXPECT_EQ(with(100, std::uint8_t{1}), "x.bin: the header has a reserved byte that is not 0");
  EXPECT_EQ(with(64, std::uint32_t{2}), "x.bin: has 2 commands; a binary of this version has one");
  EXPECT_EQ(with(68, std::uint32_t{128}), "x.bin: has commands of 128 bytes, not 256");
  EXPECT_EQ(with(48, std::uint64_t{1} << 21), "x.bin: has 2097152 bytes of metadata, more than 1048576");
  EXPECT_EQ(with(24, std::uint64_t{385}), "x.bin: the image begins at byte 385, not a multiple of 128");
  EXPECT_EQ(with(24, std::uint64_t{0}), "x.bin: the image does not lie between the header and the end");
  EXPECT_EQ(with(32, ~std::uint64_t{0}), "x.bin: the image does not lie between the header and the end");
  EXPECT_EQ(with(32, std::uint64_t{0}), "x.bin: the image is empty");
  EXPECT_EQ(with(40, std::uint64_t{384}), "x.bin: the metadata overlaps the image");
  EXPECT_EQ(with(56, std::uint64_t{640}), "x.bin: the command list overlaps the image");
  EXPECT_EQ(with(kCommandAt, std::uint32_t{9}), "x.bin: command 0 has the unknown code 9");
  EXPECT_EQ(with(kCommandAt + 4, std::uint32_t{17}), "x.bin: command 0 has 17 extents, more than 16");
  EXPECT_EQ(with(kCommandAt + 32, std::int64_t{0}), "x.bin: command 0: extent 0 is 0");
  EXPECT_EQ(with(kCommandAt + 48, std::int64_t{3}), "x.bin: command 0: extent 2 is 3");
  EXPECT_EQ(with(kCommandAt + 24, std::uint64_t{1}), "x.bin: command 0 has a reserved byte that is not 0");
  EXPECT_EQ(with(kCommandAt + 255, std::uint8_t{1}), "x.bin: command 0 has a reserved byte that is not 0");
}

}  // namespace
}  // namespace svp::spyrecode
