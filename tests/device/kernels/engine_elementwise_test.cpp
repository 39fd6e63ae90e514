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

}  // namespace
}  // namespace kernel_test
