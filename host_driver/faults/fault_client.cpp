// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/fault_client.hpp"

#include <string>
#include <utility>

namespace svp::fault {

namespace {

ErrorInfo refused_by_card(const char* command, const wire::AdminReply& reply) {
  std::string message = std::string(command) + " ended " + std::string(wire::name(reply.outcome)) + ": " +
                        std::string(wire::name(reply.status));
  if (reply.field != wire::Field::None) message += " in " + std::string(wire::name(reply.field));
  return {.layer = Layer::Firmware,
          .source = command,
          .outcome = reply.outcome,
          .recoverable = true,
          .next_step = reply.status == wire::Status::Unsupported ? "build firmware and driver from the same sources"
                                                                 : "correct the fault",
          .message = std::move(message),
          .status = reply.status};
}

}  // namespace

wire::FaultSpec spec_of(wire::FaultPoint point, wire::FaultAction action, std::uint32_t function,
                        wire::FaultTrigger trigger) {
  wire::FaultSpec spec{};
  spec.point = point;
  spec.action = action;
  spec.trigger = trigger;
  spec.trigger.function = function;
  return spec;
}

Expected<wire::FaultEvidence> FaultClient::send(const wire::FaultSpec& spec) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::FaultArm;
  request.arguments.fault = spec;
  auto reply = management_.admin(request);
  if (!reply) return std::unexpected(std::move(reply.error()));
  if (reply->outcome != wire::Outcome::Ok) return std::unexpected(refused_by_card("FAULT_ARM", *reply));
  return reply->values.fault;
}

Expected<wire::FaultEvidence> FaultClient::arm(wire::FaultSpec spec) {
  spec.operation = wire::FaultOperation::Arm;
  return send(spec);
}

Expected<wire::FaultEvidence> FaultClient::query(std::uint32_t row) {
  wire::FaultSpec spec{};
  spec.operation = wire::FaultOperation::Query;
  spec.fault = row;
  return send(spec);
}

Expected<wire::FaultEvidence> FaultClient::disarm(std::uint32_t row) {
  wire::FaultSpec spec{};
  spec.operation = wire::FaultOperation::Disarm;
  spec.fault = row;
  return send(spec);
}

Expected<void> FaultClient::disarm_all() {
  wire::FaultSpec spec{};
  spec.operation = wire::FaultOperation::DisarmAll;
  if (auto done = send(spec); !done) return std::unexpected(std::move(done.error()));
  return {};
}

Expected<std::uint64_t> FaultClient::time() {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::Query;
  auto reply = management_.admin(request);
  if (!reply) return std::unexpected(std::move(reply.error()));
  if (reply->outcome != wire::Outcome::Ok) return std::unexpected(refused_by_card("QUERY", *reply));
  return reply->values.region.time;
}

}  // namespace svp::fault
