// SPDX-License-Identifier: Apache-2.0
// Reductions of the engine against the golden model, bit for bit: along the stick and across sticks, both formats,
// masks, pads, layouts, numbers of cores.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <string>

#include "tests/device/kernels/engine_golden.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::kNoDimension;
using program::Opcode;

constexpr Opcode kReductions[] = {Opcode::Sum, Opcode::Mean, Opcode::Max, Opcode::Min, Opcode::Prod, Opcode::Exx2};

struct Case {
  std::vector<std::uint32_t> extents;
  unsigned reduced;
  std::uint8_t input_sticks;
  std::uint8_t output_sticks;
  std::vector<program::Mask> masks;
};

class EngineReductions : public EngineGoldenTest {
 protected:
  Program reduction(Opcode opcode, Format format, const Case& c) {
    Program made;
    program::Operation operation{};
    operation.opcode = opcode;
    operation.rank = static_cast<std::uint8_t>(c.extents.size());
    std::ranges::copy(c.extents, operation.extent);
    operation.reduced = static_cast<std::uint8_t>(1u << c.reduced);
    operation.mask_count = static_cast<std::uint8_t>(c.masks.size());
    std::ranges::copy(c.masks, operation.mask);
    if (opcode == Opcode::Mean || opcode == Opcode::Exx2) {
      operation.constant[0] = std::bit_cast<std::uint32_t>(1.0f / static_cast<float>(c.extents[c.reduced]));
    }
    Layout input{.format = format, .stick_dim = c.input_sticks, .order = {}, .gap = 1};
    Layout output{.format = format, .stick_dim = c.output_sticks, .order = {}};
    for (unsigned d = 0; d < operation.rank; ++d) {
      input.order.push_back(d);
      if (d != c.reduced) output.order.push_back(d);
    }
    std::ranges::shuffle(input.order, random_);
    std::ranges::shuffle(output.order, random_);
    add_argument(made, operation, input, Access::Read, random_);
    add_argument(made, operation, output, Access::Write, random_);
    made.operations.push_back(operation);
    return made;
  }

  void expect_reduction(Opcode opcode, Format format, const Case& c, unsigned cores = 1, int low = 22, int high = 34) {
    SCOPED_TRACE("opcode " + std::to_string(static_cast<int>(opcode)) + ", format " +
                 std::to_string(static_cast<int>(format)) + ", " + std::to_string(c.extents.size()) +
                 " dimensions, reduced " + std::to_string(c.extents[c.reduced]));
    const Program made = reduction(opcode, format, c);
    expect_golden(made, filled_arguments(made, low, high), cores);
    expect_golden(made, random_arguments(made), cores);
  }

  void expect_all(const Case& c, unsigned cores = 1) {
    for (const Opcode opcode : kReductions) {
      for (const Format format : {Format::Dl16, Format::Fp32}) {
        if (opcode == Opcode::Exx2 && c.output_sticks != kNoDimension) continue;
        expect_reduction(opcode, format, c, cores);
      }
    }
  }
};

TEST_F(EngineReductions, AlongTheStickEqualsGolden) {
  for (const std::uint32_t extent : {1u, 31u, 64u, 65u, 1000u}) {
    expect_all({.extents = {37, extent}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {}});
  }
}

TEST_F(EngineReductions, AcrossSticksEqualsGolden) {
  for (const std::uint32_t extent : {1u, 63u, 64u, 300u}) {
    expect_all({.extents = {extent, 100}, .reduced = 0, .input_sticks = 1, .output_sticks = 1, .masks = {}});
  }
}

TEST_F(EngineReductions, WithoutSticksEqualsGolden) {
  expect_all(
      {.extents = {70, 5}, .reduced = 0, .input_sticks = kNoDimension, .output_sticks = kNoDimension, .masks = {}});
}

TEST_F(EngineReductions, OfManyDimensionsEqualsGolden) {
  expect_all(
      {.extents = {3, 70, 2, 66, 2}, .reduced = 3, .input_sticks = 3, .output_sticks = kNoDimension, .masks = {}});
  expect_all({.extents = {3, 70, 2, 66, 2}, .reduced = 3, .input_sticks = 1, .output_sticks = 1, .masks = {}});
}

TEST_F(EngineReductions, MaskedPositionsTakeNoPart) {
  const std::vector<std::vector<program::Mask>> masks = {
      {{0, 0, 1}}, {{0, 190, 10}}, {{0, 3, 64}, {0, 60, 30}, {0, 128, 64}, {0, 199, 1}}, {{0, 0, 100}, {0, 100, 100}}};
  for (const std::vector<program::Mask>& mask : masks) {
    expect_all({.extents = {200, 20}, .reduced = 0, .input_sticks = 1, .output_sticks = 1, .masks = mask});
    expect_all({.extents = {200, 9}, .reduced = 0, .input_sticks = 0, .output_sticks = kNoDimension, .masks = mask});
  }
}

TEST_F(EngineReductions, AllCopiesOfAResultAreWritten) {
  for (const Opcode opcode : {Opcode::Sum, Opcode::Max, Opcode::Prod}) {
    Program made;
    made.header.slices = 4;
    made.header.scratchpad_bytes = 70 * wire::kStickBytes;
    program::Operation operation = operation_of(opcode, {64, 70});
    operation.reduced = 1;
    add_argument(made, operation, {.stick_dim = 0, .order = {1, 0}}, Access::Read, random_);
    Layout result{.order = {1}};
    result.split[0] = 4;
    result.split_stride[0] = 1;
    add_operand(operation, result);
    operation.operand[1].base = program::Base::Scratchpad;
    made.operations.push_back(operation);
    program::Operation copy = operation_of(Opcode::Copy, {4, 70});
    add_operand(copy, result);
    copy.operand[0].base = program::Base::Scratchpad;
    add_argument(made, copy, {.order = {0, 1}}, Access::Write, random_);
    made.operations.push_back(copy);
    SCOPED_TRACE(static_cast<int>(opcode));
    expect_golden(made, filled_arguments(made, 20, 40));
  }
}

TEST_F(EngineReductions, EveryExponentSpreadEqualsGolden) {
  const Case along{.extents = {35, 130}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {}};
  const Case across{.extents = {130, 70}, .reduced = 0, .input_sticks = 1, .output_sticks = 1, .masks = {}};
  for (int spread = 0; spread < 64; spread += 9) {
    const int low = static_cast<int>(random_() % static_cast<std::uint64_t>(64 - spread));
    for (const Opcode opcode : {Opcode::Sum, Opcode::Mean, Opcode::Exx2}) {
      expect_reduction(opcode, Format::Dl16, along, 1, low, low + spread);
      if (opcode != Opcode::Exx2) expect_reduction(opcode, Format::Dl16, across, 1, low, low + spread);
    }
  }
}

// Each number beside its negative, but for a small rest.
TEST_F(EngineReductions, CancellationEqualsGolden) {
  const Case along{.extents = {8, 128}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {}};
  for (const Opcode opcode : {Opcode::Sum, Opcode::Exx2}) {
    const Program made = reduction(opcode, Format::Dl16, along);
    std::vector<Bytes> arguments = filled_arguments(made, 5, 60);
    for (std::size_t at = 0; at + 4 <= arguments[0].size(); at += 4) {
      std::memcpy(&arguments[0][at + 2], &arguments[0][at], 2);
      arguments[0][at + 3] ^= std::byte{0x80};
    }
    expect_golden(made, arguments);
    const std::uint16_t rest = 0x0001;
    for (std::size_t at = 0; at < arguments[0].size(); at += 384) std::memcpy(&arguments[0][at], &rest, 2);
    expect_golden(made, arguments);
  }
}

TEST_F(EngineReductions, ExtremesOfTheFormatsEqualGolden) {
  const std::uint16_t codes[] = {0x0000, 0x8000, 0x0001, 0x8001, 0x7FFD, 0xFFFD, 0x7E00, 0xFE00, 0x3E00};
  const std::uint32_t words[] = {0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF,
                                 0x7F800000, 0xFF800000, 0x3F800000, 0x00800000, 0x7FC00000, 0xFFC12345};
  for (const Opcode opcode : kReductions) {
    for (const bool dl16 : {true, false}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(opcode)) + (dl16 ? " DL16" : " FP32"));
      const Program made =
          reduction(opcode, dl16 ? Format::Dl16 : Format::Fp32,
                    {.extents = {300, 4}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {}});
      std::vector<Bytes> arguments = random_arguments(made);
      for (std::size_t at = 0; at < arguments[0].size(); at += dl16 ? 2 : 4) {
        if (dl16) {
          std::memcpy(&arguments[0][at], &codes[random_() % std::size(codes)], 2);
        } else {
          std::memcpy(&arguments[0][at], &words[random_() % std::size(words)], 4);
        }
      }
      expect_golden(made, arguments);
    }
  }
}

// Lines with one infinity, with both, with a NaN, beside others without, along the stick and across sticks.
TEST_F(EngineReductions, InfinitiesAndNanEqualGolden) {
  const Case along{.extents = {67, 130}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {}};
  const Case across{.extents = {130, 70}, .reduced = 0, .input_sticks = 1, .output_sticks = 1, .masks = {}};
  const Case masked{
      .extents = {20, 130}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {{1, 3, 70}}};
  const std::uint16_t codes[] = {0x7FFF, 0xFFFF, 0x7FFE, 0xFFFE};
  const std::uint32_t words[] = {0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC12345};
  for (const Opcode opcode : kReductions) {
    for (const Case& one : {along, across, masked}) {
      for (const bool dl16 : {true, false}) {
        if (opcode == Opcode::Exx2 && one.output_sticks != kNoDimension) continue;
        SCOPED_TRACE(std::string(program::name(opcode)) + (dl16 ? " DL16" : " FP32"));
        const Program made = reduction(opcode, dl16 ? Format::Dl16 : Format::Fp32, one);
        for (const unsigned kinds : {1u, 2u, 4u}) {
          std::vector<Bytes> arguments = filled_arguments(made, 25, 35);
          const std::size_t item = dl16 ? 2 : 4;
          const std::size_t count = arguments[0].size() / item;
          for (std::size_t i = 0; i < count / 100; ++i) {
            const std::size_t at = random_() % count * item;
            const std::size_t which = kinds == 1 ? 1 : random_() % kinds;
            std::memcpy(&arguments[0][at], dl16 ? static_cast<const void*>(&codes[which]) : &words[which], item);
          }
          expect_golden(made, arguments);
          if (HasFailure()) return;
        }
      }
    }
  }
}

TEST_F(EngineReductions, ResultsDoNotDependOnTheNumberOfCores) {
  const Case along{.extents = {300, 70}, .reduced = 1, .input_sticks = 1, .output_sticks = kNoDimension, .masks = {}};
  const Case across{.extents = {70, 40, 64}, .reduced = 0, .input_sticks = 2, .output_sticks = 2, .masks = {}};
  expect_all(along, 3);
  expect_all(across, 3);
  expect_reduction(Opcode::Sum, Format::Dl16, along, 32);
  expect_reduction(Opcode::Max, Format::Dl16, across, 32);
}

TEST_F(EngineReductions, RandomProgramsEqualGolden) {
  expect_random(std::vector<Opcode>(std::begin(kReductions), std::end(kReductions)), 90);
}

}  // namespace
}  // namespace kernel_test
