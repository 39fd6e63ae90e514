// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/stored_tables.hpp"

#ifndef SPYRE_FUNCTION_TABLES
#error "SPYRE_FUNCTION_TABLES must name the file of tables (host_driver/program/CMakeLists.txt does)"
#endif

// All tables in the order of their opcodes.
asm(".section .rodata\n"
    ".balign 128\n"
    "spyre_function_tables:\n"
    ".incbin \"" SPYRE_FUNCTION_TABLES
    "\"\n"
    ".previous\n");

extern "C" {
extern const wire::Dl16 spyre_function_tables[];
}

namespace svp::program {

using wire::program::Opcode;

std::span<const wire::Dl16> stored_table(Opcode function, FunctionConstants constants) {
  constexpr std::size_t kCodes = 65536;
  if (function < Opcode::Exp || function > Opcode::Softplus) return {};
  if (function == Opcode::Softplus && constants != FunctionConstants{}) return {};
  const auto number = static_cast<std::size_t>(function) - static_cast<std::size_t>(Opcode::Exp);
  return {spyre_function_tables + number * kCodes, kCodes};
}

}  // namespace svp::program
