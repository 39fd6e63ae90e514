// SPDX-License-Identifier: Apache-2.0
// The emulator's dump of registers is read, or refused as a whole: never half.
#include "host_driver/debug/register_dump.hpp"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace svp {
namespace {

// As QEMU 10.0 prints it, with values that tell their register.
std::string dump(unsigned hart) {
  std::string text = fmt::format(
      "\nCPU#{}\n V      =   0\n pc       00000000800000{:02x}\n mhartid  {:016x}\n mstatus  0000000a00006600\n"
      " mcause   0000000000000002\n",
      hart, hart, hart);
  for (unsigned n = 0; n < 32; ++n) {
    text += fmt::format(" x{}/{} {:016x}", n, n == 0 ? "zero" : "r", n == 0 ? 0 : 0xffffffff00000000u + 100 * hart + n);
    if (n % 4 == 3) text += "\n";
  }
  for (unsigned n = 0; n < 32; ++n) text += fmt::format(" f{}/ft {:016x}", n, n);
  return text;
}

TEST(RegisterDump, EveryHartIsRead) {
  const auto harts = parse_register_dump(dump(0) + dump(1) + dump(2));
  ASSERT_EQ(harts.size(), 3u);
  for (unsigned hart = 0; hart < 3; ++hart) {
    EXPECT_EQ(harts[hart].hart, hart);
    EXPECT_EQ(harts[hart].pc, 0x80000000u + hart);
    EXPECT_EQ(harts[hart].x[0], 0u);
    for (unsigned n = 1; n < 32; ++n) EXPECT_EQ(harts[hart].x[n], 0xffffffff00000000u + 100 * hart + n);
  }
}

TEST(RegisterDump, WhatIsCutOffIsRefused) {
  const std::string whole = dump(0) + dump(1);
  const std::size_t last = whole.find("x31/", dump(0).size());
  for (std::size_t length = 0; length < last; length += 7) {
    const auto harts = parse_register_dump(whole.substr(0, length));
    EXPECT_TRUE(harts.empty() || harts.size() == 1) << length;
    if (length > dump(0).size() + 8) EXPECT_TRUE(harts.empty()) << length;
  }
}

TEST(RegisterDump, AnotherFormIsRefused) {
  EXPECT_TRUE(parse_register_dump("").empty());
  EXPECT_TRUE(parse_register_dump("unknown command").empty());
  EXPECT_TRUE(parse_register_dump("CPU#x\n" + dump(0)).empty());
  EXPECT_TRUE(parse_register_dump(dump(1)).empty()) << "a hart is missing";
}

}  // namespace
}  // namespace svp
