// SPDX-License-Identifier: Apache-2.0
// Command buffers of what the workbench writes.
#pragma once

#include <span>

#include "tests/conformance/provider.hpp"
#include "tests/support/command_buffers.hpp"

namespace svp::conformance {

using test::call_of;
using test::CardBufferName;
using test::create_buffer;
using test::destroy_buffer;

inline CardBufferName buffer_of(Device& device, std::span<const wire::ControlBlock> blocks) {
  const auto reply = create_buffer(device, blocks);
  EXPECT_EQ(reply.outcome, wire::Outcome::Ok) << wire::name(reply.status) << " " << wire::name(reply.field);
  return reply.values.buffer;
}

}  // namespace svp::conformance
