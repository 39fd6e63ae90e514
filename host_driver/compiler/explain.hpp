// SPDX-License-Identifier: Apache-2.0
// A bundle as a person reads it: what `spyre sdsc explain` prints.
#pragma once

#include <string>

#include "host_driver/compiler/bundle.hpp"
#include "host_driver/program/device_program.hpp"

namespace svp::compiler {

// The parameters with what the program needs of them, and each statement with the spaces, tensors, addresses, masks and
// constants of its SDSC. Null: the compiler refused the bundle, and nothing is known of its needs. Lines end with a
// newline; nothing but printable characters.
std::string explain(const Bundle& bundle, const DeviceProgram* program);

// The operations that the bundle became, with the loops around them.
std::string explain(const DeviceProgram& program);

// "arg2 + 256 + 4096 i0": i0 counts the outermost loop around the statement.
std::string text_of(const SymbolicAddress& address);

}  // namespace svp::compiler
