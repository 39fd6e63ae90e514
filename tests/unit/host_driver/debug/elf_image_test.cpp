// SPDX-License-Identifier: Apache-2.0
// The firmware's ELF file gives names to places; one that is damaged is refused or read, never overrun.
#include "host_driver/debug/elf_image.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <rapidcheck.h>
#include <rapidcheck/gtest.h>

#include <fstream>

#include "tests/unit/host_driver/debug/example_elf.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

Expected<ElfImage> opened(const std::vector<std::byte>& bytes) {
  const qemu::test::TemporaryFolder folder;
  const auto path = folder.path() / "firmware.elf";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  return ElfImage::open(path);
}

TEST(ElfImage, PlacesHaveNames) {
  const auto image = opened(test::example_elf());
  ASSERT_TRUE(image) << describe(image.error());
  EXPECT_EQ(image->describe(test::kTextAddress), "first()+0x0");
  EXPECT_EQ(image->describe(test::kTextAddress + 15), "first()+0xf");
  EXPECT_EQ(image->describe(test::kTextAddress + 16), "second+0x0");
  EXPECT_EQ(image->describe(test::kTextAddress + 40), "label+0x8") << "a label reaches to the next symbol";
  EXPECT_EQ(image->describe(test::kTextAddress + 64), "0x80000040") << "behind the text";
  EXPECT_EQ(image->describe(0x90000000), "0x90000000") << "a variable is no place";
  EXPECT_EQ(image->describe(8), "0x8");
  EXPECT_EQ(image->address_of("variable"), 0x90000000u);
  EXPECT_EQ(image->address_of("_Z5firstv"), test::kTextAddress);
  EXPECT_FALSE(image->address_of("third"));
  EXPECT_THAT(hex_digits(image->build_id()), testing::StartsWith("abcd0000"));
  ASSERT_EQ(image->segments().size(), 1u);
  EXPECT_EQ(image->segments()[0].bytes.size(), 64u);
}

TEST(ElfImage, WhatIsNoFirmwareIsRefused) {
  EXPECT_FALSE(opened({}));
  EXPECT_FALSE(opened(std::vector<std::byte>(1000)));
  auto other = test::example_elf();
  other[offsetof(Elf64_Ehdr, e_machine)] = std::byte{EM_X86_64};
  EXPECT_FALSE(opened(other));
}

TEST(ElfImage, OneThatIsCutOffIsRefusedWhereverItEnds) {
  const auto whole = test::example_elf();
  for (std::size_t length = 0; length < whole.size(); length += 3) {
    EXPECT_FALSE(opened({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length)})) << length;
  }
}

RC_GTEST_PROP(ElfImage, DamageIsRefusedOrReadNeverMore, ()) {
  auto bytes = test::example_elf();
  for (auto damage = *rc::gen::inRange(1, 8); damage > 0; --damage) {
    bytes[*rc::gen::inRange<std::size_t>(0, bytes.size())] =
        static_cast<std::byte>(*rc::gen::arbitrary<unsigned char>());
  }
  const auto image = opened(bytes);
  if (!image) return RC_ASSERT(!image.error().message.empty());
  for (std::uint64_t at = 0; at < 80; at += 4) RC_ASSERT(!image->describe(test::kTextAddress + at).empty());
}

}  // namespace
}  // namespace svp
