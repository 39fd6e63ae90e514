// SPDX-License-Identifier: Apache-2.0
// Random device programs through driver, firmware and engine, every byte of their arguments against the golden model.
#include <algorithm>
#include <random>

#include "host_driver/program/golden/golden.hpp"
#include "shared/device_program_opcodes.hpp"
#include "tests/device/runtime/program_card.hpp"
#include "tests/support/device_programs.hpp"

namespace svp {
namespace {

using wire::program::Opcode;

using wire::program::Family;
using wire::program::Format;

// What the engine executes up to now; all_opcodes() when that is all of them.
std::vector<Opcode> opcodes_of(std::initializer_list<Family> families) {
  std::vector<Opcode> opcodes;
  for (const Opcode opcode : test::all_opcodes()) {
    if (std::ranges::find(families, wire::program::find_opcode(opcode)->family) != families.end()) {
      opcodes.push_back(opcode);
    }
  }
  return opcodes;
}

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
    static const auto kAny = opcodes_of({Family::Copy, Family::Relayout, Family::Pointwise});
    static const auto kDl16 = opcodes_of({Family::Copy, Family::Relayout, Family::Pointwise, Family::Function});
    const bool functions = random_() % 2 == 0;  // by tables, which there are for DL16
    return test::random_program(random_, {.opcodes = functions ? kDl16 : kAny,
                                          .formats = functions ? std::vector{Format::Dl16} : std::vector<Format>{},
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
