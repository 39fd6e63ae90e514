// SPDX-License-Identifier: Apache-2.0
// What MatMul and MatMulFp8 share: the roles of the dimensions of a matrix product, and its blocks, of which the cores
// take turns.
#pragma once

#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/matmul/block_product.hpp"

namespace kernel::engine {

enum ProductOperand : unsigned { kLeft, kRight, kOut };

//   k     the reduced dimension
//   n     the stick dimension of the output; without one, the longest dimension that left does not have
//   rows  all that right does not have, taken as one
//   the others are batches: one product for each combination
struct Roles {
  unsigned k;
  unsigned n;  // program::kMaxRank: there is none
  Combinations rows;
  Combinations batches;
  bool can_execute;
};
Roles roles_of(const Work& work, const Axes& axes);

// `problem` is what matmul::Block asks for, with begin_batch() and most_rows().
template <typename Problem>
void execute_product(const Work& work, const Roles& roles, Problem& problem, matmul::BlockMemory& memory) {
  const std::uint64_t batches = roles.batches.total();
  const matmul::Grid grid(problem.m, problem.columns(), batches, work.cores, problem.most_rows());
  for (std::uint64_t i = work.core; i < grid.blocks() * batches; i += work.cores) {
    problem.begin_batch(i / grid.blocks());
    const std::uint64_t block = i % grid.blocks();
    matmul::Block(problem, memory, grid.rows_of(block), grid.sticks_of(block)).run();
  }
}

}  // namespace kernel::engine
