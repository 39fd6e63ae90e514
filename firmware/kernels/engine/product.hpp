// SPDX-License-Identifier: Apache-2.0
// What MatMul and MatMulFp8 share: the roles of the dimensions of a matrix product, and its blocks, which the cores
// claim.
#pragma once

#include "firmware/kernels/engine/axes.hpp"
#include "firmware/kernels/matmul/block_product.hpp"
#include "firmware/kernels/sdk.hpp"

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
  matmul::Blocks blocks(problem.m, problem.columns(), roles.batches.total(), work.cores, problem.most_rows());
  Claims claims(work.cores);
  while (blocks.go_to(claims.next())) {
    problem.begin_batch(blocks.batch());
    matmul::Block(problem, memory, blocks.rows(), blocks.sticks()).run();
  }
}

}  // namespace kernel::engine
