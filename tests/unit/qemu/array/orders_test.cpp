// SPDX-License-Identifier: Apache-2.0
// The firmware's orders: what the array does with the next request that it is about to execute, of each kind.
#include <cstring>
#include <string>
#include <vector>

#include "shared/device_program.hpp"
#include "tests/unit/qemu/array/card_with_array.hpp"

namespace {

using test::MemoryBuilder;
using wire::array::Kind;
using wire::array::Order;
using wire::array::Outcome;
using wire::program::Format;
using wire::program::Opcode;

constexpr std::uint64_t kInputAt = 0x100000;  // in the region; the output stands at its start
constexpr std::uint64_t kFirstListAt = 1024, kSecondListAt = 2048;

// All memory is zero at first.
class ArrayOrders : public test::CardWithArray, public testing::WithParamInterface<Kind> {
 protected:
  static constexpr unsigned kCount = 4;

  void set_list(std::uint64_t at, std::uint64_t first) {
    for (unsigned i = 0; i < kCount; ++i) set_word(scratchpad_ + at + i * 8, first + i * wire::kStickBytes);
  }
  template <typename Of>
  Of& request_as() {
    return reinterpret_cast<Of&>(request());
  }

  void ask() {
    constexpr std::uint64_t kStep = wire::kStickBytes;
    constexpr std::uint64_t kInput = kWindow + kInputAt;
    request() = {};
    set_list(kFirstListAt, kInput);
    set_list(kSecondListAt, kWindow);
    switch (GetParam()) {
      case Kind::Rows:
        request().inputs = 1;
        request().opcode = static_cast<std::uint32_t>(Opcode::Relu);
        request().count = kCount;
        request().row[0] = {kInput, kStep};
        request().row[wire::array::kOutput] = {kWindow, kStep};
        break;
      case Kind::Chunk: {
        auto& chunk = request_as<wire::array::ChunkRequest>();
        chunk.rows = kCount;
        chunk.depth = kCount;
        chunk.lanes = 64;
        chunk.row_list = kScratchpad + kFirstListAt;
        chunk.panel_list = kScratchpad + kFirstListAt;
        chunk.sums = kWindow;
        chunk.half_step = kCount * kStep;
        break;
      }
      case Kind::Lines: {
        auto& lines = request_as<wire::array::LinesRequest>();
        lines.opcode = static_cast<std::uint32_t>(Opcode::Sum);
        lines.lines = kCount;
        lines.sticks = 2;
        lines.lanes = 64;
        lines.line_list = kScratchpad + kFirstListAt;
        lines.output_list = kScratchpad + kSecondListAt;
        lines.step = kStep;
        break;
      }
      case Kind::Convert: {
        auto& convert = request_as<wire::array::ConvertRequest>();
        convert.opcode = static_cast<std::uint32_t>(Opcode::Dl16ToFp32);
        convert.from_format = static_cast<std::uint32_t>(Format::Dl16);
        convert.to_format = static_cast<std::uint32_t>(Format::Fp32);
        convert.from_sticks = 1;
        convert.to_sticks = 2;
        convert.count = kCount;
        convert.from = {kInput, kStep};
        convert.to = {kWindow, 2 * kStep};
        convert.to_step = kStep;
        break;
      }
      case Kind::Blocks: {
        auto& blocks = request_as<wire::array::BlocksRequest>();
        blocks.item = 4;
        blocks.rows = 32;
        blocks.columns = 32;
        blocks.count = 2;
        blocks.input = {kInput, kStep};
        blocks.input_step = 32 * kStep;
        blocks.output = {kWindow, kStep};
        blocks.output_step = 32 * kStep;
        break;
      }
      case Kind::Copies: {
        auto& copies = request_as<wire::array::CopiesRequest>();
        copies.rows = kCount;
        copies.sticks = 2;
        copies.from_list = kScratchpad + kFirstListAt;
        copies.to_list = kScratchpad + kSecondListAt;
        copies.from_step = copies.to_step = kStep;
        break;
      }
      case Kind::TopK: {
        auto& search = request_as<wire::array::TopKRequest>();
        search.ranks = 16;  // a stick
        search.rows = kCount;
        search.sticks = 1;
        search.lanes = 64;
        search.row_list = kScratchpad + kFirstListAt;
        search.step = kStep;
        search.merits = kWindow;
        break;
      }
    }
    request().kind = GetParam();
  }
  Outcome work(Order order, std::uint64_t argument = 0) {
    orders() = {.order = order, .reserved = 0, .argument = argument, .failed = 0};
    ask();
    array.work(kHart);
    return request().outcome;
  }

  // The region as it is when the request has been served, from zeros on.
  void serve() {
    clear();
    EXPECT_EQ(work(Order::Serve), Outcome::Done);
    served_.assign(card.at(first_), card.at(first_ + MemoryBuilder::kLargePage));
  }
  void clear() { std::memset(card.at(first_), 0, MemoryBuilder::kLargePage); }
  // Where the bits of the region stand that are not as served.
  std::vector<std::uint64_t> other_bits() {
    std::vector<std::uint64_t> bits;
    for (std::uint64_t at = 0; at < served_.size(); ++at) {
      const auto other = static_cast<unsigned>(*card.at(first_ + at) ^ served_[at]);
      for (unsigned bit = 0; bit < 8; ++bit) {
        if ((other >> bit & 1) != 0) bits.push_back(at * 8 + bit);
      }
    }
    return bits;
  }

 private:
  std::vector<std::byte> served_;
};

TEST_P(ArrayOrders, AsksForEachRequestUntilItIsToldWhatToDo) {
  serve();
  clear();
  EXPECT_EQ(work(Order::Ask), Outcome::Ask);
  EXPECT_EQ(orders().order, Order::Asked);
  ask();
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Ask) << "nobody has said anything yet";
  EXPECT_EQ(work(Order::ServeOne), Outcome::Done);
  EXPECT_EQ(orders().order, Order::Ask) << "one request, and no more";
  EXPECT_EQ(work(Order::Serve), Outcome::Done);
  EXPECT_EQ(orders().order, Order::Serve);
  EXPECT_TRUE(other_bits().empty());
}

TEST_P(ArrayOrders, AsksForNothingThatIsMissingOrRefused) {
  set_word(locals_ + kHart * kLocalBytes + kRootAt, card.root());
  for (const Order order : {Order::Ask, Order::ServeOne, Order::RefuseOne, Order::CorruptOne, Order::FailOne}) {
    orders() = {.order = order, .reserved = 0, .argument = 0, .failed = 0};
    card.map(kWindow, first_, 1, {.write = false});
    ask();
    array.work(kHart);
    EXPECT_EQ(request().outcome, Outcome::Missing);
    card.map(kWindow, first_, 1);
    request().kind = static_cast<Kind>(99);
    array.work(kHart);
    EXPECT_EQ(request().outcome, Outcome::Refused);
    EXPECT_EQ(orders().order, order) << "the order is about the next one that could be executed";
    EXPECT_EQ(orders().failed, 0u);
  }
}

TEST_P(ArrayOrders, RefusesOne) {
  EXPECT_EQ(work(Order::RefuseOne), Outcome::Refused);
  EXPECT_EQ(orders().order, Order::Ask);
  EXPECT_EQ(work(static_cast<Order>(7)), Outcome::Refused) << "an order that this array does not know";
}

TEST_P(ArrayOrders, InvertsOneBitOfWhatItMakes) {
  std::vector<std::uint64_t> seen;
  for (const std::uint64_t argument : {std::uint64_t{0}, std::uint64_t{1029}, ~std::uint64_t{0}}) {
    serve();
    clear();
    EXPECT_EQ(work(Order::CorruptOne, argument), Outcome::Done);
    EXPECT_EQ(orders().order, Order::Ask);
    const auto bits = other_bits();
    ASSERT_EQ(bits.size(), 1u) << argument;
    EXPECT_LT(bits[0], kInputAt * 8) << "an input";
    EXPECT_EQ(bits[0] % 1024, argument % 1024);
    seen.push_back(bits[0]);
  }
  EXPECT_EQ(seen[0], 0u);
  EXPECT_NE(seen[1] / 1024, 0u) << "another stick than the first";
}

TEST_P(ArrayOrders, FailsAtMemoryThatItReads) {
  serve();
  for (const std::uint64_t argument : {std::uint64_t{0}, std::uint64_t{3}, ~std::uint64_t{0}}) {
    EXPECT_EQ(work(Order::FailOne, argument), Outcome::MemoryError);
    EXPECT_EQ(orders().order, Order::Ask);
    EXPECT_GE(orders().failed, first_ + kInputAt);
    EXPECT_LT(orders().failed, first_ + MemoryBuilder::kLargePage);
    EXPECT_EQ(orders().failed % wire::kStickBytes, 0u);
    const bool overlaps = GetParam() == Kind::Lines || GetParam() == Kind::Copies;  // rows of two sticks, one apart
    if (argument == 3) EXPECT_EQ(orders().failed, first_ + kInputAt + (overlaps ? 2 : 3) * wire::kStickBytes);
  }
  EXPECT_TRUE(other_bits().empty());
}

std::string name_of(const testing::TestParamInfo<Kind>& info) {
  static constexpr const char* kNames[] = {"None", "Rows", "Chunk", "Lines", "Convert", "Blocks", "Copies", "TopK"};
  return kNames[static_cast<unsigned>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Kinds, ArrayOrders,
                         testing::Values(Kind::Rows, Kind::Chunk, Kind::Lines, Kind::Convert, Kind::Blocks,
                                         Kind::Copies, Kind::TopK),
                         name_of);

// Kinds that name sticks by an address and a step.
class ArrayStretches : public ArrayOrders {};
INSTANTIATE_TEST_SUITE_P(Kinds, ArrayStretches, testing::Values(Kind::Rows, Kind::Convert), name_of);

// Pages of an operand in any order: the stick of a number is the one that the request gives it.
TEST_P(ArrayStretches, CountSticksAcrossPages) {
  const std::uint64_t address = kWindow + 4 * MemoryBuilder::kLargePage;
  const std::uint64_t pages[] = {card.take_page(), card.take_page()};
  for (unsigned i = 0; i < 2; ++i) card.map(address + i * MemoryBuilder::kPage, pages[1 - i], 0);
  const bool rows = GetParam() == Kind::Rows;
  orders() = {
      .order = Order::CorruptOne, .reserved = 0, .argument = std::uint64_t{rows ? 40u : 20u} * 1024, .failed = 0};
  ask();
  if (rows) {
    request().count = 64;
    request().row[wire::array::kOutput].address = address;
  } else {
    request_as<wire::array::ConvertRequest>().count = 32;
    request_as<wire::array::ConvertRequest>().to.address = address;
  }
  array.work(kHart);
  ASSERT_EQ(request().outcome, Outcome::Done);
  EXPECT_EQ(*card.at(pages[0] + (40 - 32) * wire::kStickBytes), std::byte{1});
}

class ArrayContexts : public test::CardWithArray {};

TEST_F(ArrayContexts, WithoutMemoryForOrdersAreNotServed) {
  hello().orders_at = static_cast<std::uint32_t>(kBytes);
  greet();
  request() = {};
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::None);
}

// A product that its data refuse was asked for: the order has been used, and there is nothing to invert.
TEST_F(ArrayContexts, HaveNothingInvertedOfAProductThatIsRefused) {
  const std::uint64_t infinities = 0x7FFF7FFF7FFF7FFF;
  for (unsigned i = 0; i < 16; ++i) set_word(first_ + i * 8, infinities);
  set_word(scratchpad_ + kFirstListAt, kWindow);
  auto& chunk = reinterpret_cast<wire::array::ChunkRequest&>(request());
  chunk = {};
  chunk.kind = Kind::Chunk;
  chunk.rows = chunk.depth = 1;
  chunk.lanes = 64;
  chunk.row_list = chunk.panel_list = kScratchpad + kFirstListAt;
  chunk.sums = kWindow + kInputAt;
  chunk.half_step = wire::kStickBytes;
  orders() = {.order = Order::CorruptOne, .reserved = 0, .argument = 0, .failed = 0};
  array.work(kHart);
  EXPECT_EQ(request().outcome, Outcome::Refused);
  EXPECT_EQ(orders().order, Order::Ask);
  EXPECT_EQ(*card.at(first_ + kInputAt), std::byte{0});
}

}  // namespace
