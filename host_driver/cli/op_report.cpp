// SPDX-License-Identifier: Apache-2.0
#include "host_driver/cli/op_report.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/cli/timeline.hpp"

namespace cli {
namespace {

using svp::ops::Array;

void print_op_report(const RunOpOptions& options, const OpProblem& problem, const OpRun& run) {
  fmt::print("\n{} of", options.op);
  for (const Array& input : problem.inputs) fmt::print(" [{}]", fmt::join(input.size, ","));
  fmt::print(" ->");
  for (const auto& shape : run.shapes) fmt::print(" [{}]", fmt::join(shape, ","));
  fmt::print(", {}, on {} ({} cores), seed {}\n", options.dtype, run.device, run.cores, run.seed);
  fmt::print("  first launch {} (program made and loaded), then {} from launch to completion\n",
             format_time_us(run.first_us), format_time_us(run.median_us));
  if (!options.verify) {
    fmt::print("  not checked (--verify)\n\n");
    return;
  }
  fmt::print("  golden model  {}\n", svp::ops::describe(run.check.golden));
  const svp::ops::Judgement& exact = run.check.exact;
  fmt::print(
      "  double        largest |error| {:.3g}, {:.3g} of the largest result; {} elements beyond the bound ({})\n",
      exact.largest_error, exact.relative_error, exact.beyond.differ, svp::ops::bound_text(run.check.bound));
  if (!exact.within()) fmt::print("                {}\n", svp::ops::describe(exact.beyond));
  fmt::print("  {}\n\n", run.check.passed() ? "PASSED" : "FAILED");
}

// A number that JSON has none for (NaN, infinity) is null.
nlohmann::ordered_json difference_json(const svp::ops::Difference& difference) {
  return {{"element", difference.element}, {"got", difference.got}, {"expected", difference.expected}};
}

nlohmann::ordered_json op_json(const RunOpOptions& options, const OpProblem& problem, const OpRun& run) {
  nlohmann::ordered_json inputs = nlohmann::ordered_json::array();
  for (const Array& input : problem.inputs) inputs.push_back(input.size);
  nlohmann::ordered_json json{{"op", options.op},
                              {"dtype", options.dtype},
                              {"inputs", std::move(inputs)},
                              {"outputs", run.shapes},
                              {"seed", run.seed},
                              {"device", run.device},
                              {"cores", run.cores},
                              {"first_seconds", run.first_us / 1e6},
                              {"seconds", run.median_us / 1e6}};
  if (options.verify) {
    json["elements"] = run.check.golden.elements;
    json["mismatches"] = run.check.golden.differ;
    if (run.check.golden.first) json["first_mismatch"] = difference_json(*run.check.golden.first);
    json["largest_error"] = run.check.exact.largest_error;
    json["relative_error"] = run.check.exact.relative_error;
    json["beyond_bound"] = run.check.exact.beyond.differ;
    if (run.check.exact.beyond.first) json["first_beyond_bound"] = difference_json(*run.check.exact.beyond.first);
    json["bound"] = {{"ulps", run.check.bound.ulps}, {"relative", run.check.bound.relative}};
    json["passed"] = run.check.passed();
  }
  return json;
}

}  // namespace

int report_op(const RunOpOptions& options, const OpProblem& problem, const OpRun& run) {
  if (options.json) {
    print_json(op_json(options, problem, run));
  } else {
    print_op_report(options, problem, run);
  }
  return run.check.passed() ? kOk : kNotAsWanted;
}

}  // namespace cli
