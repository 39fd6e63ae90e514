// SPDX-License-Identifier: Apache-2.0
// One product of the engine against the golden model: what the tests of MatMul and of MatMulFp8 share.
#pragma once

#include "tests/device/kernels/engine_golden.hpp"

namespace kernel_test {

// Dimensions: 0 rows, 1 columns, 2 inner, 3 and 4 batches.
enum Dimension : unsigned { kM, kN, kK, kBatch, kOuter };

struct ProductLayouts {
  Layout left;
  Layout right;
  Layout out;
};

class EngineProductTest : public EngineGoldenTest {
 protected:
  explicit EngineProductTest(program::Opcode opcode) : opcode_(opcode) {}

  Program product(std::initializer_list<std::uint32_t> extents, const ProductLayouts& layouts) {
    Program made;
    program::Operation operation = operation_of(opcode_, extents);
    operation.reduced = 1u << kK;
    add_argument(made, operation, layouts.left, program::Access::Read, random_);
    add_argument(made, operation, layouts.right, program::Access::Read, random_);
    add_argument(made, operation, layouts.out, program::Access::Write, random_);
    made.operations.push_back(operation);
    return made;
  }

  // Numbers with exponents low … high in all operands: the bytes of the output and between operands are numbers, too.
  void expect_product(std::initializer_list<std::uint32_t> extents, const ProductLayouts& layouts, unsigned cores,
                      int low, int high) {
    const Program made = product(extents, layouts);
    expect_golden(made, filled_arguments(made, low, high), cores);
  }

 private:
  program::Opcode opcode_;
};

}  // namespace kernel_test
