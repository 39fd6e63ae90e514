// SPDX-License-Identifier: Apache-2.0
// Random device programs through driver, firmware and engine, every byte of their arguments against the golden model.
#include <random>

#include "host_driver/program/golden/golden.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/support/device_programs.hpp"

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
      const test::RandomProgram made =
          test::random_program(random_, {.opcodes = {opcode}, .formats = {}, .operations = 1, .positions = 2000});
      const auto arguments = place(made);
      stream().Launch(load(made), arguments, {.budget_slices = kBudget});
      expect_results(arguments, golden(made), made.text);
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

}  // namespace
}  // namespace svp
