// SPDX-License-Identifier: Apache-2.0
// engine_costs: what operations cost on the bare card, for the figures of the engine. Ticks are 100 ns; the best of a
// number of runs counts. Run by hand.
//
//   engine_costs [WORD]    fixed costs, and the operations whose names have the word in them
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "tests/device/kernels/bare_card.hpp"
#include "tests/device/kernels/engine_programs.hpp"

namespace kernel_test {
namespace {

namespace program = wire::program;
using program::Access;
using program::Format;
using program::Opcode;
using Bytes = std::vector<std::byte>;

constexpr int kRuns = 7;
constexpr std::uint32_t kRows = 1024;
constexpr std::uint32_t kColumns = 8;  // sticks

std::string kernel_folder() {
  const char* other = std::getenv("SPYRE_KERNEL_DIR");
  return other != nullptr ? other : SPYRE_DEFAULT_KERNEL_DIR;
}

class Costs {
 public:
  explicit Costs(const char* word)
      : word_(word), card_(kernel_folder() + "/bare_card.elf"), image_(read_image(kernel_folder() + "/engine.img")) {}

  // Nanoseconds of a launch.
  double launch(const svp::test::ProgramBuilder& made) {
    const Bytes bytes = made.build();
    std::uint64_t offset = BareCard::kTensors;
    std::vector<wire::CorrectionSymbol> symbols;
    const auto place = [&](std::uint64_t size) {
      symbols.push_back(BareCard::address(static_cast<std::uint32_t>(symbols.size()), offset));
      offset += wire::align_up(size, wire::kStickBytes);
    };
    std::ranges::copy(bytes, card_.region().begin() + static_cast<std::ptrdiff_t>(offset));
    place(bytes.size());
    auto copy = made;
    for (const program::Argument& argument : copy.arguments()) {
      fill(card_.region().subspan(offset, argument.bytes));
      place(argument.bytes);
    }
    std::uint64_t best = ~std::uint64_t{0};
    for (int i = 0; i < kRuns; ++i) {
      const RunResult result = card_.run("engine", image_, symbols);
      if (!result.exited || result.status != 0) {
        std::fprintf(stderr, "status %lx, cause %lu\n", result.status, result.cause);
        std::exit(1);
      }
      best = std::min(best, result.ticks);
    }
    return static_cast<double>(best) * 100;
  }

  void print(const char* name, const OneOperation& made, std::uint64_t sticks) {
    if (std::strstr(name, word_) == nullptr) return;
    std::printf("%-34s %8.1f ns/stick\n", name, (launch(with(made, 1)) - empty_) / static_cast<double>(sticks));
  }

  void print_fixed_costs() {
    const auto empty = read_image(kernel_folder() + "/empty.img");
    std::uint64_t best = ~std::uint64_t{0};
    for (int i = 0; i < kRuns; ++i) best = std::min(best, card_.run("empty", empty, {}).ticks);
    std::printf("%-34s %8.0f ns\n", "empty kernel", static_cast<double>(best) * 100);
    empty_ = launch({});
    OneOperation made(Opcode::Copy, {64});
    made.add(Format::Dl16, {0}, 0, Access::Read);
    made.add(Format::Dl16, {0}, 0, Access::Write);
    const double one = launch(with(made, 1));
    const double many = launch(with(made, 401));
    svp::test::ProgramBuilder loop = made.builder;
    loop.begin_loop(10000);
    loop.add(made.operation);
    loop.end_loop();
    std::printf("%-34s %8.0f ns\n%-34s %8.0f ns\n", "empty program", empty_, "one more operation of one stick",
                (many - one) / 400);
    std::printf("%-34s %8.0f ns\n", "one more iteration of it", (launch(loop) - one) / 10000);
  }

  void print_element_wise(const char* name, Opcode opcode, unsigned inputs, Format from, Format to,
                          unsigned column_input = ~0u) {
    OneOperation made(opcode, {kRows, kColumns * program::lanes_of(to)});
    for (unsigned i = 0; i < inputs; ++i) {
      if (i == column_input) {
        made.add(from, {0}, program::kNoDimension, Access::Read);
      } else {
        made.add(from, {0, 1}, 1, Access::Read);
      }
    }
    if (opcode >= Opcode::Exp && opcode <= Opcode::Softplus) made.add_table(svp::program::function_table(opcode));
    made.add(to, {0, 1}, 1, Access::Write);
    print(name, made, kRows * kColumns);
  }

  void print_restickify(const char* name, Format format) {
    const std::uint32_t lanes = program::lanes_of(format);
    OneOperation made(Opcode::Restickify, {16 * lanes, 8 * lanes});
    made.add(format, {0, 1}, 1, Access::Read);
    made.add(format, {1, 0}, 0, Access::Write);
    print(name, made, std::uint64_t{16 * 8} * lanes);
  }

 private:
  static svp::test::ProgramBuilder with(const OneOperation& made, int times) {
    svp::test::ProgramBuilder builder = made.builder;
    for (int i = 0; i < times; ++i) builder.add(made.operation);
    return builder;
  }

  // fp32 numbers, or DL16 ones, of moderate size.
  void fill(std::span<std::byte> bytes) {
    for (std::size_t at = 0; at < bytes.size(); at += 2) {
      const auto code = static_cast<std::uint16_t>((random_() & 0x83FF) | 0x3C00);
      std::memcpy(&bytes[at], &code, sizeof code);
    }
  }

  const char* word_;
  BareCard card_;
  std::vector<std::byte> image_;
  std::mt19937_64 random_{1};
  double empty_ = 0;
};

void print_all(const char* word) {
  Costs costs(word);
  costs.print_fixed_costs();
  const auto dl16 = [&](const char* name, Opcode opcode, unsigned inputs, unsigned column = ~0u) {
    costs.print_element_wise(name, opcode, inputs, Format::Dl16, Format::Dl16, column);
  };
  const auto fp32 = [&](const char* name, Opcode opcode, unsigned inputs) {
    costs.print_element_wise(name, opcode, inputs, Format::Fp32, Format::Fp32);
  };
  dl16("Copy", Opcode::Copy, 1);
  dl16("Add", Opcode::Add, 2);
  dl16("Add of a column", Opcode::Add, 2, 1);
  dl16("Mul", Opcode::Mul, 2);
  dl16("Div", Opcode::Div, 2);
  dl16("Maximum", Opcode::Maximum, 2);
  dl16("Less", Opcode::Less, 2);
  dl16("Where", Opcode::Where, 3);
  dl16("Relu", Opcode::Relu, 1);
  dl16("Clip", Opcode::Clip, 1);
  dl16("Floor", Opcode::Floor, 1);
  dl16("Exp by table", Opcode::Exp, 1);
  fp32("Add fp32", Opcode::Add, 2);
  fp32("Mul fp32", Opcode::Mul, 2);
  fp32("Div fp32", Opcode::Div, 2);
  fp32("Maximum fp32", Opcode::Maximum, 2);
  costs.print_element_wise("DL16 to fp32, for each fp32 stick", Opcode::Copy, 1, Format::Dl16, Format::Fp32);
  costs.print_element_wise("fp32 to DL16", Opcode::Copy, 1, Format::Fp32, Format::Dl16);
  costs.print_element_wise("int32 to fp32", Opcode::Copy, 1, Format::Int32, Format::Fp32);
  costs.print_element_wise("DL16 to fp8, for each fp8 stick", Opcode::Copy, 1, Format::Dl16, Format::Fp8E4m3);
  costs.print_element_wise("Dl16ToFp8, for each fp8 stick", Opcode::Dl16ToFp8, 1, Format::Dl16, Format::Fp8E4m3);
  costs.print_element_wise("Fp8ToDl16", Opcode::Fp8ToDl16, 1, Format::Fp8E4m3, Format::Dl16);
  costs.print_restickify("Restickify 64x64 of DL16", Format::Dl16);
  costs.print_restickify("Restickify 32x32 of fp32", Format::Fp32);
  costs.print_restickify("Restickify 128x128 of int8", Format::Int8);
}

}  // namespace
}  // namespace kernel_test

int main(int count, char** arguments) {
  kernel_test::print_all(count > 1 ? arguments[1] : "");
  return 0;
}
