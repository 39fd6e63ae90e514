// SPDX-License-Identifier: Apache-2.0
// Part of the build: writes the tables of all functions to the file that is named, in the order of their opcodes. The
// same bytes each time.
#include <cstdio>
#include <exception>
#include <fstream>

#include "host_driver/program/function_tables.hpp"

int main(int argc, char** argv) {
  using wire::program::Opcode;
  if (argc != 2) {
    std::fputs("usage: write_function_tables FILE\n", stderr);
    return 2;
  }
  try {
    std::ofstream file(argv[1], std::ios::binary | std::ios::trunc);
    for (auto code = static_cast<unsigned>(Opcode::Exp); code <= static_cast<unsigned>(Opcode::Softplus); ++code) {
      const auto table = svp::program::function_table(static_cast<Opcode>(code));
      file.write(reinterpret_cast<const char*>(table.data()),
                 static_cast<std::streamsize>(table.size() * sizeof(wire::Dl16)));
    }
    file.close();
    if (file) return 0;
    std::fprintf(stderr, "write_function_tables: %s cannot be written\n", argv[1]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "write_function_tables: %s\n", error.what());
  }
  return 1;
}
