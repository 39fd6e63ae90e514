// SPDX-License-Identifier: Apache-2.0
// Control blocks that the card must refuse before they have any effect, sent one by one, each on a fresh incarnation of
// the stream. One claim per block, by its name: it ended REJECTED with its status and moved nothing.
#pragma once

#include <string>
#include <vector>

#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

class Refusals {
 public:
  // Starts the bystander, and fills the Tensor region with a pattern that has to be there at the end.
  explicit Refusals(ScenarioContext& context);

  // Blocks are submitted with every byte as it is, so their headers are filled in here as the driver would.
  wire::ControlBlock addressed(wire::ControlBlock block);
  wire::ControlBlock good_dma();
  wire::ControlBlock good_fill();
  wire::ControlBlock good_strided();  // two levels

  void add(std::string name, const wire::ControlBlock& block, wire::Status status) {
    cases_.push_back({std::move(name), block, status});
  }
  template <typename Spoil>
  void add_spoilt(std::string name, wire::ControlBlock block, wire::Status status, Spoil spoil) {
    spoil(block);
    add(std::move(name), block, status);
  }

  // Sends all. Gives all proofs but "clean".
  void run();
  // The same in two parts, with the scenario's own between them.
  void send_all();
  void finish();

 private:
  struct BadBlock {
    std::string name;
    wire::ControlBlock block;
    wire::Status status;
  };
  std::string send(TestStream& stream, const BadBlock& bad);
  bool memory_unchanged();

  ScenarioContext& context_;
  std::vector<BadBlock> cases_;
  std::size_t sent_ = 0;
  std::uint32_t first_incarnation_ = 0;
};

}  // namespace svp::campaign
