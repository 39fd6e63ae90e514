// SPDX-License-Identifier: Apache-2.0
// What a trace tells of a stream's blocks.
#include "host_driver/runtime/kernel.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/trace/recorder.hpp"

namespace svp {

std::uint32_t StreamChannel::trace_card() const {
  const std::lock_guard guard(mutex_);
  return device_->trace_card();
}

// With mutex_ held.
void StreamChannel::trace_block(const Unit& unit, const wire::Completion& completion) const {
  trace::Recorder* const recorder = trace::recorder();
  trace::Record* const record = recorder == nullptr ? nullptr : recorder->take(trace::Kind::Block);
  if (record == nullptr) return;
  const wire::ControlBlockHeader& header = unit.block.header;
  record->end = trace::Recorder::now();
  record->begin = unit.sent != 0 ? unit.sent : record->end;
  record->opcode = static_cast<std::uint8_t>(header.opcode);
  record->outcome = static_cast<std::uint8_t>(completion.outcome);
  record->status = static_cast<std::uint16_t>(completion.status);
  record->card = device_->trace_card();
  record->stream = stream();
  record->launch = unit.launch->number;
  record->tile = unit.tile;
  record->step = unit.step;
  record->sequence = completion.sequence;
  record->bytes = completion.bytes;
  if (completion.start_time <= completion.end_time) {
    record->device_begin = completion.start_time;
    record->device_end = completion.end_time;
  }
  const Kernel* kernel = unit.launch->kernel;
  if (header.opcode == wire::Opcode::Compute && kernel != nullptr)
    trace::Recorder::set_text(*record, kernel->metadata().name);
  if (unit.correction.bytes != nullptr) trace::Recorder::set_text(*record, "correction");
  trace::Recorder::commit(*record);
}

}  // namespace svp
