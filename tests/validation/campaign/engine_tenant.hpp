// SPDX-License-Identifier: Apache-2.0
// Tenants that compute on the engine and know what every result has to be, by the golden model.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "host_driver/ops/comparison.hpp"
#include "host_driver/ops/lowering.hpp"
#include "host_driver/ops/operations.hpp"
#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

// A function as claims call it: "PF", "VF1".
std::string function_name(unsigned function);
wire::Target target_of(unsigned function);

// A program's context on a function (0: the PF) of the scenario's card. Throws svp::Error.
std::unique_ptr<svp::Context> open_context(ScenarioContext& context, unsigned function);

// Of these functions faults of the engine are shown: a virtual one, and the physical one.
inline constexpr unsigned kEngineFunctions[] = {kFaulting, 0};
inline constexpr std::uint64_t kBothCores = 3;
wire::FaultSpec fault_at(unsigned function, wire::FaultPoint point, wire::FaultAction action);

// How a launch ended: `error` is empty when it ended OK.
struct LaunchEnd {
  std::string error{};  // the text that a program gets
  StreamFailure failure{};

  bool ok() const { return error.empty(); }
};
// Whether a text names the element and both values, as ops::describe() does.
bool names_element(const std::string& text, const ops::Difference& difference);
// Waits for the stream, for no longer than the scenario's bound. What is under way then goes on: its outcome is OK, and
// its error says so.
LaunchEnd wait_for(ScenarioContext& context, FlexStream& stream);

// One operation of spyre::ops, as a program calls it: random inputs, and the golden model's result.
class OperationTenant {
 public:
  // Brings the inputs to the card. Which operation: `op`, or by `random`. Throws svp::Error.
  OperationTenant(ScenarioContext& context, unsigned function, std::mt19937_64& random, std::optional<ops::Op> op = {});

  // Launches it and waits.
  LaunchEnd launch(std::uint64_t core_mask);
  // The last launch's result against the golden model's.
  ops::Comparison compare();
  // Empty: the last launch's result is the golden model's, and the inputs on the card are as they were.
  std::string damage();
  // Empty: a launch that ends OK, and no damage.
  std::string wrong(std::uint64_t core_mask);

  // What compare() finds when the byte at this offset of the result is inverted, and nothing else is wrong.
  ops::Comparison with_inverted_byte(std::uint64_t at) const;
  ops::Comparison with_inverted_bit(std::uint64_t at) const;
  void reset_stream() { program_->default_stream().flex_stream().Reset(); }
  std::uint64_t result_bytes() const { return golden_.size(); }
  std::string name() const { return ops::info_of(request_.op).name; }

 private:
  SpyreTensor to_card(const ops::Array& array);
  ops::Array to_host(const SpyreTensor& tensor);
  ops::Comparison compare_with(const std::vector<std::byte>& bytes) const;
  void add_input(std::vector<std::int64_t> size, std::mt19937_64& random);

  ScenarioContext& context_;
  std::unique_ptr<svp::Context> program_;
  std::unique_ptr<Operations> operations_;
  ops::Request request_;
  ops::TensorForm form_;  // of the result
  std::vector<ops::Array> input_;
  std::vector<std::byte> golden_;  // the result's bytes on the card
  std::vector<SpyreTensor> on_card_;
  std::optional<SpyreTensor> result_;
};

}  // namespace svp::campaign
