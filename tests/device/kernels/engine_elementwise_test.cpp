// SPDX-License-Identifier: Apache-2.0
// Element-wise operations of the engine: formats, layouts, broadcast, masks, splits, numbers of cores.
#include <gtest/gtest.h>

#include "tests/device/kernels/engine_fixture.hpp"

namespace kernel_test {
namespace {

using program::Access;
using program::Format;
using program::Opcode;

class EngineElementwise : public EngineTest {
 protected:
  Random random_{20261124};
};

TEST_F(EngineElementwise, AddAndCopyOfAMatrixEqualTheHost) {
  for (const Opcode opcode : {Opcode::Copy, Opcode::Add}) {
    Program made;
    program::Operation operation = operation_of(opcode, {37, 200});
    const Layout layout{.stick_dim = 1, .order = {0, 1}};
    if (opcode == Opcode::Add) add_argument(made, operation, layout, Access::Read, random_);
    add_argument(made, operation, layout, Access::Read, random_);
    add_argument(made, operation, layout, Access::Write, random_);
    made.operations.push_back(operation);
    expect_as_on_host(made, random_arguments(made, random_));
  }
}

// Contents: codes of any kind, many of them special.
void use_special_codes(std::vector<Bytes>& arguments, Format format, Random& random) {
  const std::uint32_t codes16[] = {0x0000, 0x8000, 0x7FFF, 0xFFFF, 0x7FFE, 0xFFFE, 0x0001, 0x8001, 0x3E00, 0xBE00};
  const std::uint32_t codes32[] = {0x00000000, 0x80000000, 0x7FC00000, 0xFFC00001, 0x7F800000, 0xFF800000,
                                   0x00000001, 0x80000001, 0x3F800000, 0xBF800000, 0x007FFFFF, 0x7F7FFFFF};
  const std::size_t item = program::item_bytes(format);
  for (Bytes& argument : arguments) {
    for (std::size_t at = 0; at < argument.size(); at += item) {
      if (random() % 4 != 0) continue;
      const std::uint32_t code =
          item == 4 ? codes32[random() % std::size(codes32)] : codes16[random() % std::size(codes16)];
      std::memcpy(argument.data() + at, &code, item);
    }
  }
}

struct Kind {
  Opcode opcode;
  unsigned inputs;
};
constexpr Kind kNumeric[] = {
    {Opcode::Add, 2},     {Opcode::Sub, 2},          {Opcode::Mul, 2},   {Opcode::Div, 2},
    {Opcode::Maximum, 2}, {Opcode::Minimum, 2},      {Opcode::Equal, 2}, {Opcode::NotEqual, 2},
    {Opcode::Greater, 2}, {Opcode::GreaterEqual, 2}, {Opcode::Less, 2},  {Opcode::LessEqual, 2},
    {Opcode::Where, 3},   {Opcode::Abs, 1},          {Opcode::Neg, 1},   {Opcode::Relu, 1},
    {Opcode::Clip, 1},    {Opcode::Floor, 1},        {Opcode::Copy, 1},
};

TEST_F(EngineElementwise, RandomOperationsEqualTheHost) {
  for (const Kind& kind : kNumeric) {
    for (const Format format : {Format::Dl16, Format::Fp32}) {
      for (int i = 0; i < 40 && !HasFailure(); ++i) {
        SCOPED_TRACE(testing::Message() << "opcode " << static_cast<int>(kind.opcode) << ", format "
                                        << static_cast<int>(format) << ", program " << i);
        const Program made = random_elementwise({kind.opcode, kind.inputs, format, format}, random_);
        std::vector<Bytes> arguments = random_arguments(made, random_);
        use_special_codes(arguments, format, random_);
        expect_as_on_host(made, std::move(arguments), 1 + below(random_, 4));
      }
    }
  }
}

}  // namespace
}  // namespace kernel_test
