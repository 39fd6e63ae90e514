// SPDX-License-Identifier: Apache-2.0
// A random matrix product and what its result must be.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace cli {

struct MatmulProblem {
  std::size_t m, n, k;
  std::vector<std::uint16_t> a;  // fp16 bits, row-major [m, k], uniform in [-1, 1)
  std::vector<std::uint16_t> b;  // [k, n]
};

// What run and check of such a problem need of this machine's memory, host and emulated card together, in bytes.
std::uint64_t memory_needed(std::uint64_t m, std::uint64_t n, std::uint64_t k);
// Throws svp::InvalidArgument with both numbers when that is more than `available`.
void require_memory(std::uint64_t m, std::uint64_t n, std::uint64_t k, std::uint64_t available);

MatmulProblem make_problem(std::size_t m, std::size_t n, std::size_t k, std::uint64_t seed);

struct MatmulCheck {
  std::size_t elements = 0;
  std::size_t mismatches = 0;         // against the golden model, bit for bit
  std::size_t beyond_bound = 0;       // against double precision
  double largest_error = 0;           // |result − double|, largest over all elements
  double largest_relative_error = 0;  // against the bound's scale Σ|a·b|
};

// `c` as the card returned it, converted to fp32 (exact), row-major [m, n]. Uses `threads` threads.
MatmulCheck check_result(const MatmulProblem& problem, const std::vector<float>& c, unsigned threads);

}  // namespace cli
