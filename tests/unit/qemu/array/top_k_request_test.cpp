// SPDX-License-Identifier: Apache-2.0
// Requests of the kind TopK by a hart's page tables: what is found, what is missing, what is no request.
#include <cstring>

#include "shared/array_merit.hpp"
#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::Outcome;
using wire::array::TopKRequest;
using wire::program::Format;

enum Operand : std::uint32_t { kRowList, kElements, kMerits = wire::array::kOutput };

constexpr std::uint64_t kUntouched = 0x1111111111111111;

// Three lines of four sticks, of which element n is the number with the code 0x3E00 + n % 100. The lists of their three
// best stand at the start of the region.
class TopKRequests : public test::CardWithArray {
 protected:
  static constexpr std::uint64_t kRowListAt = 1024, kInputAt = 0x10000;
  static constexpr unsigned kRows = 3, kSticks = 4, kRanks = 3;

  TopKRequest& top_k() { return reinterpret_cast<TopKRequest&>(request()); }
  std::uint64_t merit(unsigned n) {
    std::uint64_t word = 0;
    std::memcpy(&word, card.at(first_ + n * sizeof word), sizeof word);
    return word;
  }
  static std::uint64_t merit_of(std::uint32_t n) {
    return wire::array::merit(wire::array::order_of(static_cast<std::uint16_t>(0x3E00 + n % 100)), n);
  }
  void set_row(unsigned i, std::uint64_t address) { set_word(scratchpad_ + kRowListAt + i * 8, address); }

  void ask() {
    std::memset(card.at(first_), 0x11, 4096);
    for (std::uint32_t n = 0; n < 3 * wire::array::kMaxLineSticks; ++n) {
      const auto code = static_cast<std::uint16_t>(0x3E00 + n % (kSticks * 64) % 100);
      std::memcpy(card.at(first_ + kInputAt + n * sizeof code), &code, sizeof code);
    }
    for (unsigned i = 0; i < kRows; ++i) set_row(i, kWindow + kInputAt + i * kSticks * wire::kStickBytes);
    top_k() = {};
    top_k().kind = wire::array::Kind::TopK;
    top_k().format = static_cast<std::uint32_t>(Format::Dl16);
    top_k().ranks = kRanks;
    top_k().rows = kRows;
    top_k().sticks = kSticks;
    top_k().lanes = 64;
    top_k().row_list = kScratchpad + kRowListAt;
    top_k().step = wire::kStickBytes;
    top_k().merits = kWindow;
  }

  template <typename Change>
  Outcome outcome_of(Change change) {
    ask();
    change(top_k());
    array.work(kHart);
    return top_k().outcome;
  }
  template <typename Change>
  void expect_missing(Change change, std::uint32_t operand, std::uint64_t address) {
    EXPECT_EQ(outcome_of(change), Outcome::Missing);
    EXPECT_EQ(top_k().operand, operand);
    EXPECT_EQ(top_k().address, address);
    EXPECT_EQ(merit(0), kUntouched) << "nothing was written";
  }
};

TEST_F(TopKRequests, ListTheBestOfEachLine) {
  EXPECT_EQ(outcome_of([](TopKRequest&) {}), Outcome::Done);
  EXPECT_EQ(top_k().done, kRows * kSticks);
  const std::uint32_t best[] = {99, 199, 98};
  for (unsigned n = 0; n < kRows * kRanks; ++n) EXPECT_EQ(merit(n), merit_of(best[n % kRanks])) << n;
  EXPECT_EQ(merit(kRows * kRanks), kUntouched);
}

TEST_F(TopKRequests, ListTheBestOfEachLaneAcrossSticks) {
  EXPECT_EQ(outcome_of([](TopKRequest& r) {
              r.across = 1;
              r.lanes = 5;
              r.rows = 1;
            }),
            Outcome::Done);
  EXPECT_EQ(top_k().done, kSticks);
  for (unsigned lane = 0; lane < 5; ++lane) {
    // Stick 0 has the numbers from 0 on, 1 those from 64 on, 2 from 28 on, 3 from 92 on: 95 is followed by those again.
    std::uint32_t best = 0;
    for (unsigned n = 1; n < kSticks; ++n) {
      if ((n * 64 + lane) % 100 > (best * 64 + lane) % 100) best = n;
    }
    EXPECT_EQ(merit(lane * kRanks), wire::array::merit(wire::array::order_of_merit(merit_of(best * 64 + lane)), best))
        << lane;
  }
  EXPECT_EQ(merit(5 * kRanks), kUntouched);
}

TEST_F(TopKRequests, GoOnWithTheListsOfTheElementsBefore) {
  EXPECT_EQ(outcome_of([](TopKRequest& r) {
              r.rows = 1;
              r.sticks = 1;
            }),
            Outcome::Done);
  EXPECT_EQ(merit(0), merit_of(63));
  set_row(0, kWindow + kInputAt + wire::kStickBytes);
  top_k().sticks = kSticks - 1;
  top_k().first = 64;
  array.work(kHart);
  EXPECT_EQ(top_k().outcome, Outcome::Done);
  const std::uint32_t best[] = {99, 199, 98};
  for (unsigned n = 0; n < kRanks; ++n) EXPECT_EQ(merit(n), merit_of(best[n])) << n;
}

TEST_F(TopKRequests, SayWhichByteIsMissingBeforeTheyTouchAnything) {
  constexpr std::uint64_t kBeyond = kWindow + 2 * MemoryBuilder::kLargePage;
  expect_missing([](TopKRequest& r) { r.row_list = kBeyond; }, kRowList, kBeyond);
  expect_missing([&](TopKRequest&) { set_row(2, kBeyond - 128); }, kElements, kBeyond);
  expect_missing([](TopKRequest& r) { r.step = kBeyond; }, kElements, kWindow + kInputAt + kBeyond);
  expect_missing([](TopKRequest& r) { r.merits = kSecondPage; }, kMerits, kSecondPage);
  // The second stick of the lists.
  expect_missing(
      [](TopKRequest& r) {
        r.ranks = 6;
        r.merits = kSecondPage - 128;
      },
      kMerits, kSecondPage);
  // As the engine reads the elements of a line before it has anything to write.
  expect_missing(
      [&](TopKRequest& r) {
        set_row(0, kBeyond);
        r.merits = kSecondPage;
      },
      kElements, kBeyond);
}

TEST_F(TopKRequests, ReadWhatMayOnlyBeRead) {
  EXPECT_EQ(outcome_of([&](TopKRequest&) { set_row(1, kSecondPage); }), Outcome::Done);
}

TEST_F(TopKRequests, AreRefusedWhenTheyAreNone) {
  const auto refused = [&](auto change) { return outcome_of(change) == Outcome::Refused; };
  EXPECT_FALSE(refused([](TopKRequest&) {}));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.format = 2, r.lanes = 32; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.format |= 0x100, r.lanes = 32; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.across = 2; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.ranks = 0; }));
  EXPECT_FALSE(refused([](TopKRequest& r) { r.ranks = wire::array::kMaxRanks; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.ranks = wire::array::kMaxRanks + 1; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.rows = 0; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.rows = wire::array::kMaxLines + 1; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.sticks = 0; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.sticks = wire::array::kMaxLineSticks / kRows + 1; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.sticks = ~0u; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.lanes = 0; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.lanes = 65; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.format = 1, r.lanes = 33; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.row_list += 4; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.row_list = ~std::uint64_t{7}; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.step = 64; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.merits += 8; }));
  EXPECT_TRUE(refused([](TopKRequest& r) { r.merits = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([&](TopKRequest&) { set_row(1, kWindow + 2); }));
  EXPECT_TRUE(refused([&](TopKRequest&) { set_row(2, std::uint64_t{1} << 63); }));
}

TEST_F(TopKRequests, HaveSoManyRanksOfAllLines) {
  const auto outcome = [&](std::uint32_t across, std::uint32_t lines, std::uint32_t ranks) {
    return outcome_of([&](TopKRequest& r) {
      r.across = across;
      r.ranks = ranks;
      r.rows = across != 0 ? 2 : lines;
      r.lanes = across != 0 ? lines / 2 : 64;
      r.sticks = 1;
      for (unsigned i = 0; i < r.rows; ++i) set_row(i, kWindow + kInputAt);
    });
  };
  constexpr std::uint32_t kMost = wire::array::kMaxMerits;
  EXPECT_EQ(outcome(0, 64, kMost / 64), Outcome::Done);
  EXPECT_EQ(outcome(0, 64, kMost / 64 + 1), Outcome::Refused);
  EXPECT_EQ(outcome(1, 128, kMost / 128), Outcome::Done);
  EXPECT_EQ(outcome(1, 128, kMost / 128 + 1), Outcome::Refused);
}

}  // namespace
