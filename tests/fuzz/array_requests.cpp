// SPDX-License-Identifier: Apache-2.0
// Requests to the compute array, by a launch that means harm: pages of every kind, requests of every kind with some of
// their words spoilt, lists of addresses that name anything. Whatever is asked, no byte changes that the launch may not
// write; a request that is refused, or misses a page, has changed nothing; what is said to be missing is missing. The
// card's memory lies between pages that end the program when they are touched.
#include <array>
#include <cstring>
#include <vector>

#include "qemu/array/compute_array.hpp"
#include "shared/device_program.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/unit/qemu/array/memory_builder.hpp"

namespace {

using fuzz::Input;
using fuzz::require;
using test::MemoryBuilder;
using test::Rights;
using wire::array::BlocksRequest;
using wire::array::ChunkRequest;
using wire::array::ConvertRequest;
using wire::array::CopiesRequest;
using wire::array::Kind;
using wire::array::LinesRequest;
using wire::array::Order;
using wire::array::Outcome;
using wire::array::Request;
using wire::array::TopKRequest;
using wire::program::Format;
using wire::program::Opcode;

constexpr std::uint64_t kPage = MemoryBuilder::kPage;
constexpr unsigned kPages = 24;       // of the launch's window
constexpr unsigned kTablePages = 33;  // one behind the other, read-only: a function's table lies in them
constexpr std::uint64_t kMemoryPages = 96;
constexpr std::uint64_t kWindow = wire::region_window(0);
constexpr std::uint64_t kTableAt = kWindow + std::uint64_t{1024} * kPage;
constexpr std::uint64_t kArguments = wire::kContextWindow + wire::kArgumentsOffset;
constexpr std::uint64_t kScratchpad = wire::kContextWindow + wire::kScratchpadOffset;
constexpr std::uint64_t kListsAt = 1024;  // in the scratchpad's page, to its end
constexpr std::uint64_t kListWords = (kPage - kListsAt) / sizeof(std::uint64_t);
constexpr unsigned kHart = 1;
constexpr std::uint64_t kLocalBytes = 128, kRootAt = 40, kContextAt = 8, kArgumentsAt = 272, kOrdersAt = 280;

class Card {
 public:
  explicit Card(Input& input) : input_(input) {
    hello_ = memory_.take_page();
    locals_ = memory_.take_page();
    context_ = memory_.take_page();
    scratchpad_ = take(kScratchpad, {});
    for (unsigned i = 0; i < kPages; ++i) map_one(i);
    take(kTableAt - kPage, {.write = false});  // the page tables of its addresses are made here
    for (unsigned i = 0; i < kTablePages; ++i) take(kTableAt + i * kPage, {.write = false});
    fill();
    set_word(locals_ + kHart * kLocalBytes + kRootAt, memory_.root());
    set_word(locals_ + kHart * kLocalBytes + kContextAt, context_);
    set_word(context_ + kArgumentsAt, kArguments);
    greet();
    damaged_ = input_.below(16) == 0;
    if (damaged_) set_word(memory_.root() + input_.below(kMemoryPages * kPage / 8) * 8, input_.take<std::uint64_t>());
  }

  void ask() {
    make();
    orders() = {.order = static_cast<Order>(input_.below(16) != 0 ? 0 : input_.below(8)),
                .reserved = 0,
                .argument = input_.take<std::uint32_t>(),
                .failed = 0};
    const Order order = orders().order;
    before_.assign(memory_.at(MemoryBuilder::kFirst), memory_.at(MemoryBuilder::kFirst) + kMemoryPages * kPage);
    array_.work(kHart);
    if (damaged_) return;
    judge_orders(order);
    judge();
  }

 private:
  wire::array::Orders& orders() { return *reinterpret_cast<wire::array::Orders*>(memory_.at(context_ + kOrdersAt)); }
  Request& request() { return *reinterpret_cast<Request*>(memory_.at(scratchpad_)); }
  void set_word(std::uint64_t physical, std::uint64_t word) {
    if (physical - MemoryBuilder::kFirst < kMemoryPages * kPage) std::memcpy(memory_.at(physical), &word, sizeof word);
  }

  // ---- the launch's memory
  std::uint64_t take(std::uint64_t address, Rights rights) {
    const std::uint64_t physical = memory_.take_page();
    memory_.map(address, physical, 0, rights);
    const std::uint64_t number = (physical - MemoryBuilder::kFirst) / kPage;
    writable_[number] = rights.write && rights.user && !rights.execute;
    return physical;
  }
  void map_one(unsigned page) {
    static constexpr Rights kRights[] = {{}, {.write = false}, {.user = false}, {.write = false, .execute = true}};
    const unsigned kind = input_.below(256);
    if (kind >= 240) return;  // not mapped
    const Rights rights = kRights[kind < 160 ? 0 : kind % std::size(kRights)];
    take(kWindow + page * kPage, rights);
    readable_[page] = rights.user && !rights.execute;
    may_write_[page] = readable_[page] && rights.write;
  }
  // Numbers of all kinds, or close to each other.
  void fill() {
    std::uint64_t state = input_.take<std::uint32_t>() * 2 + 1;
    const std::uint64_t kept = input_.below(2) != 0 ? ~std::uint64_t{0} : 0x83FF83FF83FF83FF;
    const std::uint64_t exponent = kept == ~std::uint64_t{0} ? 0 : 0x3C003C003C003C00;
    for (std::uint64_t at = scratchpad_; at < MemoryBuilder::kFirst + kMemoryPages * kPage; at += 8) {
      state = state * 6364136223846793005 + 1442695040888963407;
      if (writable_[(at - MemoryBuilder::kFirst) / kPage]) set_word(at, ((state ^ state >> 29) & kept) | exponent);
    }
  }
  void greet() {
    auto& hello = *reinterpret_cast<wire::array::Hello*>(memory_.at(hello_));
    hello = {.magic = wire::array::kHelloMagic,
             .version = wire::array::kVersion,
             .harts = 2,
             .ram_base = MemoryBuilder::kFirst,
             .ram_bytes = kMemoryPages * kPage,
             .hart_local = locals_,
             .hart_stride = kLocalBytes,
             .root_at = kRootAt,
             .context_at = kContextAt,
             .arguments_at = kArgumentsAt,
             .answer = 0,
             .orders_at = kOrdersAt,
             .reserved = 0,
             .move = 0,
             .regions_begin = 0,
             .reserved1 = {}};
    const std::uint64_t instruction = hello_ + 512;
    std::memcpy(memory_.at(instruction + wire::array::kHelloAddressAt), &hello_, sizeof hello_);
    array_.greet(0, instruction, memory_.at(instruction));
    require(hello.answer == wire::array::kVersion, "the array answers the greeting");
  }

  // ---- requests
  std::uint64_t stick() { return kWindow + input_.below(kPages * kPage / wire::kStickBytes) * wire::kStickBytes; }
  std::uint64_t step() { return input_.below(8) * wire::kStickBytes; }
  std::uint64_t list() { return kScratchpad + kListsAt + input_.below(kListWords) * sizeof(std::uint64_t); }
  std::uint32_t count(unsigned most) { return 1 + input_.below(most); }

  void make() {
    auto* const words = reinterpret_cast<std::uint64_t*>(memory_.at(scratchpad_ + kListsAt));
    const std::uint64_t first = stick();
    const std::uint64_t apart = step();
    for (std::uint64_t i = 0; i < kListWords; ++i) words[i] = first + i * apart % (kPages * kPage / 2);
    request() = {};
    switch (input_.below(7)) {
      case 0: make_rows(request()); break;
      case 1: make_chunk(reinterpret_cast<ChunkRequest&>(request())); break;
      case 2: make_lines(reinterpret_cast<LinesRequest&>(request())); break;
      case 3: make_conversion(reinterpret_cast<ConvertRequest&>(request())); break;
      case 4: make_blocks(reinterpret_cast<BlocksRequest&>(request())); break;
      case 5: make_copies(reinterpret_cast<CopiesRequest&>(request())); break;
      default: make_top_k(reinterpret_cast<TopKRequest&>(request())); break;
    }
    for (unsigned n = input_.below(4); n > 0; --n) {
      auto& word = reinterpret_cast<std::uint64_t*>(&request())[input_.below(sizeof(Request) / 8)];
      word = input_.below(2) != 0 ? input_.take<std::uint64_t>() : word ^ std::uint64_t{1} << input_.below(64);
    }
    for (unsigned n = input_.below(4); n > 0; --n) {
      words[input_.below(kListWords)] = input_.below(2) != 0 ? input_.take<std::uint64_t>() : stick();
    }
  }
  void make_rows(Request& request) {
    static constexpr Opcode kOfOne[] = {Opcode::Copy, Opcode::Abs,   Opcode::Neg, Opcode::Relu,
                                        Opcode::Clip, Opcode::Floor, Opcode::Exp, Opcode::LayerNormScale};
    request.kind = Kind::Rows;
    request.inputs = count(5);
    const unsigned which = input_.below(12);
    const auto of_two = static_cast<Opcode>(static_cast<unsigned>(Opcode::Add) + which);
    const Opcode opcode = request.inputs == 1   ? kOfOne[which % std::size(kOfOne)]
                          : request.inputs == 2 ? of_two
                          : request.inputs == 3 ? Opcode::Where
                                                : Opcode::LayerNormNorm;
    request.opcode = static_cast<std::uint32_t>(opcode);
    request.format = input_.below(opcode == Opcode::Copy || opcode == Opcode::Where ? 8 : 2);
    request.singles = input_.below(1 << request.inputs);
    request.count = count(700);
    for (wire::array::Row& row : request.row) row = {stick(), step()};
    request.table = kTableAt + input_.below(64) * wire::kStickBytes;
  }
  void make_chunk(ChunkRequest& request) {
    request.kind = Kind::Chunk;
    request.rows = count(wire::array::kMaxRows);
    request.depth = count(wire::array::kMaxDepth);
    request.lanes = count(64);
    request.row_list = list();
    request.panel_list = list();
    request.sums = stick();
    request.half_step = step();
    if (input_.below(2) != 0) {
      request.format = static_cast<std::uint32_t>(Format::Fp8E4m3);
      request.half = input_.below(2);
    }
    if (input_.below(4) == 0) {
      request.rows = count(wire::array::kFewRows);
      request.depth = count(wire::array::kMaxFewDepth);
    }
    request.row_step = step();
    if (input_.below(2) != 0) {
      request.panel_step = step();
      request.panel_list = stick();
    }
  }
  void make_lines(LinesRequest& request) {
    static constexpr Opcode kOpcodes[] = {Opcode::Sum, Opcode::Mean, Opcode::Max, Opcode::Min, Opcode::Exx2};
    request.kind = Kind::Lines;
    request.opcode = static_cast<std::uint32_t>(kOpcodes[input_.below(std::size(kOpcodes))]);
    request.format = input_.below(2);
    request.along = input_.below(2);
    request.lines = count(wire::array::kMaxLines);
    request.sticks = count(64);
    request.lanes = count(64);
    request.factor = input_.take<std::uint32_t>();
    request.line_list = list();
    request.output_list = list();
    request.step = step();
  }
  void make_conversion(ConvertRequest& request) {
    request.kind = Kind::Convert;
    request.opcode = 0x10 + (input_.below(2) != 0 ? 0 : 2 + input_.below(5));
    request.from_format = input_.below(wire::program::kFormats);
    request.to_format = input_.below(wire::program::kFormats);
    request.from_sticks = count(4);
    request.to_sticks = count(4);
    request.single = input_.below(8) == 0 ? 1 : 0;
    request.count = count(1100);
    request.from = {stick(), step()};
    request.to = {stick(), step()};
    request.from_step = step();
    request.to_step = step();
  }
  void make_blocks(BlocksRequest& request) {
    request.kind = Kind::Blocks;
    request.item = 1u << input_.below(3);
    request.rows = count(wire::kStickBytes / request.item);
    request.columns = count(wire::kStickBytes / request.item);
    request.count = count(16);
    request.input = {stick(), step()};
    request.input_step = step();
    request.output = {stick(), step()};
    request.output_step = step();
  }
  void make_copies(CopiesRequest& request) {
    request.kind = Kind::Copies;
    request.rows = count(64);
    request.sticks = count(16);
    request.from_list = list();
    request.to_list = list();
    request.from_step = step();
    request.to_step = step();
  }

  void make_top_k(TopKRequest& request) {
    request.kind = Kind::TopK;
    request.format = input_.below(2);
    request.ranks = count(input_.below(4) == 0 ? wire::array::kMaxRanks : 64);
    request.across = input_.below(2);
    request.rows = count(request.across != 0 ? 4 : wire::array::kMaxLines);
    request.sticks = count(64);
    request.lanes = count(64);
    request.first = input_.below(2) != 0 ? 0 : input_.take<std::uint32_t>();
    request.row_list = list();
    request.step = step();
    request.merits = stick();
  }

  // ---- what must hold afterwards
  // The words of the orders are as they were when this returns: the rest of the firmware's memory must be.
  void judge_orders(Order before) {
    const Outcome outcome = request().outcome;
    const Order after = orders().order;
    const bool asked = before == Order::Ask || before == Order::Asked;
    require(outcome != Outcome::Ask || asked, "the array asks when it was told to");
    require(outcome != Outcome::MemoryError || before == Order::FailOne, "memory fails when it was told to");
    require((orders().failed != 0) == (outcome == Outcome::MemoryError), "memory that failed is told");
    require(orders().failed - MemoryBuilder::kFirst < kMemoryPages * kPage || orders().failed == 0,
            "memory that failed is the card's");
    require(after == before || (asked && after == Order::Asked) || (!asked && after == Order::Ask),
            "an order is carried out once");
    std::memcpy(&orders(), &before_[context_ + kOrdersAt - MemoryBuilder::kFirst], sizeof(wire::array::Orders));
  }
  void judge() {
    const Request answered = request();
    require(answered.outcome != Outcome::None, "a request that lies in the launch's scratchpad is answered");
    require(answered.outcome <= Outcome::MemoryError, "the outcome is one of the contract's");
    if (answered.outcome == Outcome::Done) {
      require(answered.done > 0 && answered.done <= wire::array::kMaxLineSticks, "a request is bounded");
      for (std::uint64_t page = 0; page < kMemoryPages; ++page) require_same(page * kPage, kPage, writable_[page]);
      return;
    }
    const std::uint64_t answer = scratchpad_ - MemoryBuilder::kFirst + offsetof(Request, outcome);
    const std::uint64_t behind = answer + offsetof(Request, reserved1) - offsetof(Request, outcome);
    require_same(0, answer, false);
    require_same(behind, kMemoryPages * kPage - behind, false);
    if (answered.outcome == Outcome::Missing) require(is_missing(answered), "what is said to be missing is missing");
  }
  void require_same(std::uint64_t first, std::uint64_t bytes, bool may_change) {
    const bool same = std::memcmp(&before_[first], memory_.at(MemoryBuilder::kFirst + first), bytes) == 0;
    require(same || may_change, "what the launch may not write, or asked for in vain, is as it was");
  }
  bool is_missing(const Request& answered) const {
    const bool writes = answered.operand == wire::array::kOutput;
    const std::uint64_t address = answered.address;
    if (address / kPage == kScratchpad / kPage) return false;
    if (address >= kTableAt && address < kTableAt + kTablePages * kPage) return writes;
    if (address < kWindow || address >= kWindow + kPages * kPage) return true;
    const std::uint64_t page = (address - kWindow) / kPage;
    return writes ? !may_write_[page] : !readable_[page];
  }

  Input& input_;
  MemoryBuilder memory_{kMemoryPages * kPage};
  svp::array::ComputeArray array_;
  std::uint64_t hello_ = 0, locals_ = 0, context_ = 0, scratchpad_ = 0;
  std::array<bool, kMemoryPages> writable_{};
  std::array<bool, kPages> readable_{}, may_write_{};
  std::vector<std::byte> before_;
  bool damaged_ = false;  // an entry of the page tables, or another word of the memory, is not what it should be
};

}  // namespace

void fuzz::run(Input input) {
  constexpr unsigned kMostRequests = 8;
  Card card(input);
  for (unsigned i = 0; i < kMostRequests && !input.empty(); ++i) card.ask();
}
