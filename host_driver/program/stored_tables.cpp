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

std::span<const wire::Dl16> stored_tables() {
  return {spyre_function_tables, wire::program::kAllTablesBytes / sizeof(wire::Dl16)};
}

std::span<const wire::Dl16> stored_table(Opcode function, FunctionConstants constants) {
  if (!in_all_tables(function, constants)) return {};
  constexpr std::size_t kCodes = wire::program::kTableBytes / sizeof(wire::Dl16);
  return stored_tables().subspan(wire::program::table_offset(function) / sizeof(wire::Dl16), kCodes);
}

}  // namespace svp::program
