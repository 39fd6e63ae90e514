// SPDX-License-Identifier: Apache-2.0
// The host's CRC32C (ISA-L) against the code of the contract, which the card runs.
#include "host_driver/base/crc32c.hpp"

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "shared/crc32c.hpp"

namespace svp {
namespace {

std::vector<std::byte> random_bytes(std::size_t count) {
  std::mt19937 random(20261122);
  std::vector<std::byte> bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

TEST(Crc32c, GivesTheValuesOfRfc3720) {
  const auto of = [](std::byte value) { return crc32c(0, std::vector(32, value)); };
  EXPECT_EQ(of(std::byte{0}), 0x8A9136AAu);
  EXPECT_EQ(of(std::byte{0xff}), 0x62A8AB43u);
}

TEST(Crc32c, EqualsTheContractAtEveryLengthAndAlignment) {
  constexpr std::size_t kLongest = 300, kOffsets = 64;
  const std::vector<std::byte> bytes = random_bytes(kLongest + kOffsets);
  std::mt19937 random(7);
  for (std::size_t offset = 0; offset < kOffsets; ++offset) {
    for (std::size_t length = 0; length <= kLongest; ++length) {
      const auto part = std::span(bytes).subspan(offset, length);
      for (const std::uint32_t seed : {0u, ~0u, static_cast<std::uint32_t>(random())}) {
        ASSERT_EQ(crc32c(seed, part), wire::crc32c(seed, part.data(), part.size()))
            << "offset " << offset << ", length " << length << ", seed " << seed;
      }
    }
  }
}

TEST(Crc32c, EqualsTheContractOverLongTransfers) {
  const std::vector<std::byte> bytes = random_bytes(3 << 20);
  for (const std::size_t length : {std::size_t{4095}, std::size_t{4097}, std::size_t{65537}, bytes.size() - 1}) {
    const auto part = std::span(bytes).subspan(1, length);
    EXPECT_EQ(crc32c(0, part), wire::crc32c(0, part.data(), part.size())) << length;
  }
}

TEST(Crc32c, ContinuesWhereEitherStopped) {
  const std::vector<std::byte> bytes = random_bytes(5000);
  const std::uint32_t whole = wire::crc32c(0, bytes.data(), bytes.size());
  std::mt19937 random(9);
  for (int i = 0; i < 500; ++i) {
    const std::size_t cut = random() % (bytes.size() + 1);
    const auto first = std::span(bytes).first(cut), second = std::span(bytes).subspan(cut);
    ASSERT_EQ(crc32c(crc32c(0, first), second), whole) << cut;
    ASSERT_EQ(crc32c(wire::crc32c(0, first.data(), first.size()), second), whole) << cut;
    ASSERT_EQ(wire::crc32c(crc32c(0, first), second.data(), second.size()), whole) << cut;
  }
}

}  // namespace
}  // namespace svp
