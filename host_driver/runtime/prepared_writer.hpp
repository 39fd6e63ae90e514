// SPDX-License-Identifier: Apache-2.0
// Writes launches as command buffers hold them, step by step, and puts them on the card at the end.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "host_driver/runtime/captured_steps.hpp"
#include "host_driver/runtime/launch_plan.hpp"
#include "host_driver/runtime/prepared_launches.hpp"

namespace svp {

class CurrentFunction;

// All tiles of a launch, all steps of its plan but the transfer of the correction tensor. Returns where its operands
// lie. Throws InvalidArgument as FlexStream::Prepare().
SharedOperandTable write_prepared(const LaunchSite& site, const Job& job, std::span<const Argument> arguments,
                                  const LaunchOptions& options, AllocationUses& uses,
                                  std::vector<PreparedBlock>& blocks);

class PreparedWriter {
 public:
  // Checks them, and holds what they work on. Nothing was added when it throws InvalidArgument. No recovery between the
  // first call and finish().
  void add(const LaunchSite& site, std::span<const CapturedStep> steps);
  std::size_t launches() const { return state_->held.size(); }
  // Waits for the card. Once. Throws InvalidArgument when there is nothing to launch, and Error.
  std::shared_ptr<PreparedLaunches> finish(CurrentFunction& function);

 private:
  void add_step(const LaunchSite& site, const CapturedStep& step);
  void add_launch(const LaunchSite& site, const LaunchRequest& request);
  void add_to_calls(const CallsStep& calls);
  // Their blocks in buffers of the card, and the steps as they are replayed.
  void place_on_card(CurrentFunction& function);

  std::shared_ptr<PreparedLaunches::State> state_ = std::make_shared<PreparedLaunches::State>();
  std::vector<ReplayStep> steps_;  // calls by their blocks, not yet by their buffers
};

}  // namespace svp
