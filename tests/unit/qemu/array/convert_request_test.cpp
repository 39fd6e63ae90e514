// SPDX-License-Identifier: Apache-2.0
// Requests of the kind Convert by a hart's page tables: what is found, what is missing, what is no request.
#include <cstring>

#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::ConvertRequest;
using wire::array::Outcome;
using wire::program::Format;
using wire::program::Opcode;

// Three sticks of DL16 ones become two sticks of FP32 each; the results stand at the start of the region.
class ConvertRequests : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kInputAt = 0x10000;
  static constexpr unsigned kUnits = 3;

  ConvertRequest& conversion() { return reinterpret_cast<ConvertRequest&>(request()); }
  std::uint32_t word(std::uint64_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, card.at(first_ + at), sizeof value);
    return value;
  }

  void ask() {
    constexpr std::uint16_t kOne = 0x3E00;
    std::memset(card.at(first_), 0x11, 4096);
    for (std::uint64_t at = kInputAt; at < 2 * kInputAt; at += sizeof kOne) {
      std::memcpy(card.at(first_ + at), &kOne, sizeof kOne);
    }
    conversion() = {};
    conversion().kind = wire::array::Kind::Convert;
    conversion().opcode = static_cast<std::uint32_t>(Opcode::Copy);
    conversion().from_format = static_cast<std::uint32_t>(Format::Dl16);
    conversion().to_format = static_cast<std::uint32_t>(Format::Fp32);
    conversion().from_sticks = 1;
    conversion().to_sticks = 2;
    conversion().count = kUnits;
    conversion().from = {kWindow + kInputAt, wire::kStickBytes};
    conversion().to = {kWindow, 2 * wire::kStickBytes};
    conversion().to_step = wire::kStickBytes;
  }

  template <typename Change>
  Outcome outcome_of(Change change) {
    ask();
    change(conversion());
    array.work(kHart);
    return conversion().outcome;
  }
  template <typename Change>
  void expect_missing(Change change, std::uint32_t operand, std::uint64_t address) {
    EXPECT_EQ(outcome_of(change), Outcome::Missing);
    EXPECT_EQ(conversion().operand, operand);
    EXPECT_EQ(conversion().address, address);
    EXPECT_EQ(word(0), 0x11111111u) << "nothing was written";
  }
};

TEST_F(ConvertRequests, WriteTheirSticksAndNoOthers) {
  EXPECT_EQ(outcome_of([](ConvertRequest&) {}), Outcome::Done);
  EXPECT_EQ(conversion().done, kUnits);
  constexpr std::uint64_t kEnd = kUnits * 2 * wire::kStickBytes;
  for (std::uint64_t at = 0; at < kEnd; at += 4) EXPECT_EQ(word(at), 0x3F800000u) << at;
  EXPECT_EQ(word(kEnd), 0x11111111u);
}

TEST_F(ConvertRequests, AreBounded) {
  constexpr std::uint64_t kMost = wire::array::kMaxConverted / 64;
  EXPECT_EQ(outcome_of([](ConvertRequest& r) { r.count = kMost + 1; }), Outcome::Done);
  EXPECT_EQ(conversion().done, kMost);
  EXPECT_EQ(outcome_of([](ConvertRequest& r) { r.count = ~std::uint64_t{0}; }), Outcome::Done);
  EXPECT_EQ(conversion().done, kMost);
}

// The page of the output has another one in front of it and behind it, and its second stick lies in a third.
TEST_F(ConvertRequests, CrossPagesWherePiecesLieApart) {
  const std::uint64_t address = kWindow + 4 * MemoryBuilder::kLargePage;
  const std::uint64_t pages[] = {card.take_page(), card.take_page(), card.take_page(), card.take_page()};
  for (std::uint64_t i = 0; i < 4; ++i) card.map(address + i * MemoryBuilder::kPage, pages[3 - i], 0);
  constexpr std::uint64_t kSticks = 2 * MemoryBuilder::kPage / wire::kStickBytes;
  EXPECT_EQ(outcome_of([&](ConvertRequest& r) {
              r.count = kSticks;
              r.to = {address, wire::kStickBytes};
              r.to_step = 2 * MemoryBuilder::kPage;
            }),
            Outcome::Done);
  EXPECT_EQ(conversion().done, kSticks);
  for (const std::uint64_t page : pages) {
    for (std::uint64_t at = 0; at < MemoryBuilder::kPage; at += 4) {
      std::uint32_t value = 0;
      std::memcpy(&value, card.at(page + at), sizeof value);
      ASSERT_EQ(value, 0x3F800000u) << at;
    }
  }
}

TEST_F(ConvertRequests, SayWhichByteIsMissingBeforeTheyTouchAnything) {
  constexpr std::uint64_t kBeyond = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing([](ConvertRequest& r) { r.from.address = kBeyond - 2 * wire::kStickBytes; }, 0, kBeyond);
  expect_missing([](ConvertRequest& r) { r.from.step = kBeyond - kWindow; }, 0, kBeyond + kInputAt);
  // The second half of the region may only be read.
  expect_missing([](ConvertRequest& r) { r.to_step = MemoryBuilder::kLargePage; }, wire::array::kOutput, kSecondPage);
  expect_missing([](ConvertRequest& r) { r.to.step = MemoryBuilder::kLargePage; }, wire::array::kOutput, kSecondPage);
  expect_missing(
      [](ConvertRequest& r) {
        std::swap(r.from_format, r.to_format);
        std::swap(r.from_sticks, r.to_sticks);
        r.from_step = kBeyond - kWindow - kInputAt;
      },
      1, kBeyond);
}

TEST_F(ConvertRequests, AreRefusedWhenTheyAreNone) {
  const auto refused = [&](auto change) { return outcome_of(change) == Outcome::Refused; };
  const auto code = [](auto value) { return static_cast<std::uint32_t>(value); };
  EXPECT_FALSE(refused([](ConvertRequest&) {}));
  EXPECT_TRUE(refused([&](ConvertRequest& r) { r.opcode = code(Opcode::Add); }));
  EXPECT_TRUE(refused([&](ConvertRequest& r) { r.opcode = code(Opcode::Fp32ToDl16); })) << "of other formats";
  EXPECT_TRUE(refused([&](ConvertRequest& r) { r.opcode = code(Opcode::Dl16ToFp8); })) << "of other formats";
  EXPECT_FALSE(refused([&](ConvertRequest& r) { r.opcode = code(Opcode::Dl16ToFp32); }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.opcode |= 0x10000; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to_format = r.from_format; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.from_format = wire::program::kFormats; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to_format = ~0u; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.from_sticks = 0; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.from_sticks = 2; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to_sticks = 0; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to_sticks = 3; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.single = 1; })) << "of two sticks";
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.single = 2; }));
  EXPECT_FALSE(refused([](ConvertRequest& r) { r.single = r.to_sticks = 1; }));
  EXPECT_TRUE(refused([&](ConvertRequest& r) {
    r.single = r.to_sticks = 1;
    r.opcode = code(Opcode::Dl16ToFp32);
  }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.count = 0; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.from.address += 2; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to.step += 64; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.from_step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to_step = std::uint64_t{1} << 63; }));
  EXPECT_TRUE(refused([](ConvertRequest& r) { r.to.address = ~std::uint64_t{127}; }));
}

}  // namespace
