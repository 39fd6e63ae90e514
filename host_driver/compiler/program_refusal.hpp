// SPDX-License-Identifier: Apache-2.0
// What a bundle says when the program that was made of it is not one: which line and SDSC, and which rule.
#pragma once

#include <cstddef>
#include <span>

#include "host_driver/compiler/bundle.hpp"

namespace svp::compiler {

// For a program that check_program() refuses. Throws InvalidPlan (the line of bundle.mlir).
[[noreturn]] void refuse_program(const Bundle& bundle, std::span<const std::byte> bytes);

}  // namespace svp::compiler
