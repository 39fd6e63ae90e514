// SPDX-License-Identifier: Apache-2.0
// `spyre ops`: the operations that the card's engine executes for spyre::ops.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "host_driver/ops/operation_table.hpp"

namespace cli {

namespace {

// Of each format that the operation has.
nlohmann::ordered_json bounds_json(const svp::ops::OpInfo& info) {
  const auto numbers = [](const svp::ops::Bound& bound) {
    return nlohmann::ordered_json{{"ulps", bound.ulps}, {"relative", bound.relative}};
  };
  nlohmann::ordered_json bounds{{"DL16", numbers(info.dl16)}};
  if (info.fp32) bounds["FP32"] = numbers(*info.fp32);
  return bounds;
}

}  // namespace

int ops(const OpsOptions& options) {
  using svp::ops::OpInfo;
  if (options.json) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    for (const OpInfo& info : svp::ops::operation_table()) {
      list.push_back({{"name", info.name},
                      {"tensors", info.tensors},
                      {"arguments", info.arguments},
                      {"fp32", info.fp32.has_value()},
                      {"error_bound", svp::ops::bound_text(info)},
                      {"bounds", bounds_json(info)}});
    }
    print_json({{"operations", std::move(list)}});
    return kOk;
  }
  fmt::print("{:15} {:>7}  {:10}  {:28}  {}\n", "operation", "tensors", "formats", "numbers", "error of a DL16 result");
  for (const OpInfo& info : svp::ops::operation_table()) {
    fmt::print("{:15} {:>7}  {:10}  {:28}  {}\n", info.name, info.tensors, info.fp32 ? "DL16, FP32" : "DL16",
               info.arguments, svp::ops::bound_text(info));
  }
  return kOk;
}

}  // namespace cli
