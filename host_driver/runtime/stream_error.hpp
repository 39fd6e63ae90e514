// SPDX-License-Identifier: Apache-2.0
// How a stream tells that it failed: the first error, with everything the card said about it (docs/recovery.md: the
// first error is reported).
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/runtime/operand_table.hpp"
#include "shared/control_block.hpp"

namespace svp {

class Kernel;

struct StreamFailure {
  std::uint32_t stream = 0;
  std::uint64_t launch = 0;  // within the stream, from 1
  std::string job;           // the kernel's name, "transfer", "event" or "host function"
  std::uint32_t tile = 0;
  std::uint32_t step = 0;
  wire::Opcode opcode = wire::Opcode::Nop;
  wire::Outcome outcome = wire::Outcome::Ok;
  wire::Status status = wire::Status::None;
  wire::Field field = wire::Field::None;
  wire::FaultRecord fault{};
  std::string operand;       // of a fault: the operand it hit, or how far from the nearest; empty when none is near
  std::string symbol;        // of a fault: function+offset
  std::string operation;     // of a device program, at which a fault or the watchdog ended it, and the operand it hit
  std::string refusal;       // of a device program that the engine refused: operation, operand and field
  bool of_index = false;     // it refused an index: a value of the launch's own, which nothing else suffers from
  std::uint64_t rows = 0;    // of_index: how many there are to name
  std::uint64_t slices = 0;  // watchdog slices that a kernel had taken
};

// Thrown by Synchronize and by Launch on a poisoned stream. `info().recoverable`: FlexStream::Reset() repairs it.
// Programs catch it as spyre::StreamError, with what concerns them; here is all that the card said.
class StreamError : public spyre::StreamError {
 public:
  StreamError(ErrorInfo info, StreamFailure failure)
      : spyre::StreamError(std::move(info), for_programs(failure)), failure_(std::move(failure)) {}
  const StreamFailure& failure() const noexcept { return failure_; }

 private:
  static spyre::StreamFailure for_programs(const StreamFailure& failure);
  StreamFailure failure_;
};

// The region window of each row of a block's segment table: the rows name regions as the card does, faults by window.
using SegmentWindows = std::array<std::uint8_t, wire::kSegments>;

// A block of a launch, with what the driver knows of it.
struct LaunchedBlock {
  const wire::ControlBlock& block;
  const SegmentWindows& windows;
  const Kernel* kernel;          // null for transfers
  const OperandTable* operands;  // null: the block's rows are all
};

// What a block was, and how it ended.
StreamFailure describe_failure(const LaunchedBlock& of, const wire::Completion& completion);
// The same without texts, which need memory.
StreamFailure bare_failure(const wire::ControlBlock& block, const wire::Completion& completion) noexcept;
ErrorInfo explain(const StreamFailure& failure);
// The same of a failure of_index, for whoever has reset the stream: how many launches behind it that has ended.
ErrorInfo explain_of_one_launch(const StreamFailure& failure, std::uint64_t behind);

}  // namespace svp
