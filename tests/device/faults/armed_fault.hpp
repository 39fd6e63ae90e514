// SPDX-License-Identifier: Apache-2.0
// One row of the card's fault table, armed for the lifetime of this object.
#pragma once

#include "host_driver/faults/fault_client.hpp"
#include "tests/conformance/workbench.hpp"

namespace svp::test {

inline wire::FaultSpec fault_of(wire::FaultPoint point, wire::FaultAction action, std::uint32_t function,
                                std::uint64_t argument = 0) {
  wire::FaultSpec spec = fault::spec_of(point, action, function, wire::occurrences(1, 0, 0));
  spec.argument = argument;
  return spec;
}

class ArmedFault {
 public:
  ArmedFault(Device& management, const wire::FaultSpec& spec) : client_(management), row_(spec.fault) {
    value_or_throw(client_.arm(spec));
  }
  // A card that died of it has forgotten it.
  ~ArmedFault() { (void)client_.disarm(row_); }
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;

  // Asks until it has fired, each time by a round trip.
  bool fires() {
    for (const auto deadline = soon(); Device::Clock::now() < deadline;) {
      if (evidence().fired != 0) return true;
    }
    return false;
  }
  wire::FaultEvidence evidence() { return value_or_throw(client_.query(row_)); }

 private:
  fault::FaultClient client_;
  const std::uint32_t row_;
};

}  // namespace svp::test
