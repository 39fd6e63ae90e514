// SPDX-License-Identifier: Apache-2.0
// What element-wise operations must write, element by element as shared/device_program.hpp defines addresses.
#pragma once

#include "tests/device/kernels/engine_programs.hpp"

namespace kernel_test {

// Executes the program on the host. `workspace` is pool and scratchpads.
void execute_on_host(const Program& executed, std::vector<Bytes>& arguments, Bytes& workspace);

}  // namespace kernel_test
