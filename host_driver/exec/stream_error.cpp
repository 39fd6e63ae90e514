// SPDX-License-Identifier: Apache-2.0
#include "host_driver/exec/stream_error.hpp"

#include <cstdio>

#include "host_driver/exec/kernel.hpp"

namespace flex {
namespace {

std::string hex(std::uint64_t value) {
  char digits[2 + 16 + 1];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(value));
  return digits;
}

std::string operand_name(const Kernel* kernel, unsigned index) {
  const bool known = kernel != nullptr && index < kernel->metadata().operands.size();
  return known ? kernel->metadata().operands[index].name : std::to_string(index);
}

// The operand at the faulting place, or the one that ends closest before it.
std::string attribute(const abi::ComputePayload& compute, const SegmentWindows& windows, const abi::FaultRecord& fault,
                      const Kernel* kernel) {
  std::string nearest;
  std::uint64_t best = ~std::uint64_t{0};
  for (unsigned i = 0; i < abi::kSegments; ++i) {
    const abi::Segment& segment = compute.segments[i];
    if (segment.access == abi::kSegmentUnused || windows[i] != fault.region_ordinal) continue;
    if (fault.offset >= segment.offset && fault.offset - segment.offset < segment.bytes) {
      return operand_name(kernel, i) + "+" + hex(fault.offset - segment.offset);
    }
    if (fault.offset >= segment.offset + segment.bytes && fault.offset - segment.offset - segment.bytes < best) {
      best = fault.offset - segment.offset - segment.bytes;
      nearest = std::to_string(best) + " bytes behind operand " + operand_name(kernel, i);
    }
  }
  return nearest;
}

Layer layer_of(const StreamFailure& f) {
  if (f.outcome == abi::Outcome::Lost || f.outcome == abi::Outcome::Indeterminate) return Layer::Emulator;
  const bool ran = f.outcome == abi::Outcome::Fault || f.outcome == abi::Outcome::Timeout;
  return f.opcode == abi::Opcode::Compute && ran ? Layer::Core : Layer::Firmware;
}

std::string next_step(const StreamFailure& f) {
  switch (f.outcome) {
    case abi::Outcome::Rejected: return "correct the request, then reset the stream";
    case abi::Outcome::Timeout: return "give it a larger budget or mend the kernel, then reset the stream";
    case abi::Outcome::Fault:
      return f.status == abi::Status::Stopped ? "launch again"
                                              : "mend the kernel or its operands, then reset the stream";
    case abi::Outcome::Aborted: return "reset the stream and launch again";
    case abi::Outcome::Lost: return "start a new card and launch again";
    case abi::Outcome::Indeterminate: return "start a new card, restore the operands, then launch again";
    case abi::Outcome::Ok: break;
  }
  return "reset the stream";
}

std::string fault_text(const StreamFailure& f) {
  if (f.fault.access == abi::FaultAccess::None && f.symbol.empty()) return {};
  std::string text;
  if (f.fault.access != abi::FaultAccess::None) {
    const char* verb = f.fault.access == abi::FaultAccess::Load    ? "load"
                       : f.fault.access == abi::FaultAccess::Store ? "store"
                                                                   : "fetch";
    text += std::string(", ") + verb;
    text += f.fault.region_ordinal == abi::kNoRegionOrdinal
                ? " outside of every region, address " + hex(f.fault.offset)
                : " in region " + std::to_string(f.fault.region_ordinal) + " at offset " + hex(f.fault.offset);
    if (!f.operand.empty()) text += " (" + f.operand + ")";
  }
  if (!f.symbol.empty()) text += ", pc " + f.symbol + ", core " + std::to_string(f.fault.core);
  if (f.status == abi::Status::KernelStatus) text += ", status " + hex(f.fault.argument);
  return text;
}

}  // namespace

StreamFailure describe_failure(const abi::ControlBlock& block, const SegmentWindows& windows,
                               const abi::Completion& completion, const Kernel* kernel) {
  StreamFailure failure;
  failure.stream = completion.stream;
  failure.job = kernel != nullptr ? kernel->name() : "transfer";
  failure.opcode = block.header.opcode;
  failure.outcome = completion.outcome;
  failure.status = completion.status;
  failure.field = completion.field;
  failure.fault = completion.fault;
  failure.slices = completion.slices;
  const bool ran = completion.outcome == abi::Outcome::Fault || completion.outcome == abi::Outcome::Timeout;
  if (block.header.opcode == abi::Opcode::Compute && ran && completion.status != abi::Status::Stopped) {
    if (completion.fault.region_ordinal != abi::kNoRegionOrdinal && completion.fault.access != abi::FaultAccess::None) {
      failure.operand = attribute(block.payload.compute, windows, completion.fault, kernel);
    }
    if (kernel != nullptr) failure.symbol = kernel->symbolise(completion.fault.pc);
  }
  return failure;
}

ErrorInfo explain(const StreamFailure& f) {
  std::string message(abi::name(f.opcode));
  message += " of job '" + f.job + "' (launch " + std::to_string(f.launch) + ", tile " + std::to_string(f.tile) +
             ", step " + std::to_string(f.step) + ") ended " + std::string(abi::name(f.outcome));
  if (f.status != abi::Status::None) message += ": " + std::string(abi::name(f.status));
  if (f.field != abi::Field::None) message += " in " + std::string(abi::name(f.field));
  message += fault_text(f);
  const bool gone = f.outcome == abi::Outcome::Lost || f.outcome == abi::Outcome::Indeterminate;
  return {.layer = layer_of(f),
          .culprit = "stream " + std::to_string(f.stream),
          .outcome = f.outcome,
          .recoverable = !gone,
          .next_step = next_step(f),
          .message = std::move(message)};
}

}  // namespace flex
