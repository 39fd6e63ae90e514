// SPDX-License-Identifier: Apache-2.0
#include "qemu/text_tail.hpp"
#include "tests/bounds.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace qemu {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;

TEST(TextTail, KeepsExactlyTheLastBytes) {
  TextTail tail(8);
  for (int i = 0; i < 1000; ++i) tail.append(std::to_string(i % 10));
  EXPECT_EQ(tail.text(), "23456789");
  tail.append("a text longer than twice the capacity");
  EXPECT_EQ(tail.text(), "capacity");
}

TEST(TextTail, LinesAreWholeWhateverThePieces) {
  std::vector<std::string> lines;
  TextTail tail(100, [&](std::string_view line) { lines.emplace_back(line); });
  for (const char c : std::string{"one\r\ntwo\n\nthr"}) tail.append({&c, 1});
  EXPECT_THAT(lines, ElementsAre("one", "two", ""));
  tail.append("ee\nfour");
  EXPECT_THAT(lines, ElementsAre("one", "two", "", "three"));
  tail.close();
  EXPECT_THAT(lines, ElementsAre("one", "two", "", "three", "four"));
}

TEST(TextTail, ALineWithoutAnEndIsCut) {
  std::size_t longest = 0;
  TextTail tail(100, [&](std::string_view line) { longest = std::max(longest, line.size()); });
  for (int i = 0; i < 100; ++i) tail.append(std::string(1000, 'x'));
  EXPECT_GT(longest, 0U);
  EXPECT_LT(longest, 20'000U);
}

TEST(TextTail, AWaitEndsWithTheText) {
  TextTail tail(100);
  std::jthread writer([&] { tail.append("half of the wor"), tail.append("ds"); });  // bounded: it writes once and ends
  EXPECT_TRUE(tail.wait_for("the words", test_bounds::kPlayedEmulator));
}

TEST(TextTail, AWaitEndsWithTheStream) {
  TextTail tail(100);
  std::jthread writer([&] { tail.close(); });  // bounded: it writes once and ends
  EXPECT_FALSE(tail.wait_for("anything", test_bounds::kPlayedEmulator));
}

TEST(TextTail, AWaitIsBounded) { EXPECT_FALSE(TextTail(100).wait_for("anything", test_bounds::kLook)); }

}  // namespace
}  // namespace qemu
