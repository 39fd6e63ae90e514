// SPDX-License-Identifier: Apache-2.0
// The command lines by which torch-spyre calls its compiler: dxp_standalone, and dbo-opt, which replaces it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "host_driver/compiler/compile.hpp"

namespace svp::compiler {

struct CompilerCall {
  std::filesystem::path bundle;  // the directory
  std::filesystem::path target;  // where spyreCodeDir is made
  Passes passes{};
};

// Exit codes of the program.
inline constexpr int kCompiled = 0;
inline constexpr int kBundleRefused = 1;
inline constexpr int kBadUsage = 2;
inline constexpr int kDefect = 3;  // of the compiler, or of this machine: no memory, no space

// `name`: how the program was called, its last part decides. Throws InvalidArgument for a command line that is none.
//   dxp_standalone [--bundle] -d DIR
//   dbo-opt [--device=…] --export-dir=DIR -kEmitSpyreCode FILE      also --kEmitSpyreCode; FILE is DIR/bundle.mlir
// Both also take --disable-pass=NAME: forward-copies.
CompilerCall parse_call(const std::string& name, const std::vector<std::string>& arguments);

// Does it. Silent when it succeeds; else what was wrong and what to do next on stderr. Returns the exit code.
int run_compiler(const std::string& name, const std::vector<std::string>& arguments);

}  // namespace svp::compiler
