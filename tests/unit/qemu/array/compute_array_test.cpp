// SPDX-License-Identifier: Apache-2.0
// The array as a whole: greeting, requests by a hart's page tables, answers, and what it never touches.
#include "qemu/array/compute_array.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/memory_builder.hpp"

namespace {

using svp::array::ComputeArray;
using test::MemoryBuilder;
using wire::array::Hello;
using wire::array::Outcome;
using wire::array::Request;
using wire::array::Row;

constexpr std::uint64_t kWindow = wire::region_window(0);
constexpr std::uint64_t kArguments = wire::kContextWindow + wire::kArgumentsOffset;
constexpr std::uint64_t kScratchpad = wire::kContextWindow + wire::kScratchpadOffset;
// Of the firmware's own structures.
constexpr std::uint64_t kLocalBytes = 256, kRootAt = 40, kContextAt = 8, kArgumentsAt = 272;
constexpr unsigned kHart = 1;

// A card with two harts. Hart 1 runs a launch with a scratchpad, and a tensor region of two large pages, the second of
// which may be read only.
class Array : public testing::Test {
 protected:
  Array() {
    hello_ = card.take_page();
    locals_ = card.take_page();
    context_ = card.take_page();
    scratchpad_ = card.take_page();
    first_ = card.take_large_page();
    second_ = card.take_large_page();
    card.map(kScratchpad, scratchpad_, 0);
    card.map(kWindow, first_, 1);
    card.map(kWindow + MemoryBuilder::kLargePage, second_, 1, {.write = false});
    set_root(kHart, card.root());
    set_context(kHart, context_, kArguments);
    hello() = {.magic = wire::array::kHelloMagic,
               .version = wire::array::kVersion,
               .harts = 2,
               .ram_base = MemoryBuilder::kFirst,
               .ram_bytes = kBytes,
               .hart_local = locals_,
               .hart_stride = kLocalBytes,
               .root_at = kRootAt,
               .context_at = kContextAt,
               .arguments_at = kArgumentsAt,
               .answer = 0,
               .reserved = {}};
    greet();
  }

  Hello& hello() { return *reinterpret_cast<Hello*>(card.at(hello_)); }
  void greet() {
    const std::uint64_t instruction = hello_ + 512;
    std::memcpy(card.at(instruction + wire::array::kHelloAddressAt), &hello_, sizeof hello_);
    array.greet(instruction, card.at(instruction));
  }
  void set_word(std::uint64_t physical, std::uint64_t word) { std::memcpy(card.at(physical), &word, sizeof word); }
  void set_root(unsigned hart, std::uint64_t root) { set_word(locals_ + hart * kLocalBytes + kRootAt, root); }
  void set_context(unsigned hart, std::uint64_t context, std::uint64_t arguments) {
    set_word(locals_ + hart * kLocalBytes + kContextAt, context);
    if (context >= MemoryBuilder::kFirst) set_word(context + kArgumentsAt, arguments);
  }
  Request& request() { return *reinterpret_cast<Request*>(card.at(scratchpad_)); }

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

  static constexpr std::uint64_t kBytes = std::uint64_t{16} << 20;
  MemoryBuilder card{kBytes};
  ComputeArray array;
  std::uint64_t hello_ = 0, locals_ = 0, context_ = 0, scratchpad_ = 0, first_ = 0, second_ = 0;
};

TEST_F(Array, AnswersAGreetingOfItsVersionOnly) {
  EXPECT_EQ(hello().answer, wire::array::kVersion);
  const Hello good = hello();
  for (unsigned what = 0; what < 4; ++what) {
    hello() = good;
    hello().answer = 0;
    if (what == 0) hello().magic ^= 1;
    if (what == 1) hello().version += 1;
    if (what == 2) hello().harts = 0;
    if (what == 3) hello().harts = 513;
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
TEST_F(Array, NeverWritesWhatTheHartMayNotWrite) {
  std::mt19937_64 random(testing::UnitTest::GetInstance()->random_seed());
  const std::uint64_t writable[] = {first_, scratchpad_};
  const auto is_writable = [&](std::uint64_t physical) {
    return (physical >= first_ && physical < first_ + MemoryBuilder::kLargePage) ||
           (physical >= scratchpad_ && physical < scratchpad_ + MemoryBuilder::kPage);
  };
  for (std::uint64_t i = 0; i < MemoryBuilder::kLargePage; i += 8) {
    const std::uint64_t word = random();
    std::memcpy(card.at(second_ + i), &word, 8);
  }
  std::vector<std::byte> before(kBytes);
  std::memcpy(before.data(), card.at(MemoryBuilder::kFirst), kBytes);
  const std::uint64_t places[] = {kWindow,       kWindow + MemoryBuilder::kLargePage,
                                  kScratchpad,   wire::kContextWindow,
                                  kWindow - 128, writable[0],
                                  writable[1],   hello_,
                                  card.root()};
  unsigned done = 0;
  for (unsigned n = 0; n < 20000; ++n) {
    Request wanted{};
    const auto rarely = [&] { return random() % 16 == 0; };
    const auto place = [&] {
      const std::uint64_t at = places[random() % (rarely() ? std::size(places) : 2)];
      return at + (rarely() ? MemoryBuilder::kLargePage - random() % 64 * 128 : random() % 8192 * 128);
    };
    const auto row = [&] { return Row{place(), rarely() ? random() : random() % 16 * 128}; };
    static constexpr std::uint32_t kOpcodes[] = {0x10, 0x20, 0x23, 0x24, 0x28, 0x2F, 0x30, 0x33, 0x34, 0x40};
    static constexpr std::uint32_t kInputs[] = {1, 2, 2, 2, 2, 3, 1, 1, 1, 1};
    const std::size_t which = random() % std::size(kOpcodes);
    wanted.kind = static_cast<wire::array::Kind>(rarely() ? random() : 1);
    wanted.opcode = static_cast<std::uint32_t>(rarely() ? random() : kOpcodes[which]);
    wanted.format = static_cast<std::uint32_t>(rarely() ? random() : random() % 2);
    wanted.inputs = static_cast<std::uint32_t>(rarely() ? random() : kInputs[which]);
    wanted.singles = static_cast<std::uint32_t>(rarely() ? random() : random() % (1u << kInputs[which]));
    wanted.count = rarely() ? random() : 1 + random() % 32;
    for (unsigned o = 0; o < wire::array::kMaxInputs; ++o) wanted.row[o] = row();
    wanted.row[wire::array::kOutput] = row();
    if (!rarely()) wanted.row[wire::array::kOutput].address = kWindow + random() % 8192 * 128;
    wanted.table = place();
    request() = wanted;
    array.work(kHart);
    if (request().outcome == Outcome::Done) ++done;
  }
  EXPECT_GT(done, 500u) << "too few of the requests were good ones to prove anything";
  for (std::uint64_t i = 0; i < kBytes; i += 8) {
    if (is_writable(MemoryBuilder::kFirst + i)) continue;
    ASSERT_EQ(std::memcmp(&before[i], card.at(MemoryBuilder::kFirst + i), 8), 0) << std::hex << i;
  }
}

}  // namespace
