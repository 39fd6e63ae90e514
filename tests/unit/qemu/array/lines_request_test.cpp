// SPDX-License-Identifier: Apache-2.0
// Requests of the kind Lines by a hart's page tables: what is found, what is missing, what is no request.
#include <cstring>

#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::LinesRequest;
using wire::array::Outcome;
using wire::program::Format;
using wire::program::Opcode;

enum Operand : std::uint32_t { kLineList, kOutputList, kStick, kResult = wire::array::kOutput };

constexpr std::uint16_t kOne = 0x3E00, kFour = 0x4200;

// Three lines of four sticks of ones, summed across sticks; the results stand at the start of the region.
class LinesRequests : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kLineListAt = 1024, kOutputListAt = 2048, kInputAt = 0x10000;
  static constexpr unsigned kLines = 3, kSticks = 4;

  LinesRequest& lines() { return reinterpret_cast<LinesRequest&>(request()); }
  std::uint16_t result(unsigned line, unsigned lane) {
    std::uint16_t code = 0;
    std::memcpy(&code, card.at(first_ + line * wire::kStickBytes + lane * sizeof code), sizeof code);
    return code;
  }
  void set_line(unsigned i, std::uint64_t address) { set_word(scratchpad_ + kLineListAt + i * 8, address); }
  void set_output(unsigned i, std::uint64_t address) { set_word(scratchpad_ + kOutputListAt + i * 8, address); }

  void ask() {
    std::memset(card.at(first_), 0x11, 4096);
    for (std::uint64_t at = kInputAt; at < 2 * kInputAt; at += sizeof kOne) {
      std::memcpy(card.at(first_ + at), &kOne, sizeof kOne);
    }
    for (unsigned i = 0; i < kLines; ++i) {
      set_line(i, kWindow + kInputAt + i * kSticks * wire::kStickBytes);
      set_output(i, kWindow + i * wire::kStickBytes);
    }
    lines() = {};
    lines().kind = wire::array::Kind::Lines;
    lines().opcode = static_cast<std::uint32_t>(Opcode::Sum);
    lines().format = static_cast<std::uint32_t>(Format::Dl16);
    lines().lines = kLines;
    lines().sticks = kSticks;
    lines().lanes = 64;
    lines().line_list = kScratchpad + kLineListAt;
    lines().output_list = kScratchpad + kOutputListAt;
    lines().step = wire::kStickBytes;
  }

  template <typename Change>
  Outcome outcome_of(Change change) {
    ask();
    change(lines());
    array.work(kHart);
    return lines().outcome;
  }
  template <typename Change>
  void expect_missing(Change change, std::uint32_t operand, std::uint64_t address) {
    EXPECT_EQ(outcome_of(change), Outcome::Missing);
    EXPECT_EQ(lines().operand, operand);
    EXPECT_EQ(lines().address, address);
    EXPECT_EQ(result(0, 0), 0x1111) << "nothing was written";
  }
};

TEST_F(LinesRequests, ReduceEachLineIntoItsStick) {
  EXPECT_EQ(outcome_of([](LinesRequest& r) { r.lanes = 60; }), Outcome::Done);
  EXPECT_EQ(lines().done, kLines);
  for (unsigned line = 0; line < kLines; ++line) {
    EXPECT_EQ(result(line, 0), kFour);
    EXPECT_EQ(result(line, 59), kFour);
    EXPECT_EQ(result(line, 60), 0);
  }
  EXPECT_EQ(result(kLines, 0), 0x1111);
}

TEST_F(LinesRequests, SayWhichByteIsMissingBeforeTheyTouchAnything) {
  constexpr std::uint64_t kBeyond = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing([](LinesRequest& r) { r.line_list = kBeyond; }, kLineList, kBeyond);
  expect_missing([](LinesRequest& r) { r.output_list = kScratchpad + 4096; }, kOutputList, kScratchpad + 4096);
  expect_missing([&](LinesRequest&) { set_line(2, kBeyond - 128); }, kStick, kBeyond);
  expect_missing([](LinesRequest& r) { r.step = kBeyond; }, kStick, kWindow + kInputAt + kBeyond);
  expect_missing([&](LinesRequest&) { set_output(2, kSecondPage + 128); }, kResult, kSecondPage + 128);
}

TEST_F(LinesRequests, ReadWhatMayOnlyBeRead) {
  EXPECT_EQ(outcome_of([&](LinesRequest&) { set_line(1, kSecondPage); }), Outcome::Done);
}

TEST_F(LinesRequests, AreRefusedWhenTheyAreNone) {
  const auto refused = [&](auto change) { return outcome_of(change) == Outcome::Refused; };
  EXPECT_FALSE(refused([](LinesRequest&) {}));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.opcode = static_cast<std::uint32_t>(Opcode::Prod); }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.opcode |= 0x100; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.format = 7; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.format |= 0x100; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.along = 2; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.lines = 0; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.lines = wire::array::kMaxLines + 1; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.sticks = 0; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.sticks = wire::array::kMaxLineSticks / kLines + 1; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.sticks = ~0u; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.lanes = 0; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.lanes = 65; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.line_list += 4; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.output_list = ~std::uint64_t{7}; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.step = 64; }));
  EXPECT_TRUE(refused([](LinesRequest& r) { r.step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([&](LinesRequest&) { set_line(1, kWindow + 2); }));
  EXPECT_TRUE(refused([&](LinesRequest&) { set_output(2, std::uint64_t{1} << 63); }));
}

TEST_F(LinesRequests, OfExx2AreAlongTheStickAndShorter) {
  const auto outcome = [&](std::uint32_t along, std::uint32_t sticks) {
    return outcome_of([&](LinesRequest& r) {
      r.opcode = static_cast<std::uint32_t>(Opcode::Exx2);
      r.along = along;
      r.sticks = sticks;
    });
  };
  EXPECT_EQ(outcome(1, wire::array::kMaxSticks / kLines), Outcome::Done);
  EXPECT_EQ(outcome(1, wire::array::kMaxSticks / kLines + 1), Outcome::Refused);
  EXPECT_EQ(outcome(0, 1), Outcome::Refused);
}

}  // namespace
