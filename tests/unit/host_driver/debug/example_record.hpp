// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstring>

#include "shared/fatal_record.hpp"
#include "shared/post_codes.hpp"

namespace svp::test {

inline wire::FatalRecord sealed(wire::FatalRecord record) {
  record.magic = wire::kFatalRecordMagic;
  record.version = wire::kFatalRecordVersion;
  record.bytes = sizeof record;
  record.crc32c = checksum(record);
  return record;
}

// Three harts: the source, one asleep, one that did not answer. The event ring has gone round.
inline wire::FatalRecord example_record() {
  wire::FatalRecord record{};
  record.kind = wire::FatalKind::Trap;
  record.boot_epoch = 3;
  record.time = 1'234'567;
  record.hart_count = 3;
  record.waiting_for = 4;
  record.build_id[0] = 0xab;
  std::strcpy(record.reason, "on purpose");
  record.next_event = 63;
  record.events[63] = {10, wire::RecordedEventKind::Post, static_cast<std::uint32_t>(wire::PostCode::Memory), 0};
  record.events[0] = {20, wire::RecordedEventKind::Post, static_cast<std::uint32_t>(wire::PostCode::Ready), 0};
  const auto fill = [&](unsigned hart, wire::HartState state, wire::Waypoint waypoint) {
    auto& row = record.harts[hart];
    row.state = state;
    row.waypoint = waypoint;
    row.cause = wire::kNoCause;
    for (unsigned n = 1; n < 32; ++n) row.x[n] = 0x80000a00 + 0x1000 * hart + n;
    row.pc = 0x80000000 + 0x1000 * hart;
  };
  fill(0, wire::HartState::Source, wire::Waypoint::Dispatch);
  record.harts[0].cause = 5;
  record.harts[0].value = 0x18;
  fill(1, wire::HartState::Asleep, wire::Waypoint::Sleep);
  record.harts[2].waypoint = wire::Waypoint::Dma;
  for (unsigned h = 3; h < wire::kRecordedHarts; ++h) record.harts[h].state = wire::HartState::Absent;
  for (unsigned i = 0; i < wire::kRecordedStackWords; ++i) record.source_stack[i] = 0x5000 + i;
  return sealed(record);
}

}  // namespace svp::test
