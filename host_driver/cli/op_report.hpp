// SPDX-License-Identifier: Apache-2.0
// What `spyre run OP` says of a run, and its exit code.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/op_problem.hpp"

namespace cli {

struct OpRun {
  std::string device;
  unsigned cores = 0;
  std::uint64_t seed = 0;
  std::vector<std::vector<std::int64_t>> shapes;  // of the results
  double first_us = 0;                            // with the making and loading of the program
  double median_us = 0;                           // from launch to completion
  OpCheck check;
};

// Prints the report, for people or as JSON. kNotAsWanted: the results were checked, and are wrong.
int report_op(const RunOpOptions& options, const OpProblem& problem, const OpRun& run);

}  // namespace cli
