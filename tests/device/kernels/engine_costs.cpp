// SPDX-License-Identifier: Apache-2.0
// engine_costs: what operations cost on the bare card, for the figures of the engine. Ticks are 100 ns; the best of a
// number of runs counts. Run by hand.
//
//   engine_costs [WORD]    fixed costs, and the operations whose names have the word in them
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>

#include "tests/device/kernels/bare_card.hpp"
#include "tests/device/kernels/engine_programs.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::Opcode;

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
  double launch(const Program& made) {
    const Bytes bytes = made.bytes();
    std::uint64_t offset = BareCard::kTensors;
    std::vector<wire::CorrectionSymbol> symbols;
    const auto place = [&](std::uint64_t size) {
      symbols.push_back(BareCard::address(static_cast<std::uint32_t>(symbols.size()), offset));
      offset += wire::align_up(size, wire::kStickBytes);
    };
    std::ranges::copy(bytes, card_.region().begin() + static_cast<std::ptrdiff_t>(offset));
    place(bytes.size());
    for (const program::Argument& argument : made.arguments) {
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

  void print(const char* name, const Program& made, std::uint64_t sticks) {
    if (std::strstr(name, word_) == nullptr) return;
    std::printf("%-34s %8.1f ns/stick\n", name, (launch(made) - empty_) / static_cast<double>(sticks));
  }

  void print_fixed_costs() {
    empty_ = launch(Program{});
    Program made;
    program::Operation operation = operation_of(Opcode::Copy, {64});
    add_argument(made, operation, {.stick_dim = 0, .order = {0}}, Access::Read, random_);
    add_argument(made, operation, {.stick_dim = 0, .order = {0}}, Access::Write, random_);
    made.operations.assign(1, operation);
    const double one = launch(made);
    made.operations.assign(401, operation);
    const double many = launch(made);
    std::printf("%-34s %8.0f ns\n%-34s %8.0f ns\n", "empty program", empty_, "one more operation of one stick",
                (many - one) / 400);
    made.operations.assign(3, operation);
    made.operations.front() = operation_of(Opcode::LoopBegin, {10000});
    made.operations.back() = operation_of(Opcode::LoopEnd, {});
    std::printf("%-34s %8.0f ns\n", "one more iteration of it", (launch(made) - one) / 10000);
  }

  void print_element_wise(const char* name, Opcode opcode, unsigned inputs, Format from, Format to,
                          std::uint8_t column_input = 0xFF) {
    Program made;
    program::Operation operation = operation_of(opcode, {kRows, kColumns * program::lanes_of(to)});
    for (unsigned i = 0; i < inputs; ++i) {
      const bool column = i == column_input;
      add_argument(made, operation,
                   {.format = from,
                    .stick_dim = column ? program::kNoDimension : std::uint8_t{1},
                    .order = column ? std::vector<unsigned>{0} : std::vector<unsigned>{0, 1}},
                   Access::Read, random_);
    }
    if (opcode >= Opcode::Exp && opcode <= Opcode::Softplus) {
      made.data.resize(program::kTableBytes);
      fill(made.data);
      program::Operand& table = operation.operand[operation.operand_count++];
      table.base = program::Base::Data;
      table.stick_dim = program::kNoDimension;
      std::ranges::fill(table.split, std::uint8_t{1});
    }
    add_argument(made, operation, {.format = to, .stick_dim = 1, .order = {0, 1}}, Access::Write, random_);
    made.operations.push_back(operation);
    print(name, made, kRows * kColumns);
  }

  void print_restickify(const char* name, Format format) {
    Program made;
    const std::uint32_t lanes = program::lanes_of(format);
    program::Operation operation = operation_of(Opcode::Restickify, {16 * lanes, 8 * lanes});
    add_argument(made, operation, {.format = format, .stick_dim = 1, .order = {0, 1}}, Access::Read, random_);
    add_argument(made, operation, {.format = format, .stick_dim = 0, .order = {1, 0}}, Access::Write, random_);
    made.operations.push_back(operation);
    print(name, made, 16 * 8 * lanes);
  }

 private:
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
  Random random_{1};
  double empty_ = 0;
};

void print_all(const char* word) {
  Costs costs(word);
  costs.print_fixed_costs();
  const auto dl16 = [&](const char* name, Opcode opcode, unsigned inputs, std::uint8_t column = 0xFF) {
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
