// SPDX-License-Identifier: Apache-2.0
// dxp_standalone, also called dbo-opt: the compiler of bundles, as torch-spyre looks for it on the PATH.
#include <string>
#include <vector>

#include "host_driver/compiler/command_line.hpp"

int main(int argc, char** argv) {
  return svp::compiler::run_compiler(argc > 0 ? argv[0] : "dxp_standalone",
                                     std::vector<std::string>(argv + (argc > 0 ? 1 : 0), argv + argc));
}
