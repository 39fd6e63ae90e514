// SPDX-License-Identifier: Apache-2.0
// engine_family_costs: what reductions, layer norm, top k, gather and MatMul cost on the bare card, with numbers of a
// normal distribution; MatMul beside the matrix kernel, in alternation. Ticks are 100 ns; the median of the runs
// counts. Run by hand.
//
//   engine_family_costs [WORD [RUNS]]    the operations whose names have the word in them; 7 runs each
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include "host_driver/tensor/number_format.hpp"
#include "shared/dl16.hpp"
#include "tests/device/kernels/bare_card.hpp"
#include "tests/device/kernels/engine_layouts.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::kNoDimension;
using program::Opcode;

constexpr std::uint32_t kRows = 128;
constexpr std::uint32_t kSticks = 16;  // of a row

std::string kernel_folder() {
  const char* other = std::getenv("SPYRE_KERNEL_DIR");
  return other != nullptr ? other : SPYRE_DEFAULT_KERNEL_DIR;
}

class Costs {
 public:
  Costs(const char* word, std::size_t runs) : word_(word), runs_(runs), card_(kernel_folder() + "/bare_card.elf") {}

  bool wants(const char* name) const { return std::strstr(name, word_) != nullptr; }

  void add(Program& made, program::Operation& operation, const Layout& layout, Access access) {
    add_argument(made, operation, layout, access, random_);
  }

  void print(const char* name, const Program& made, std::uint64_t sticks) {
    if (!wants(name)) return;
    const auto symbols = place(made);
    std::vector<double> times(runs_);
    for (double& time : times) time = run("engine", symbols);
    std::ranges::sort(times);
    std::printf("%-34s %8.1f ns/stick  (best %.1f, worst %.1f)\n", name, times[runs_ / 2] / static_cast<double>(sticks),
                times.front() / static_cast<double>(sticks), times.back() / static_cast<double>(sticks));
  }

  // In alternation with MatMul on DL16. `deviation` of the FP8 numbers says how far their
  // exponents spread.
  void print_matmul_fp8(std::uint32_t m, std::uint32_t n, std::uint32_t k, float deviation) {
    if (!wants("MatMulFp8")) return;
    const auto product = [&](Opcode opcode, const Layout& left, const Layout& right) {
      Program made;
      program::Operation operation = operation_of(opcode, {m, n, k});
      operation.reduced = 4;
      add(made, operation, left, Access::Read);
      add(made, operation, right, Access::Read);
      add(made, operation, {.stick_dim = 1, .order = {0, 1}}, Access::Write);
      made.operations.push_back(operation);
      return made;
    };
    const Program dl16 = product(Opcode::MatMul, {.stick_dim = 2, .order = {0, 2}}, {.stick_dim = 1, .order = {2, 1}});
    const Program fp8 = product(Opcode::MatMulFp8, {.format = Format::Fp8E4m3, .stick_dim = 2, .order = {0, 2}},
                                {.format = Format::Fp8E4m3, .stick_dim = 1, .order = {2, 1}, .alternates = 2});
    std::vector<double> of_dl16(runs_);
    std::vector<double> of_fp8(runs_);
    for (std::size_t i = 0; i < runs_; ++i) {
      of_dl16[i] = run("engine", place(dl16));
      of_fp8[i] = run("engine", place(fp8, deviation));
    }
    std::ranges::sort(of_dl16);
    std::ranges::sort(of_fp8);
    const double macs = static_cast<double>(m) * n * k;
    std::printf("MatMulFp8 %ux%ux%u, deviation %g: %.2f GMAC/s, MatMul %.2f GMAC/s (best %.2f, %.2f)\n", m, n, k,
                static_cast<double>(deviation), macs / of_fp8[runs_ / 2], macs / of_dl16[runs_ / 2],
                macs / of_fp8.front(), macs / of_dl16.front());
  }

  void print_matmul(std::uint32_t m, std::uint32_t n, std::uint32_t k) {
    if (!wants("MatMul")) return;
    Program made;
    program::Operation operation = operation_of(Opcode::MatMul, {m, n, k});
    operation.reduced = 4;
    add(made, operation, {.stick_dim = 2, .order = {0, 2}}, Access::Read);
    add(made, operation, {.stick_dim = 1, .order = {2, 1}}, Access::Read);
    add(made, operation, {.stick_dim = 1, .order = {0, 1}}, Access::Write);
    made.operations.push_back(operation);
    const auto symbols = place(made);
    const auto at = [&](unsigned i) { return symbols[i + 1].value + operation.operand[i].offset; };
    const wire::CorrectionSymbol of_kernel[] = {BareCard::address(0, at(0)),
                                                BareCard::stride(0, m * 128),
                                                BareCard::address(1, at(1)),
                                                BareCard::stride(1, k * 128),
                                                BareCard::address(2, at(2)),
                                                BareCard::stride(2, m * 128),
                                                BareCard::dimension(0, m),
                                                BareCard::dimension(1, n),
                                                BareCard::dimension(0, k),
                                                BareCard::partials(2, 0),
                                                BareCard::pass(2, wire::kPassFirst | wire::kPassLast)};
    std::vector<double> engine(runs_);
    std::vector<double> kernel(runs_);
    for (std::size_t i = 0; i < runs_; ++i) {
      engine[i] = run("engine", symbols);
      kernel[i] = run("matmul", of_kernel);
    }
    std::ranges::sort(engine);
    std::ranges::sort(kernel);
    const double macs = static_cast<double>(m) * n * k;
    std::printf("MatMul %ux%ux%u: engine %.2f GMAC/s, matrix kernel %.2f GMAC/s (best %.2f, %.2f)\n", m, n, k,
                macs / engine[runs_ / 2], macs / kernel[runs_ / 2], macs / engine.front(), macs / kernel.front());
  }

 private:
  double run(const std::string& kernel, std::span<const wire::CorrectionSymbol> symbols) {
    const RunResult result = card_.run(kernel, read_image(kernel_folder() + "/" + kernel + ".img"), symbols);
    if (!result.exited || result.status != 0) {
      std::fprintf(stderr, "%s: status %lx, cause %lu\n", kernel.c_str(), result.status, result.cause);
      std::exit(1);
    }
    return static_cast<double>(result.ticks) * 100;
  }

  // Arguments hold numbers of a normal distribution, in the format of the first operation's operands.
  std::vector<wire::CorrectionSymbol> place(const Program& made, float deviation = 1) {
    const Bytes bytes = made.bytes();
    std::uint64_t offset = BareCard::kTensors;
    std::vector<wire::CorrectionSymbol> symbols;
    const auto next = [&](std::uint64_t size) {
      symbols.push_back(BareCard::address(static_cast<std::uint32_t>(symbols.size()), offset));
      offset += wire::align_up(size, wire::kStickBytes);
    };
    std::ranges::copy(bytes, card_.region().begin() + static_cast<std::ptrdiff_t>(offset));
    next(bytes.size());
    std::normal_distribution<float> normal;
    for (const program::Operand& operand : std::span(made.operations[0].operand).first(made.arguments.size())) {
      const std::uint64_t size = made.arguments[operand.argument].bytes;
      if (operand.format == Format::Fp8E4m3) {
        for (std::uint8_t& code : card_.tensor<std::uint8_t>(offset, size)) {
          code = static_cast<std::uint8_t>(svp::code_of(svp::NumberFormat::Fp8E4m3, deviation * normal(random_)));
        }
      } else {
        for (wire::Dl16& code : card_.tensor<wire::Dl16>(offset, size / 2)) {
          code = wire::dl16_from_fp32(normal(random_));
        }
      }
      next(size);
    }
    return symbols;
  }

  const char* word_;
  std::size_t runs_;
  BareCard card_;
  Random random_{1};
};

// Rows of sticks along dimension 1; reduced along `reduced`.
void print_reduction(Costs& costs, const char* name, Opcode opcode, Format format, unsigned reduced) {
  Program made;
  program::Operation operation = operation_of(opcode, {kRows, kSticks * program::lanes_of(format)});
  operation.reduced = static_cast<std::uint8_t>(1u << reduced);
  costs.add(made, operation, {.format = format, .stick_dim = 1, .order = {0, 1}}, Access::Read);
  const std::uint8_t output_sticks = reduced == 1 ? kNoDimension : std::uint8_t{1};
  costs.add(made, operation, {.format = format, .stick_dim = output_sticks, .order = {1 - reduced}}, Access::Write);
  made.operations.push_back(operation);
  costs.print(name, made, kRows * kSticks);
}

void print_layer_norm(Costs& costs, const char* name, Format format) {
  Program made;
  program::Operation operation = operation_of(Opcode::LayerNormNorm, {kRows, kSticks * program::lanes_of(format)});
  const Layout matrix{.format = format, .stick_dim = 1, .order = {0, 1}};
  const Layout of_rows{.format = format, .order = {0}};
  const Layout of_columns{.format = format, .stick_dim = 1, .order = {1}};
  for (const Layout& layout : {matrix, of_rows, of_rows, of_columns, of_columns}) {
    costs.add(made, operation, layout, Access::Read);
  }
  costs.add(made, operation, matrix, Access::Write);
  made.operations.push_back(operation);
  costs.print(name, made, kRows * kSticks);
}

void print_top_k(Costs& costs) {
  Program made;
  program::Operation operation = operation_of(Opcode::TopKValue, {4, 1024, 32});
  operation.reduced = 2;
  costs.add(made, operation, {.stick_dim = 1, .order = {0, 1}}, Access::Read);
  costs.add(made, operation, {.stick_dim = kNoDimension, .order = {0, 2}}, Access::Write);
  made.operations.push_back(operation);
  costs.print("TopKValue 32 of 1024", made, 4 * 16);
}

void print_all(const char* word, std::size_t runs) {
  Costs costs(word, runs);
  const std::pair<const char*, Opcode> reductions[] = {
      {"Sum", Opcode::Sum}, {"Max", Opcode::Max}, {"Prod", Opcode::Prod}, {"Exx2", Opcode::Exx2}};
  for (const auto& [name, opcode] : reductions) {
    for (const Format format : {Format::Dl16, Format::Fp32}) {
      const std::string of = name + std::string(format == Format::Dl16 ? "" : " fp32");
      print_reduction(costs, (of + " along the stick").c_str(), opcode, format, 1);
      if (opcode != Opcode::Exx2) print_reduction(costs, (of + " across sticks").c_str(), opcode, format, 0);
    }
  }
  print_layer_norm(costs, "LayerNormNorm", Format::Dl16);
  print_layer_norm(costs, "LayerNormNorm fp32", Format::Fp32);
  print_top_k(costs);
  for (const std::uint32_t rows : {1, 2, 4, 8, 12}) costs.print_matmul(rows, 512, 512);
  costs.print_matmul(16, 512, 512);
  costs.print_matmul(256, 256, 256);
  costs.print_matmul(512, 512, 512);
  for (const float deviation : {1.0F, 100.0F}) {
    for (const std::uint32_t rows : {1, 8, 16, 512}) costs.print_matmul_fp8(rows, 512, 512, deviation);
  }
}

}  // namespace
}  // namespace kernel_test

int main(int count, char** arguments) {
  kernel_test::print_all(count > 1 ? arguments[1] : "", count > 2 ? std::strtoul(arguments[2], nullptr, 10) : 7);
  return 0;
}
