// SPDX-License-Identifier: Apache-2.0
// What scenarios ask of M about other functions. Each throws svp::Error when there is no reply.
#pragma once

#include <string>

#include "tests/validation/campaign/test_stream.hpp"

namespace svp::campaign {

using FunctionFigures = decltype(wire::AdminReply::Values::function);
using PoolFigures = decltype(wire::AdminReply::Values::region);

inline wire::AdminReply manage(Device& management, wire::AdminCommand command, wire::Target target) {
  wire::AdminRequest request{};
  request.command = command;
  request.arguments.function = {target, 0};
  return value_or_throw(management.admin(request));
}

inline FunctionFigures figures_of(Device& management, wire::Target target) {
  return manage(management, wire::AdminCommand::FunctionQuery, target).values.function;
}

// As the device sees its memory; of M: the whole card.
inline PoolFigures pool_figures(Device& device) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::Query;
  return value_or_throw(device.admin(request)).values.region;
}

// Of regions that the target may hold; 0: no quota.
inline wire::AdminReply set_quota(Device& management, wire::Target target, std::uint64_t bytes) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::QuotaSet;
  request.arguments.quota = {.target = target, .weight = 0, .bytes = bytes};
  return value_or_throw(management.admin(request));
}

// Empty: OK.
inline std::string ok_or_reason(const wire::AdminReply& reply) {
  if (reply.outcome == wire::Outcome::Ok) return {};
  return std::string(wire::name(reply.outcome)) + ", " + std::string(wire::name(reply.status));
}

}  // namespace svp::campaign
