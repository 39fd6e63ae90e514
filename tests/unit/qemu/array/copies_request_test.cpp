// SPDX-License-Identifier: Apache-2.0
// Requests of the kind Copies by a hart's page tables: what is copied, what is missing, what is no request.
#include <cstring>

#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::CopiesRequest;
using wire::array::Outcome;

enum Operand : std::uint32_t { kFromList, kToList, kFrom, kTo = wire::array::kOutput };

// Stick n at kInputAt has the number n in all bytes. Three rows of two sticks are copied to the start of the region.
class CopiesRequests : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kFromListAt = 1024, kToListAt = 2048, kInputAt = 0x10000;
  static constexpr unsigned kRows = 3, kSticks = 2;

  CopiesRequest& copies() { return reinterpret_cast<CopiesRequest&>(request()); }
  void set_from(unsigned i, std::uint64_t address) { set_word(scratchpad_ + kFromListAt + i * 8, address); }
  void set_to(unsigned i, std::uint64_t address) { set_word(scratchpad_ + kToListAt + i * 8, address); }
  static std::uint64_t input(unsigned n) { return kWindow + kInputAt + n * wire::kStickBytes; }
  // Of stick n at the start of the region: the number in all of its bytes; 1000 when they differ.
  unsigned result(unsigned n) { return number_at(first_ + n * wire::kStickBytes); }
  unsigned number_at(std::uint64_t physical) {
    const std::byte* const stick = card.at(physical);
    return std::memcmp(stick, stick + 1, wire::kStickBytes - 1) == 0 ? std::to_integer<unsigned>(*stick) : 1000;
  }

  void ask() {
    std::memset(card.at(first_), 0xEE, 4096);
    for (unsigned n = 0; n < 100; ++n) {
      std::memset(card.at(first_ + kInputAt + n * wire::kStickBytes), static_cast<int>(n), wire::kStickBytes);
    }
    for (unsigned i = 0; i < kRows; ++i) {
      set_from(i, input(30 - 10 * i));
      set_to(i, kWindow + i * kSticks * wire::kStickBytes);
    }
    copies() = {};
    copies().kind = wire::array::Kind::Copies;
    copies().rows = kRows;
    copies().sticks = kSticks;
    copies().from_list = kScratchpad + kFromListAt;
    copies().to_list = kScratchpad + kToListAt;
    copies().from_step = 3 * wire::kStickBytes;
    copies().to_step = wire::kStickBytes;
  }

  template <typename Change>
  Outcome outcome_of(Change change) {
    ask();
    change(copies());
    array.work(kHart);
    return copies().outcome;
  }
  template <typename Change>
  void expect_missing(Change change, std::uint32_t operand, std::uint64_t address) {
    EXPECT_EQ(outcome_of(change), Outcome::Missing);
    EXPECT_EQ(copies().operand, operand);
    EXPECT_EQ(copies().address, address);
    EXPECT_EQ(result(0), 0xEEu) << "nothing was written";
  }
};

TEST_F(CopiesRequests, CopyEachRowToItsPlace) {
  EXPECT_EQ(outcome_of([](CopiesRequest&) {}), Outcome::Done);
  EXPECT_EQ(copies().done, kRows);
  const unsigned expected[] = {30, 33, 20, 23, 10, 13, 0xEE};
  for (unsigned n = 0; n < std::size(expected); ++n) EXPECT_EQ(result(n), expected[n]) << n;
}

TEST_F(CopiesRequests, GoStickByStickInTheOrderOfTheirLists) {
  // Of several copies to one place the last one stays.
  EXPECT_EQ(outcome_of([&](CopiesRequest&) { set_to(1, kWindow), set_to(2, kWindow); }), Outcome::Done);
  EXPECT_EQ(result(0), 10u);
  EXPECT_EQ(result(1), 13u);
  // Each stick of the row reads what the one before has written.
  EXPECT_EQ(outcome_of([&](CopiesRequest& r) {
              r.rows = 1;
              r.sticks = 4;
              r.from_step = r.to_step = wire::kStickBytes;
              set_from(0, input(5));
              set_to(0, input(6));
            }),
            Outcome::Done);
  for (unsigned n = 5; n < 10; ++n) EXPECT_EQ(number_at(first_ + kInputAt + n * wire::kStickBytes), 5u);
  EXPECT_EQ(number_at(first_ + kInputAt + 10 * wire::kStickBytes), 10u);
}

TEST_F(CopiesRequests, SayWhichByteIsMissingBeforeTheyTouchAnything) {
  constexpr std::uint64_t kBeyond = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing([](CopiesRequest& r) { r.from_list = kBeyond; }, kFromList, kBeyond);
  expect_missing([](CopiesRequest& r) { r.to_list = kScratchpad + 4096; }, kToList, kScratchpad + 4096);
  expect_missing([&](CopiesRequest&) { set_from(2, kBeyond - 3 * 128); }, kFrom, kBeyond);
  expect_missing([](CopiesRequest& r) { r.from_step = kBeyond; }, kFrom, input(30) + kBeyond);
  expect_missing([&](CopiesRequest&) { set_to(2, kSecondPage - 128); }, kTo, kSecondPage);
  // As the engine reads and then writes each stick.
  expect_missing([&](CopiesRequest&) { set_from(2, kBeyond), set_to(1, kSecondPage); }, kTo, kSecondPage);
  expect_missing([&](CopiesRequest&) { set_from(1, kBeyond), set_to(1, kSecondPage); }, kFrom, kBeyond);
}

TEST_F(CopiesRequests, ReadWhatMayOnlyBeRead) {
  EXPECT_EQ(outcome_of([&](CopiesRequest&) { set_from(1, kSecondPage); }), Outcome::Done);
}

TEST_F(CopiesRequests, AreRefusedWhenTheyAreNone) {
  const auto refused = [&](auto change) { return outcome_of(change) == Outcome::Refused; };
  EXPECT_FALSE(refused([](CopiesRequest&) {}));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.rows = 0; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.sticks = 0; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.rows = ~0u; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.rows = r.sticks = 1u << 16; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.sticks = wire::array::kMaxCopies / kRows + 1; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.from_list += 4; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.to_list = ~std::uint64_t{7}; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.from_step = 64; }));
  EXPECT_TRUE(refused([](CopiesRequest& r) { r.to_step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([&](CopiesRequest&) { set_from(1, kWindow + 2); }));
  EXPECT_TRUE(refused([&](CopiesRequest&) { set_to(2, std::uint64_t{1} << 63); }));
}

}  // namespace
