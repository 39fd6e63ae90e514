// SPDX-License-Identifier: Apache-2.0
// The card's trace of the function of test::OneCard, as it lies in the function's window.
#pragma once

#include <gtest/gtest.h>

#include <span>

#include "shared/trace.hpp"
#include "tests/device/runtime/shared_context.hpp"

namespace svp::test {

// TRACE. On: an empty ring. Off: nothing is written any more.
inline void trace(bool on) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::Trace;
  request.arguments.trace.on = on ? 1 : 0;
  ASSERT_EQ(value_or_throw(OneCard::context().device().admin(request)).outcome, wire::Outcome::Ok);
}

// All places of the ring; number 0: nothing has been written there since trace(true). What other cores than core 0 note
// comes with a later heartbeat.
inline std::span<const wire::TraceEntry> trace_ring() {
  const Device& device = OneCard::context().device();
  const std::byte* const window = device.host_memory().data() - device.host_memory_offset();
  return {reinterpret_cast<const wire::TraceEntry*>(window + wire::kTraceRing.offset), wire::kTraceEntries};
}

}  // namespace svp::test
