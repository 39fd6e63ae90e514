// SPDX-License-Identifier: Apache-2.0
// The management function M of a card that this process owns: what a broker does with it, without a broker.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include "qemu/card.hpp"
#include "tests/bounds.hpp"

namespace bench {

class Management {
 public:
  // Attaches to slot 0. Throws svp::Error. The card outlives this.
  explicit Management(svp::Card& card);

  // All throw svp::Error when M got no answer, MeasurementError when the card refused. May be called by any thread.
  using FunctionReply = decltype(wire::AdminReply::Values::function);
  FunctionReply query(wire::Target target) { return command(wire::AdminCommand::FunctionQuery, target); }
  // Returns when nothing of the function's owner runs any more; its memory may still be scrubbed.
  FunctionReply reset(wire::Target target) { return command(wire::AdminCommand::FunctionReset, target); }

  // Until no released memory of the card is dirty any more, found by asking again and again: the card is awake
  // meanwhile. Throws MeasurementError after kScrubBound.
  void wait_scrubbed();
  static constexpr std::chrono::seconds kScrubBound = bench_bounds::kScrub;

 private:
  FunctionReply command(wire::AdminCommand command, wire::Target target);
  std::unique_ptr<svp::Device> device_;
};

}  // namespace bench
