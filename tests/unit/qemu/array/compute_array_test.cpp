// SPDX-License-Identifier: Apache-2.0
// The array as a whole: greeting, requests by a hart's page tables, answers, and what it never touches.
#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::ChunkRequest;
using wire::array::Hello;
using wire::array::Outcome;
using wire::array::Request;
using wire::array::Row;

class Array : public test::CardWithArray {
 protected:
  // An addition of two rows of the region into a third.
  void ask_for_sum(std::uint64_t sticks) {
    request() = {};
    request().kind = wire::array::Kind::Rows;
    request().opcode = static_cast<std::uint32_t>(wire::program::Opcode::Add);
    request().format = static_cast<std::uint32_t>(wire::program::Format::Dl16);
    request().inputs = 2;
    request().count = sticks;
    request().row[0] = {kWindow, wire::kStickBytes};
    request().row[1] = {kWindow + 0x40000, wire::kStickBytes};
    request().row[wire::array::kOutput] = {kWindow + 0x80000, wire::kStickBytes};
  }
};

TEST_F(Array, AnswersAGreetingOfItsVersionOnly) {
  EXPECT_EQ(hello().answer, wire::array::kVersion);
  const Hello good = hello();
  for (unsigned what = 0; what < 6; ++what) {
    hello() = good;
    hello().answer = 0;
    if (what == 0) hello().magic ^= 1;
    if (what == 1) hello().version += 1;
    if (what == 2) hello().harts = 0;
    if (what == 3) hello().harts = 513;
    if (what == 4) hello().orders_at += 4;
    if (what == 5) hello().move += 4;
    greet();
    EXPECT_EQ(hello().answer, 0u) << what;
    ask_for_sum(1);
    array.work(kHart);
    EXPECT_EQ(request().outcome, Outcome::None) << "nobody has greeted: " << what;
  }
}

TEST_F(Array, AddsAndSaysHowFar) {
  for (std::uint64_t i = 0; i < 0x40000; i += 2) {
    const std::uint16_t one = 0x3E00;
    std::memcpy(card.at(first_ + i), &one, 2);
    std::memcpy(card.at(first_ + 0x40000 + i), &one, 2);
  }
  ask_for_sum(wire::array::kMaxSticks + 10);
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Done);
  EXPECT_EQ(request().done, wire::array::kMaxSticks) << "a request is bounded";
  std::uint16_t code = 0;
  std::memcpy(&code, card.at(first_ + 0x80000 + wire::array::kMaxSticks * 128 - 2), 2);
  EXPECT_EQ(code, 0x4000);  // 2
  std::memcpy(&code, card.at(first_ + 0x80000 + wire::array::kMaxSticks * 128), 2);
  EXPECT_EQ(code, 0);
}

TEST_F(Array, NormalizesWithFiveInputsAndNamesEach) {
  ask_for_sum(4);
  request().opcode = static_cast<std::uint32_t>(wire::program::Opcode::LayerNormNorm);
  request().inputs = 5;
  for (unsigned i = 0; i < 5; ++i) request().row[i] = {kWindow, wire::kStickBytes};
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Done);
  EXPECT_EQ(request().done, 4u);
  for (unsigned i = 0; i < 5; ++i) {
    const std::uint64_t unmapped = kWindow - wire::kStickBytes;
    const Row good = std::exchange(request().row[i], Row{unmapped, 0});
    array.work(kHart);
    EXPECT_EQ(request().outcome, Outcome::Missing);
    EXPECT_EQ(request().operand, i);
    EXPECT_EQ(request().address, unmapped);
    request().row[i] = good;
  }
}

TEST_F(Array, CrossesPagesWherePiecesLieApart) {
  // The output's pages in an order that is not that of their memory.
  const std::uint64_t address = kWindow + 4 * MemoryBuilder::kLargePage;
  const std::uint64_t pages[] = {card.take_page(), card.take_page(), card.take_page()};
  card.map(address, pages[2], 0);
  card.map(address + MemoryBuilder::kPage, pages[0], 0);
  card.map(address + 2 * MemoryBuilder::kPage, pages[1], 0);
  for (std::uint64_t i = 0; i < 3 * MemoryBuilder::kPage; ++i) *card.at(first_ + i) = static_cast<std::byte>(i * 7);
  ask_for_sum(3 * MemoryBuilder::kPage / 128);
  request().opcode = static_cast<std::uint32_t>(wire::program::Opcode::Copy);
  request().inputs = 1;
  request().row[wire::array::kOutput].address = address;
  array.work(kHart);
  ASSERT_EQ(request().outcome, Outcome::Done);
  EXPECT_EQ(std::memcmp(card.at(pages[2]), card.at(first_), MemoryBuilder::kPage), 0);
  EXPECT_EQ(std::memcmp(card.at(pages[0]), card.at(first_ + MemoryBuilder::kPage), MemoryBuilder::kPage), 0);
  EXPECT_EQ(std::memcmp(card.at(pages[1]), card.at(first_ + 2 * MemoryBuilder::kPage), MemoryBuilder::kPage), 0);
}

TEST_F(Array, SaysWhichByteIsMissingBeforeItTouchesAnything) {
  const std::uint64_t end = kWindow + MemoryBuilder::kLargePage;
  ask_for_sum(16);
  request().row[wire::array::kOutput].address = end - 8 * wire::kStickBytes;  // the second half may be read only
  std::memset(card.at(first_ + 0x1FF000), 0x77, 0x1000);
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Missing);
  EXPECT_EQ(request().operand, wire::array::kOutput);
  EXPECT_EQ(request().address, end);
  EXPECT_EQ(*card.at(first_ + 0x1FFFFF), std::byte{0x77}) << "the first half was not written";

  ask_for_sum(16);
  request().row[1].address = end + MemoryBuilder::kLargePage - wire::kStickBytes;
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Missing);
  EXPECT_EQ(request().operand, 1u);
  EXPECT_EQ(request().address, end + MemoryBuilder::kLargePage);
}

TEST_F(Array, FindsTheTableOfAFunctionAsOnePiece) {
  ask_for_sum(1);
  request().opcode = static_cast<std::uint32_t>(wire::program::Opcode::Exp);
  request().inputs = 1;
  request().table = kWindow + MemoryBuilder::kLargePage;
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Done);
  request().table = kWindow + 2 * MemoryBuilder::kLargePage - wire::kStickBytes;
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Missing);
  EXPECT_EQ(request().operand, wire::array::kTable);
  EXPECT_EQ(request().address, kWindow + 2 * MemoryBuilder::kLargePage);

  const std::uint64_t before = request().table / MemoryBuilder::kPage * MemoryBuilder::kPage;
  card.take_page();
  const std::uint64_t behind = card.take_page();
  for (std::uint64_t i = 0; i < wire::array::kTableBytes; i += MemoryBuilder::kPage) {
    card.map(before + MemoryBuilder::kPage + i, behind, 0);  // mapped, all of it to one page
  }
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Refused) << "nothing is missing, and touching it would not help";
  EXPECT_EQ(request().operand, wire::array::kTable);
}

TEST_F(Array, RefusesAboutEverySecondRequestWhenItIsMixed) {
  array = svp::array::ComputeArray(true);
  greet();
  unsigned refused = 0;
  for (unsigned n = 0; n < 400; ++n) {
    ask_for_sum(1);
    array.work(kHart);
    EXPECT_NE(request().outcome, Outcome::None);
    refused += request().outcome == Outcome::Refused;
  }
  EXPECT_GT(refused, 100u);
  EXPECT_LT(refused, 300u);
}

// Two launches of one function on one core: the hint is the same instruction of the same text.
TEST_F(Array, ServesTheContextThatRuns) {
  const std::uint64_t other_scratchpad = card.take_page();
  const std::uint64_t other = card.take_page();
  card.map(kScratchpad + wire::kContextStride, other_scratchpad, 0);
  auto& other_request = *reinterpret_cast<Request*>(card.at(other_scratchpad));
  ask_for_sum(4);
  other_request = request();
  other_request.count = 2;
  set_context(kHart, other, kArguments + wire::kContextStride);
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::None);
  EXPECT_EQ(other_request.outcome, Outcome::Done);
  EXPECT_EQ(other_request.done, 2u);
  set_context(kHart, context_, kArguments);
  array.work(kHart);
  EXPECT_EQ(request().done, 4u);
}

TEST_F(Array, RefusesWhatIsNoRequest) {
  const auto refused = [&](auto change) {
    ask_for_sum(4);
    change(request());
    array.work(kHart);
    return request().outcome == Outcome::Refused;
  };
  EXPECT_FALSE(refused([](Request&) {}));
  EXPECT_TRUE(refused([](Request& r) { r.kind = static_cast<wire::array::Kind>(0); }));
  EXPECT_TRUE(refused([](Request& r) { r.opcode = 0x70; }));
  EXPECT_TRUE(refused([](Request& r) { r.opcode |= 0x10000; }));
  EXPECT_TRUE(refused([](Request& r) { r.format = 8; }));
  EXPECT_TRUE(refused([](Request& r) { r.inputs = 3; }));
  EXPECT_TRUE(refused([](Request& r) { r.inputs = ~0u; }));
  EXPECT_TRUE(refused([](Request& r) { r.singles = 4; }));
  EXPECT_TRUE(refused([](Request& r) { r.count = 0; }));
  EXPECT_TRUE(refused([](Request& r) { r.row[0].address += 1; }));
  EXPECT_TRUE(refused([](Request& r) { r.row[1].step = 64; }));
  EXPECT_TRUE(refused([](Request& r) { r.row[wire::array::kOutput].step = std::uint64_t{1} << 38; }));
  EXPECT_TRUE(refused([](Request& r) { r.row[wire::array::kOutput].address = std::uint64_t{1} << 63; }));
}

TEST_F(Array, AnswersNobodyWithoutAWritableRequest) {
  ask_for_sum(1);
  array.work(2);                                                    // no such hart
  set_context(kHart, context_, kArguments + wire::kContextStride);  // another context's, not mapped
  array.work(kHart);
  set_context(kHart, 0x1000, kArguments);  // no memory
  array.work(kHart);
  set_context(kHart, context_, kArguments);
  set_root(kHart, 0);
  array.work(kHart);
  set_root(kHart, ~std::uint64_t{0});
  array.work(kHart);
  card.map(kScratchpad, scratchpad_, 0, {.write = false});
  set_root(kHart, card.root());
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::None);
}

// Requests of all kinds, good and bad ones: what is not mapped writable for the hart stays as it is.
class RandomRequests : public Array {
 protected:
  static constexpr unsigned kEach = 20000;

  RandomRequests() {
    for (std::uint64_t i = 0; i < MemoryBuilder::kLargePage; i += 8) set_word(second_ + i, random());
    for (std::uint64_t i = 0; i < MemoryBuilder::kLargePage; i += 2) {
      const std::uint16_t finite = random() & 0xBFFF;
      std::memcpy(card.at(first_ + i), &finite, sizeof finite);
    }
    before_.resize(kBytes);
    std::memcpy(before_.data(), card.at(MemoryBuilder::kFirst), kBytes);
  }

  bool rarely() { return random() % 16 == 0; }
  std::uint32_t word(std::uint64_t usual) { return static_cast<std::uint32_t>(rarely() ? random() : usual); }
  std::uint64_t place() {
    const std::uint64_t places[] = {kWindow, kSecondPage, kScratchpad, wire::kContextWindow, kWindow - 128,
                                    first_,  scratchpad_, hello_,      card.root()};
    const std::uint64_t at = places[random() % (rarely() ? std::size(places) : 2)];
    return at + (rarely() ? MemoryBuilder::kLargePage - random() % 64 * 128 : random() % 8192 * 128);
  }
  std::uint64_t output() { return rarely() ? place() : kWindow + random() % 8192 * 128; }

  Request of_rows() {
    static constexpr std::uint32_t kOpcodes[] = {0x10, 0x20, 0x23, 0x24, 0x28, 0x2F,
                                                 0x30, 0x33, 0x34, 0x40, 0x69, 0x6A};
    static constexpr std::uint32_t kInputs[] = {1, 2, 2, 2, 2, 3, 1, 1, 1, 1, 1, 5};
    const auto row = [&] { return Row{place(), rarely() ? random() : random() % 16 * 128}; };
    const std::size_t which = random() % std::size(kOpcodes);
    Request wanted{};
    wanted.kind = static_cast<wire::array::Kind>(rarely() ? random() : 1);
    wanted.opcode = word(kOpcodes[which]);
    wanted.format = word(random() % 2);
    wanted.inputs = word(kInputs[which]);
    wanted.singles = word(random() % (1u << kInputs[which]));
    wanted.count = rarely() ? random() : 1 + random() % 32;
    for (unsigned o = 0; o < wire::array::kMaxInputs; ++o) wanted.row[o] = row();
    wanted.row[wire::array::kOutput] = {output(), row().step};
    wanted.table = place();
    return wanted;
  }

  // The lists lie behind the request; now and then somewhere else, or a stick of them does.
  Request of_chunk() {
    constexpr std::uint64_t kRowsAt = 1024, kPanelAt = 2560;
    const bool strange = random() % 4 == 0;
    for (std::uint64_t at = kRowsAt; at < kPanelAt + wire::array::kMaxDepth * 8; at += 8) {
      set_word(scratchpad_ + at,
               strange && rarely() ? (rarely() ? random() : place()) : kWindow + random() % 8192 * 128);
    }
    ChunkRequest wanted{};
    wanted.kind = wire::array::Kind::Chunk;
    wanted.rows = word(1 + random() % 16);
    wanted.depth = word(1 + random() % wire::array::kMaxDepth);
    wanted.lanes = word(1 + random() % 64);
    wanted.row_list = rarely() ? place() : kScratchpad + kRowsAt;
    wanted.panel_list = rarely() ? place() + random() % 128 : kScratchpad + kPanelAt;
    wanted.sums = output();
    wanted.half_step = rarely() ? random() : random() % 16 * 128;
    wanted.format = word(random() % 2 * 6);  // DL16 or FP8_E4M3
    wanted.half = word(wanted.format == 0 ? 0 : random() % 2);
    if (random() % 4 == 0) {
      wanted.rows = word(1 + random() % wire::array::kFewRows);
      wanted.depth = word(1 + random() % wire::array::kMaxFewDepth);
    }
    wanted.row_step = rarely() ? random() : random() % 16 * 128;
    if (wanted.depth > wire::array::kMaxDepth || random() % 2 == 0) {
      wanted.panel_step = rarely() ? random() : random() % 16 * 128;
      if (wanted.panel_step != 0) wanted.panel_list = place();
    }
    Request request{};
    std::memcpy(&request, &wanted, sizeof request);
    return request;
  }

  Request of_lines() {
    constexpr std::uint64_t kLinesAt = 1024, kOutputsAt = 2560;
    for (std::uint64_t i = 0; i < 64; ++i) {
      set_word(scratchpad_ + kLinesAt + i * 8, random() % 64 == 0 ? place() : kWindow + random() % 8192 * 128);
      set_word(scratchpad_ + kOutputsAt + i * 8, random() % 64 == 0 ? random() : output());
    }
    wire::array::LinesRequest wanted{};
    wanted.kind = wire::array::Kind::Lines;
    wanted.opcode = word(random() % 5 == 0 ? 0x68 : 0x60 + random() % 4);
    wanted.format = word(random() % 2);
    wanted.along = word(random() % 2);
    wanted.lines = word(1 + random() % 8);
    wanted.sticks = word(1 + random() % 32);
    wanted.lanes = word(1 + random() % 32);
    wanted.line_list = rarely() ? place() : kScratchpad + kLinesAt;
    wanted.output_list = rarely() ? place() + random() % 128 : kScratchpad + kOutputsAt;
    wanted.step = rarely() ? random() : random() % 16 * 128;
    Request request{};
    std::memcpy(&request, &wanted, sizeof request);
    return request;
  }

  Request of_conversion() {
    wire::array::ConvertRequest wanted{};
    wanted.kind = wire::array::Kind::Convert;
    wanted.opcode = word(random() % 2 == 0 ? 0x10 : 0x12 + random() % 5);
    static constexpr std::uint32_t kFrom[] = {0, 1, 0, 6, 0}, kTo[] = {1, 0, 6, 0, 6};  // of the opcodes from 0x12 on
    const bool any = wanted.opcode < 0x12 || wanted.opcode > 0x16;
    wanted.from_format = word(any ? random() % 8 : kFrom[wanted.opcode - 0x12]);
    wanted.to_format = word(any ? random() % 8 : kTo[wanted.opcode - 0x12]);
    wanted.from_sticks = word(1 + random() % (rarely() ? 6 : 2));
    wanted.to_sticks = word(1 + random() % (rarely() ? 6 : 2));
    wanted.single = word(rarely() ? 1 : 0);
    wanted.count = rarely() ? random() : 1 + random() % 32;
    wanted.from = {place(), rarely() ? random() : random() % 16 * 128};
    wanted.to = {output(), rarely() ? random() : random() % 16 * 128};
    wanted.from_step = rarely() ? random() : random() % 16 * 128;
    wanted.to_step = rarely() ? random() : random() % 16 * 128;
    Request request{};
    std::memcpy(&request, &wanted, sizeof request);
    return request;
  }

  Request of_blocks() {
    wire::array::BlocksRequest wanted{};
    const std::uint32_t item = 1u << random() % 3;
    const std::uint32_t lanes = wire::kStickBytes / item;
    const auto step = [&] { return rarely() ? random() : random() % 16 * 128; };
    wanted.kind = wire::array::Kind::Blocks;
    wanted.item = word(item);
    wanted.rows = word(1 + random() % lanes);
    wanted.columns = word(1 + random() % lanes);
    wanted.count = rarely() ? random() : 1 + random() % wire::array::most_blocks(item);
    wanted.input = {place(), step()};
    wanted.input_step = step();
    wanted.output = {output(), step()};
    wanted.output_step = step();
    Request request{};
    std::memcpy(&request, &wanted, sizeof request);
    return request;
  }

  Request of_copies() {
    constexpr std::uint64_t kFromAt = 1024, kToAt = 2560;
    for (std::uint64_t i = 0; i < 64; ++i) {
      set_word(scratchpad_ + kFromAt + i * 8, random() % 64 == 0 ? place() : kWindow + random() % 8192 * 128);
      set_word(scratchpad_ + kToAt + i * 8, random() % 64 == 0 ? random() : output());
    }
    wire::array::CopiesRequest wanted{};
    wanted.kind = wire::array::Kind::Copies;
    wanted.rows = word(1 + random() % 16);
    wanted.sticks = word(1 + random() % 32);
    wanted.from_list = rarely() ? place() : kScratchpad + kFromAt;
    wanted.to_list = rarely() ? place() + random() % 128 : kScratchpad + kToAt;
    wanted.from_step = rarely() ? random() : random() % 16 * 128;
    wanted.to_step = rarely() ? random() : random() % 16 * 128;
    Request request{};
    std::memcpy(&request, &wanted, sizeof request);
    return request;
  }

  Request of_top_k() {
    constexpr std::uint64_t kRowsAt = 1024;
    for (std::uint64_t i = 0; i < 64; ++i) {
      set_word(scratchpad_ + kRowsAt + i * 8, random() % 64 == 0 ? random() : kWindow + random() % 8192 * 128);
    }
    wire::array::TopKRequest wanted{};
    wanted.kind = wire::array::Kind::TopK;
    wanted.format = word(random() % 2);
    wanted.ranks = word(1 + random() % (rarely() ? 2 * wire::array::kMaxRanks : 32));
    wanted.across = word(random() % 2);
    wanted.rows = word(1 + random() % 8);
    wanted.sticks = word(1 + random() % 32);
    wanted.lanes = word(1 + random() % 32);
    wanted.first = word(random() % 2 == 0 ? 0 : random());
    wanted.row_list = rarely() ? place() : kScratchpad + kRowsAt;
    wanted.step = rarely() ? random() : random() % 16 * 128;
    wanted.merits = output();
    Request request{};
    std::memcpy(&request, &wanted, sizeof request);
    return request;
  }

  template <typename Make>
  unsigned done_of(Make make) {
    unsigned done = 0;
    for (unsigned n = 0; n < kEach; ++n) {
      const Request wanted = make();
      request() = wanted;
      array.work(kHart);
      if (request().outcome == Outcome::Done) ++done;
    }
    return done;
  }

  void expect_the_rest_untouched() {
    for (std::uint64_t i = 0; i < kBytes; i += 8) {
      if (is_writable(MemoryBuilder::kFirst + i)) continue;
      ASSERT_EQ(std::memcmp(&before_[i], card.at(MemoryBuilder::kFirst + i), 8), 0) << std::hex << i;
    }
  }

  std::mt19937_64 random{static_cast<unsigned>(testing::UnitTest::GetInstance()->random_seed())};

 private:
  std::vector<std::byte> before_;
};

TEST_F(RandomRequests, OfRowsWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_rows(); }), 500u) << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

TEST_F(RandomRequests, OfChunksWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_chunk(); }), 500u) << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

TEST_F(RandomRequests, OfConversionsWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_conversion(); }), 500u)
      << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

TEST_F(RandomRequests, OfLinesWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_lines(); }), 500u) << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

TEST_F(RandomRequests, OfBlocksWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_blocks(); }), 500u)
      << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

TEST_F(RandomRequests, OfTopKWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_top_k(); }), 500u) << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

TEST_F(RandomRequests, OfCopiesWriteOnlyWhatTheHartMayWrite) {
  EXPECT_GT(done_of([this] { return of_copies(); }), 500u)
      << "too few of the requests were good ones to prove anything";
  expect_the_rest_untouched();
}

}  // namespace
