// SPDX-License-Identifier: Apache-2.0
// Random cases of the operations of spyre::ops: any shapes with remainders, some without elements, layouts, views and
// types; the card's bytes of the inputs with NaN in every padding lane; the expected result in double precision. Who
// executes a program is the caller's matter: the golden model, or a card. No test framework: what is wrong is a text.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "host_driver/ops/elements.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/reference.hpp"

namespace svp::test {

struct OpCase {
  ops::Request request;
  std::vector<std::vector<std::byte>> inputs;  // the card's bytes of each tensor, all of it
  std::vector<std::byte> out;                  // what Request::out holds before; empty: undefined
  std::vector<ops::Array> expected;

  std::string text() const;
};

using Random = std::mt19937_64;

// What `size_limit` bounds: elements of the largest tensor.
OpCase random_op_case(ops::Op op, Random& random, std::int64_t size_limit = 20000);

// Executes a program that has something to do: arguments are the card's bytes of the inputs, then of the outputs, but
// for tensors without elements.
using Executor = std::function<void(const ops::Lowered&, std::span<const std::span<std::byte>>)>;

// What is wrong, if anything.
std::optional<std::string> check_op_case(const OpCase& op_case, const Executor& execute);

}  // namespace svp::test
