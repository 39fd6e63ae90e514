// SPDX-License-Identifier: Apache-2.0
// FAULT_ARM by hand: one row of the card's table for the life of this object, and what it counted.
#pragma once

#include "tests/conformance/workbench.hpp"

namespace svp::test {

inline wire::FaultSpec fault_of(wire::FaultPoint point, wire::FaultAction action, std::uint32_t function,
                                std::uint64_t argument = 0) {
  wire::FaultSpec spec{};
  spec.point = point;
  spec.action = action;
  spec.function = function;
  spec.stream = wire::kAnyStream;
  spec.opcode = wire::kAnyOpcode;
  spec.first = 1;
  spec.argument = argument;
  return spec;
}

class ArmedFault {
 public:
  ArmedFault(Device& management, wire::FaultSpec spec) : management_(management), row_(spec.fault) {
    spec.operation = wire::FaultOperation::Arm;
    const auto reply = send(spec);
    if (reply.outcome != wire::Outcome::Ok) throw std::runtime_error(std::string(wire::name(reply.status)));
  }
  // A card that died of it has forgotten it.
  ~ArmedFault() {
    wire::FaultSpec spec{};
    spec.operation = wire::FaultOperation::Disarm;
    spec.fault = row_;
    wire::AdminRequest request{};
    request.command = wire::AdminCommand::FaultArm;
    request.arguments.fault = spec;
    (void)management_.admin(request);
  }
  ArmedFault(const ArmedFault&) = delete;
  ArmedFault& operator=(const ArmedFault&) = delete;

  // Asks until it has fired, each time by a round trip.
  bool fires() {
    for (const auto deadline = soon(); Device::Clock::now() < deadline;) {
      if (evidence().fired != 0) return true;
    }
    return false;
  }
  wire::FaultEvidence evidence() {
    wire::FaultSpec spec{};
    spec.operation = wire::FaultOperation::Query;
    spec.fault = row_;
    return send(spec).values.fault;
  }

 private:
  wire::AdminReply send(const wire::FaultSpec& spec) {
    wire::AdminRequest request{};
    request.command = wire::AdminCommand::FaultArm;
    request.arguments.fault = spec;
    return must(management_.admin(request));
  }

  Device& management_;
  const std::uint32_t row_;
};

}  // namespace svp::test
