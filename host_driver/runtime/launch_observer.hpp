// SPDX-License-Identifier: Apache-2.0
// What can be watched of a launch: every block that ran, with the card's own times, and the launch's end.
#pragma once

#include <cstdint>

#include "shared/control_block.hpp"

namespace svp {

// How one step of one walk ended. A staged transfer is one record whatever the number of its chunks: times from the
// first chunk's start to the last one's end, bytes moved by OK chunks. A transfer of memory that lies in several
// regions is one record for each part that lies in one. Tiles of which no block had been written when the stream failed
// or was reset are one record together: of the first of them, ABORTED or LOST, sequence 0. A tile whose HostOperation
// threw in the stream is one record: FAULT, of step 0. A correction DMA that was left out (elide_corrections) is OK
// with sequence 0 when its computation began.
struct BlockRecord {
  std::uint64_t launch = 0;  // number of the launch within its stream, from 1
  std::uint32_t stream = 0;
  std::uint32_t tile = 0;
  std::uint32_t step = 0;  // in the job's plan
  wire::Opcode opcode = wire::Opcode::Nop;
  wire::Outcome outcome = wire::Outcome::Ok;
  wire::Status status = wire::Status::None;
  std::uint64_t sequence = 0;    // 0: was never sent
  std::uint64_t start_time = 0;  // device ticks (wire::kTicksPerSecond); 0: never started
  std::uint64_t end_time = 0;
  std::uint64_t bytes = 0;
};

// Implemented by the caller; exists until on_launch_ended. Called on whatever thread finds the end, with the stream's
// lock held: short, no call of the stream from inside.
class LaunchObserver {
 public:
  virtual void on_block(const BlockRecord& record) noexcept = 0;
  // All blocks of the launch have ended, and all earlier launches of the stream. `outcome`: the first that was not OK.
  virtual void on_launch_ended(std::uint64_t launch, wire::Outcome outcome) noexcept = 0;

 protected:
  ~LaunchObserver() = default;
};

}  // namespace svp
