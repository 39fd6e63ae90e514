// SPDX-License-Identifier: Apache-2.0
// Admin commands as tests send them, most of them by M about another function. Each throws svp::Error when there is no
// reply; what the card refuses is told by the reply.
#pragma once

#include <cstdint>
#include <string>

#include "host_driver/device/device.hpp"
#include "shared/admin.hpp"

namespace svp::test {

using FunctionFigures = decltype(wire::AdminReply::Values::function);
using PoolFigures = decltype(wire::AdminReply::Values::region);

inline wire::AdminRequest admin_request(wire::AdminCommand command) {
  wire::AdminRequest request{};
  request.command = command;
  return request;
}
inline wire::AdminRequest function_request(wire::AdminCommand command, wire::Target target, std::uint32_t slot = 0) {
  wire::AdminRequest request = admin_request(command);
  request.arguments.function = {.target = target, .slot = slot};
  return request;
}

inline wire::AdminReply manage(Device& management, wire::AdminCommand command, wire::Target target,
                               std::uint32_t slot = 0) {
  return value_or_throw(management.admin(function_request(command, target, slot)));
}
// What the card says of a function: to M of any, to an owner of its own (target 0).
inline FunctionFigures figures_of(Device& device, wire::Target target) {
  return manage(device, wire::AdminCommand::FunctionQuery, target).values.function;
}
// As the device sees its memory; of M: the whole card.
inline PoolFigures pool_figures(Device& device) {
  return value_or_throw(device.admin(admin_request(wire::AdminCommand::Query))).values.region;
}
// Of regions that the target may hold; 0: no quota.
inline wire::AdminReply set_quota(Device& management, wire::Target target, std::uint64_t bytes) {
  wire::AdminRequest request = admin_request(wire::AdminCommand::QuotaSet);
  request.arguments.quota = {.target = target, .weight = 0, .bytes = bytes};
  return value_or_throw(management.admin(request));
}
// Of the block with this number in the stream's incarnation of now.
inline wire::AdminReply cancel(Device& device, std::uint32_t stream, std::uint64_t sequence) {
  wire::AdminRequest request = admin_request(wire::AdminCommand::Cancel);
  request.arguments.cancel = {stream, device.stream_incarnation(stream), sequence};
  return value_or_throw(device.admin(request));
}

// Empty: OK.
inline std::string ok_or_reason(const wire::AdminReply& reply) {
  if (reply.outcome == wire::Outcome::Ok) return {};
  return std::string(wire::name(reply.outcome)) + ", " + std::string(wire::name(reply.status));
}

}  // namespace svp::test
