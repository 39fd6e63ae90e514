// SPDX-License-Identifier: Apache-2.0
// What `spyre run OP` computes: inputs of given shapes with random elements, and the check of the result.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/cli/commands.hpp"
#include "host_driver/ops/comparison.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/reference.hpp"

namespace cli {

struct OpProblem {
  svp::ops::Op op;
  svp::DataType dtype = svp::DataType::Float16;
  std::vector<svp::ops::Array> inputs;  // what the card's format holds
  std::vector<svp::DataType> dtypes;    // of each
  std::vector<double> numbers;
  std::vector<std::int64_t> integers;
};

// Throws InvalidArgument ("op", "--shape", "--dtype").
OpProblem make_op_problem(const RunOpOptions& options, std::uint64_t seed);

struct OpCheck {
  svp::ops::Comparison golden;  // with what the golden model makes of the same program
  svp::ops::Judgement exact;    // against double precision, within the operation's bound
  svp::ops::Bound bound;

  bool passed() const { return golden.equal() && exact.within(); }
};

// `results`: the elements that came back.
OpCheck check_op(const OpProblem& problem, const svp::ops::Request& request,
                 const std::vector<svp::ops::Array>& results);

// "64x128" → {64, 128}; "" is a scalar. Throws InvalidArgument ("--shape").
std::vector<std::int64_t> parse_extents(const std::string& text);

}  // namespace cli
