// SPDX-License-Identifier: Apache-2.0
// Random device programs through driver, firmware and engine, every byte of their arguments against the golden model.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "host_driver/program/golden/golden.hpp"
#include "shared/array.hpp"
#include "shared/dl16.hpp"
#include "tests/device/kernels/engine_programs.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/support/device_programs.hpp"
#include "tests/support/program_builder.hpp"

namespace svp {
namespace {

class ProgramsGolden : public test::ProgramCard {
 protected:
  using Contents = std::vector<Bytes>;
  // What a card gives a launch when nobody says otherwise; that of these tests is for kernels that hang.
  static constexpr std::uint64_t kBudget = 10'000;

  void SetUp() override {
    seed_ = test::program_seed();
    random_.seed(seed_);
  }
  test::RandomProgram make(std::uint64_t positions) {
    return test::random_program(random_, {.opcodes = test::all_opcodes(),
                                          .formats = {},
                                          .operations = 4,
                                          .positions = positions,
                                          .loops = true,
                                          .workspace = true});
  }
  static Contents golden(const test::RandomProgram& made) {
    Contents contents = made.arguments;
    const std::vector<std::span<std::byte>> spans(contents.begin(), contents.end());
    program::golden::run(made.program, spans);
    return contents;
  }
  static Job load(const test::RandomProgram& made) {
    return ProgramCard::load(std::make_shared<const DeviceProgram>("random", made.program));
  }
  std::vector<Argument> place(const test::RandomProgram& made) {
    std::vector<Argument> arguments;
    arguments.reserve(made.arguments.size());
    for (const Bytes& content : made.arguments) {
      arguments.push_back(Argument::raw(content.empty() ? room(wire::kStickBytes) : holding(content)));
    }
    return arguments;
  }
  void expect_results(const std::vector<Argument>& arguments, const Contents& expected, const std::string& text,
                      FlexStream& on = stream()) {
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      if (expected[i].empty()) continue;
      EXPECT_TRUE(content_of(arguments[i].allocation, expected[i].size(), on) == expected[i])
          << "argument " << i << " of " << text << ", SPYRE_SEED=" << seed_;
    }
  }

  std::uint64_t seed_ = 0;
  std::mt19937_64 random_;
};

// The table of opcodes is what the engine executes: none is left out, and none is refused as unsupported.
TEST_F(ProgramsGolden, EveryOperationOfTheTableIsExecuted) {
  for (const wire::program::Opcode opcode : test::all_opcodes()) {
    for (int i = 0; i < 2; ++i) {
      const test::RandomProgram made = test::random_program(
          random_, {.opcodes = {opcode}, .formats = {}, .operations = 1, .positions = 2000, .workspace = i != 0});
      const auto arguments = place(made);
      stream().Launch(load(made), arguments, {.budget_slices = kBudget});
      expect_results(arguments, golden(made), made.text);
    }
  }
}

// Four rows by their indices into a scratchpad whose output has parts along the rows, which it lacks: each row goes
// into both slices. What both hold then is the result.
test::RandomProgram scatter_into_copies() {
  using namespace wire::program;
  constexpr std::uint32_t kPages[] = {2, 0, 3, 1};
  test::ProgramBuilder builder;
  test::RandomProgram made;
  for (const std::size_t sticks : {4U, 4U, 16U}) made.arguments.emplace_back(sticks * wire::kStickBytes);
  for (std::size_t row = 0; row < 4; ++row) {
    std::memcpy(&made.arguments[0][row * wire::kStickBytes], &kPages[row], sizeof kPages[row]);
    std::fill_n(&made.arguments[1][row * wire::kStickBytes], wire::kStickBytes, static_cast<std::byte>(0x31 + row));
  }
  for (std::size_t i = 0; i < 3; ++i) {
    builder.add_argument(made.arguments[i].size(), i == 2 ? Access::Write : Access::Read);
  }
  builder.slices = 2;
  builder.scratchpad_bytes = 4 * wire::kStickBytes;
  const auto operand = [](Format format, std::initializer_list<std::uint32_t> extent,
                          std::initializer_list<unsigned> order, std::uint8_t stick_dim) {
    return test::dense_operand(format, std::span(extent.begin(), extent.size()), std::span(order.begin(), order.size()),
                               stick_dim);
  };
  const auto in_slices = [](Operand it) {
    it.base = Base::Scratchpad;
    it.argument = 0;
    it.split[0] = 2;
    it.split_stride[0] = 1;
    return it;
  };
  Operation scatter = test::operation_of(Opcode::Scatter, {4, 64});
  scatter.operand_count = 3;
  scatter.page = wire::kStickBytes;
  scatter.operand[0] = operand(Format::Uint32, {4, 64}, {0}, kNoDimension);
  scatter.operand[1] = operand(Format::Dl16, {4, 64}, {1, 0}, 1);
  scatter.operand[2] = in_slices(operand(Format::Dl16, {4, 64}, {1}, 1));
  Operation copy = test::operation_of(Opcode::Copy, {4, 64, 4});
  copy.operand_count = 2;
  copy.operand[0] = in_slices(operand(Format::Dl16, {4, 64, 4}, {1, 2}, 1));
  copy.operand[1] = operand(Format::Dl16, {4, 64, 4}, {1, 2, 0}, 1);
  for (std::uint8_t i = 0; i < 2; ++i) {
    scatter.operand[i].base = Base::Argument;
    scatter.operand[i].argument = i;
  }
  copy.operand[1].base = Base::Argument;
  copy.operand[1].argument = 2;
  builder.add(scatter);
  builder.add(copy);
  made.program = builder.build();
  return made;
}

TEST_F(ProgramsGolden, AScatterWritesAllCopiesOfItsOutput) {
  const test::RandomProgram made = scatter_into_copies();
  const Contents expected = golden(made);
  constexpr std::size_t kRowOfPage[] = {1, 3, 0, 2};
  for (std::size_t stick = 0; stick < 16; ++stick) {
    EXPECT_EQ(expected[2][stick * wire::kStickBytes], static_cast<std::byte>(0x31 + kRowOfPage[stick % 4])) << stick;
  }
  const auto arguments = place(made);
  stream().Launch(load(made), arguments, {.budget_slices = kBudget});
  expect_results(arguments, expected, "a scatter into copies");
}

// ---- matrix products ------------------------------------------------------------------------------------------------

// Of DL16 numbers with up to `binades` exponents, zeros among them.
struct Product {
  const char* name;
  std::uint32_t rows, columns, depth;
  unsigned binades;
};

test::RandomProgram product_of(const Product& product, std::mt19937_64& random) {
  using namespace wire::program;
  enum : std::uint8_t { kRow, kColumn, kDepth };
  kernel_test::OneOperation made(Opcode::MatMul, {product.rows, product.columns, product.depth});
  made.operation.reduced = 1 << kDepth;
  made.add(Format::Dl16, {kRow, kDepth}, kDepth, Access::Read);
  made.add(Format::Dl16, {kDepth, kColumn}, kColumn, Access::Read);
  made.add(Format::Dl16, {kRow, kColumn}, kColumn, Access::Write);
  for (std::size_t operand = 0; operand < 2; ++operand) {
    auto* const codes = reinterpret_cast<wire::Dl16*>(made.arguments[operand].data());
    for (std::size_t i = 0; i < made.arguments[operand].size() / sizeof *codes; ++i) {
      const auto exponent = static_cast<unsigned>(31 - product.binades / 2 + random() % product.binades);
      codes[i] = random() % 8 == 0 ? 0 : static_cast<wire::Dl16>((random() & 0x81FF) | exponent << 9);
    }
  }
  return {.program = made.program(), .entries = {}, .arguments = made.arguments, .header = {}, .text = product.name};
}

// With few rows the array gets many chunks at a time; the last one, and what is behind a bound, are others.
TEST_F(ProgramsGolden, ProductsEqualGolden) {
  constexpr Product kProducts[] = {{"one row", 1, 70, 200, 12},
                                   {"one row, as deep as a request", 1, 64, wire::array::kMaxFewDepth, 12},
                                   {"one row, deeper", 1, 130, 2 * wire::array::kMaxFewDepth + 65, 12},
                                   {"two rows", 2, 64, 600, 10},
                                   {"three rows", 3, 65, 129, 10},
                                   {"four rows", 4, 640, 700, 10},
                                   {"one row more", 5, 70, 600, 10},
                                   {"few rows, exponents far apart", 3, 70, 300, 40},
                                   {"few rows, all exponents", 4, 70, 600, 62}};
  for (const Product& product : kProducts) {
    const test::RandomProgram made = product_of(product, random_);
    const auto arguments = place(made);
    stream().Launch(load(made), arguments, {.budget_slices = kBudget});
    expect_results(arguments, golden(made), made.text);
  }
}

// The array ends in front of such a chunk, the engine executes it, and the array goes on.
TEST_F(ProgramsGolden, ProductsWhoseOperandsAreNotAllNumbersEqualGolden) {
  constexpr wire::Dl16 kNoNumbers[] = {wire::kDl16Nan, wire::kDl16Infinity, 0xFFFF, 1};  // 1: the smallest exponent
  for (const wire::Dl16 code : kNoNumbers) {
    for (const std::size_t operand : {0, 1}) {
      test::RandomProgram made = product_of({"with one such code", 3, 70, 700, 10}, random_);
      // Number 300 of row 1, or of column 7.
      constexpr std::size_t kStick = wire::kStickBytes, kCode = sizeof(wire::Dl16), kAt = 300;
      const std::size_t at = operand == 0 ? (kAt / 64 * 3 + 1) * kStick + kAt % 64 * kCode : kAt * kStick + 7 * kCode;
      std::memcpy(&made.arguments[operand][at], &code, sizeof code);
      const auto arguments = place(made);
      stream().Launch(load(made), arguments, {.budget_slices = kBudget});
      expect_results(arguments, golden(made), fmt::format("{}: {:04x} in {}", made.text, code, operand));
    }
  }
}

// The engine keeps some programs as checked. More of them than it keeps, small and large ones, in turn.
TEST_F(ProgramsGolden, ManyProgramsInTurnComputeTheSameBytes) {
  struct Loaded {
    test::RandomProgram made;
    Job job;
    Contents expected;
  };
  std::vector<Loaded> programs;
  for (int i = 0; i < 80; ++i) {
    const bool small = i % 8 != 0;
    test::RandomProgram made = test::random_program(random_, {.opcodes = test::all_opcodes(),
                                                              .formats = {},
                                                              .operations = small ? 3U : 12U,
                                                              .positions = 500,
                                                              .loops = true,
                                                              .workspace = true});
    Job job = load(made);
    Contents expected = golden(made);
    programs.push_back({std::move(made), std::move(job), std::move(expected)});
  }
  for (int round = 0; round < 3; ++round) {
    std::ranges::shuffle(programs, random_);
    for (const Loaded& each : programs) {
      const auto arguments = place(each.made);
      stream().Launch(each.job, arguments, {.budget_slices = kBudget});
      expect_results(arguments, each.expected, each.made.text);
    }
  }
}

TEST_F(ProgramsGolden, OneCoreAndAllCoresComputeTheSameBytes) {
  for (int i = 0; i < 16; ++i) {
    const test::RandomProgram made = make(i % 4 == 0 ? 50'000 : 4096);
    const Job job = load(made);
    const Contents expected = golden(made);
    for (const std::uint64_t cores : {std::uint64_t{1}, context().runtime().launch_site(0).all_cores}) {
      const auto arguments = place(made);
      stream().Launch(job, arguments, {.core_mask = cores, .budget_slices = kBudget});
      expect_results(arguments, expected, made.text);
    }
  }
}

TEST_F(ProgramsGolden, TwoStreamsAtOnceComputeTheSameBytes) {
  FlexStream& other = context().runtime().next_stream(StreamPriority::Low);
  for (int i = 0; i < 8; ++i) {
    const test::RandomProgram one = make(8'000), two = make(8'000);
    const Job first = load(one), second = load(two);
    const auto of_one = place(one), of_two = place(two), same = place(one);
    stream().Launch(first, of_one, {.budget_slices = kBudget});
    other.Launch(second, of_two, {.budget_slices = kBudget});
    other.Launch(first, same, {.budget_slices = kBudget});
    expect_results(of_one, golden(one), one.text);
    expect_results(of_two, golden(two), two.text, other);
    expect_results(same, golden(one), one.text, other);
  }
}

// A card with more cores than the host of these tests has: they compute in turn, and wait for each other behind each
// operation.
class ManyCores : public ProgramsGolden {
 public:
  static constexpr unsigned kCores = 32;

  static void SetUpTestSuite() {
    ContextOptions options;
    options.card.emplace().boot_arguments = "watchdog=200";
    options.card->cores = kCores;
    options.function = test::function_under_test();
    opened = Context::open(std::move(options));
  }
};

TEST_F(ManyCores, EachMaskComputesTheSameBytes) {
  constexpr std::uint64_t kMasks[] = {1, 7, 0xFF, 0xFFFF, 0xFFFF'FFFF};
  ASSERT_EQ(context().runtime().launch_site(0).all_cores, kMasks[4]);
  for (int i = 0; i < 4; ++i) {
    const test::RandomProgram made = make(i == 0 ? 50'000 : 4096);
    const Job job = load(made);
    const Contents expected = golden(made);
    for (const std::uint64_t mask : kMasks) {
      SCOPED_TRACE(fmt::format("cores {:#x}", mask));
      const auto arguments = place(made);
      stream().Launch(job, arguments, {.core_mask = mask, .budget_slices = kBudget});
      expect_results(arguments, expected, made.text);
    }
  }
}

}  // namespace
}  // namespace svp
