// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/stream_error.hpp"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string_view>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/kernel.hpp"
#include "shared/device_program_opcodes.hpp"
#include "shared/kernel_abi.hpp"

namespace svp {
namespace {

std::string hex(std::uint64_t value) {
  char digits[2 + 16 + 1];
  std::snprintf(digits, sizeof digits, "0x%llx", static_cast<unsigned long long>(value));
  return digits;
}

// From here on an offset is split, so that no text of the driver looks like an address.
constexpr std::uint64_t kSplitOffset = 256 * wire::kMiB;

std::string offset_text(std::uint64_t offset) {
  if (offset < kSplitOffset) return hex(offset);
  return std::to_string(offset / wire::kMiB) + " MiB + " + hex(offset % wire::kMiB);
}

// In the launch's address space (shared/kernel_abi.hpp), by the name of the part that begins there or before.
std::string place_outside_regions(std::uint64_t address) {
  constexpr std::uint64_t kEnd = std::uint64_t{1} << 38;  // of what a kernel can name under Sv39
  if (address < wire::region_window(0)) return "in the null guard at " + offset_text(address);
  if (address < wire::kContextWindow) return "between the regions and the launch's own memory";
  if (address >= kEnd) return "outside of the address space";
  struct Part {
    std::uint64_t offset;
    const char* name;
  };
  constexpr Part kData[] = {{wire::kScratchpadOffset, "scratchpad"},
                            {wire::kStackOffset, "stack"},
                            {wire::kCorrectionOffset, "correction"},
                            {wire::kArgumentsOffset, "arguments"}};
  const std::uint64_t offset = (address - wire::kContextWindow) % wire::kContextStride;
  const std::string context = " of context " + std::to_string((address - wire::kContextWindow) / wire::kContextStride);
  for (const Part& part : kData) {
    if (offset >= part.offset) return "at " + std::string(part.name) + " + " + hex(offset - part.offset) + context;
  }
  const std::uint64_t inside = offset % wire::kExecutionAreaStride;
  const bool pool = inside >= wire::kPoolOffset;
  return std::string(pool ? "at literal pool + " : "at text + ") + hex(pool ? inside - wire::kPoolOffset : inside) +
         " of execution area " + std::to_string(offset / wire::kExecutionAreaStride) + context;
}

// Behind the operands come the places of partial results.
std::string operand_name(const Kernel* kernel, unsigned index) {
  if (kernel == nullptr) return std::to_string(index);
  const auto& operands = kernel->metadata().operands;
  return index < operands.size() ? operands[index].name : "partial results";
}

// What the engine refused of the device program that the kernel is of: of the program, or an index, which it sees only
// when it uses it. That is the caller's, not the compiler's.
void note_refusal(const Kernel& kernel, std::uint64_t status, StreamFailure& failure) {
  if (kernel.program() == nullptr || !wire::program::is_refusal(status)) return;
  const DeviceProgram& program = *kernel.program();
  const wire::program::Refusal refusal = wire::program::from_status(status);
  if (refusal.where != wire::program::Where::Index) {
    failure.refusal = program.describe(refusal);
    return;
  }
  failure.refusal = program.describe_index(refusal);
  failure.of_index = true;
  failure.rows = program.rows_of(refusal.operation, refusal.operand);
}

// Visits the operands' places and what else stands in the block, until `visit` returns true.
template <typename Visit>
void for_each_row(const LaunchedBlock& of, Visit visit) {
  const unsigned known = of.operands != nullptr ? static_cast<unsigned>(of.operands->size()) : 0;
  for (unsigned i = 0; i < known; ++i) {
    if (visit(i, (*of.operands)[i].segment, (*of.operands)[i].window)) return;
  }
  for (unsigned i = known; i < wire::kSegments; ++i) {
    if (visit(i, of.block.payload.compute.segments[i], of.windows[i])) return;
  }
}

// Where a fault hit an operand of the launch.
struct Hit {
  unsigned operand = 0;
  std::uint64_t offset = 0;  // from the operand's beginning
  std::uint64_t behind = 0;  // outside: from its end
  bool inside = false;
};

// The operand at the faulting place, or the one that ends closest before it.
std::optional<Hit> find_hit(const LaunchedBlock& of, const wire::FaultRecord& fault) {
  std::optional<Hit> nearest;
  for_each_row(of, [&](unsigned i, const wire::Segment& segment, std::uint8_t window) {
    if (segment.access == wire::kSegmentUnused || window != fault.region_ordinal) return false;
    if (fault.offset < segment.offset) return false;
    const std::uint64_t offset = fault.offset - segment.offset;
    if (offset < segment.bytes) {
      nearest = Hit{.operand = i, .offset = offset, .inside = true};
      return true;
    }
    const std::uint64_t behind = offset - segment.bytes;
    if (!nearest || behind < nearest->behind) nearest = Hit{.operand = i, .offset = offset, .behind = behind};
    return false;
  });
  return nearest;
}

std::string attribute(const LaunchedBlock& of, const Hit& hit) {
  const std::string name = operand_name(of.kernel, hit.operand);
  return hit.inside ? name + "+" + offset_text(hit.offset)
                    : std::to_string(hit.behind) + " bytes behind operand " + name;
}

// Operand 0 of a program's launch is the program, then come its arguments, the workspace, the scratchpads
// (program_kernel.cpp).
std::optional<std::uint8_t> operand_of_program(const DeviceProgram& program, std::uint32_t operation, const Hit& hit,
                                               wire::FaultAccess access) {
  using wire::program::Base;
  DeviceProgram::Place place{.base = Base::Argument, .argument = 0, .offset = hit.offset};
  if (hit.operand == 0) {
    const std::uint64_t data = program.header().data_offset;
    if (hit.offset < data) return std::nullopt;
    place = {.base = Base::Data, .argument = 0, .offset = hit.offset - data};
  } else if (hit.operand <= program.arguments().size()) {
    place.argument = static_cast<std::uint8_t>(hit.operand - 1);
  } else {
    place = program.place_behind_arguments(hit.operand - 1 - program.arguments().size(), hit.offset);
  }
  return program.operand_at(operation, place, access == wire::FaultAccess::Store);
}

// The operation of the device program that was executed when the kernel ended, and which of its operands an access hit;
// empty: the kernel does not say.
std::string operation_of(const Kernel& kernel, const wire::FaultRecord& fault, const std::optional<Hit>& hit) {
  const DeviceProgram* program = kernel.program().get();
  if (program == nullptr || !wire::is_progress(fault.argument)) return {};
  const std::uint32_t number = wire::number_of_progress(fault.argument);
  if (!hit) return program->describe_operation(number);
  return program->describe_operation(number, operand_of_program(*program, number, *hit, fault.access));
}

Layer layer_of(const StreamFailure& f) {
  if (f.outcome == wire::Outcome::Lost || f.outcome == wire::Outcome::Indeterminate) return Layer::Emulator;
  const bool ran = f.outcome == wire::Outcome::Fault || f.outcome == wire::Outcome::Timeout;
  return f.opcode == wire::Opcode::Compute && ran ? Layer::Core : Layer::Firmware;
}

std::string indices_to_give(const StreamFailure& f) {
  return f.rows == 0 ? "give a table that has rows" : "give indices from 0 to " + std::to_string(f.rows - 1);
}

std::string next_step(const StreamFailure& f) {
  switch (f.outcome) {
    case wire::Outcome::Rejected:
      if (f.status == wire::Status::RegionEntryDamaged) return "reset the function: its region table is damaged";
      if (f.status == wire::Status::StreamBanned) return "use another stream, or reset the function";
      if (f.status == wire::Status::StreamResetting) return "submit after the answer to the reset";
      return "correct the request, then reset the stream";
    case wire::Outcome::Timeout:
      if (f.opcode == wire::Opcode::EventWait)
        return "see why the awaited stream does not go on, then reset the stream";
      return "give it a larger budget or repair the kernel, then reset the stream";
    case wire::Outcome::Fault:
      if (f.status == wire::Status::MemoryBudget) {
        return "use less of the card's memory or boot it with a larger budget (spyre boot --budget), then reset the "
               "stream";
      }
      if (f.status == wire::Status::ChecksumMismatch || f.status == wire::Status::TransferAborted) {
        return "reset the stream and move the bytes again; when it comes back, restart the card";
      }
      if (f.status == wire::Status::UncorrectableMemory) {
        return "reset the stream, give the memory back and allocate other: the damaged granule is not granted again";
      }
      if (f.status == wire::Status::RegionEntryDamaged) return "reset the function: its region table is damaged";
      if (f.status == wire::Status::EventDeadlock)
        return "record events before they are waited for, then reset the streams";
      if (f.of_index) return indices_to_give(f) + ", then reset the stream";
      if (!f.refusal.empty()) {
        return "load the plan again (its bytes on the card may be damaged), or take the engine of this version; then "
               "reset the stream";
      }
      return f.status == wire::Status::Stopped ? "launch again"
                                               : "repair the kernel or its operands, then reset the stream";
    case wire::Outcome::Aborted:
      if (f.status == wire::Status::EventFailed) return "repair the awaited stream, reset this one and launch again";
      if (f.status == wire::Status::GrantRevoked)
        return "reset the stream, and have the other function share another event";
      return "reset the stream and launch again";
    case wire::Outcome::Lost: return "recover (Context::recover()) and launch again";
    case wire::Outcome::Indeterminate: return "recover (Context::recover()), restore the operands, then launch again";
    case wire::Outcome::Ok: break;
  }
  return "reset the stream";
}

// Of a wait: for whom, or the cycle, as the card tells it.
std::string wait_text(const StreamFailure& f) {
  const bool granted = f.field == wire::Field::EventGrant;
  if (f.status == wire::Status::EventFailed) {
    return granted ? ", of another function" : ", stream " + std::to_string(f.fault.argument);
  }
  std::string text = granted ? ", through other functions: streams" : ": streams";
  const std::uint64_t told = std::min<std::uint64_t>(f.fault.argument, wire::kCycleStreams);
  for (unsigned i = 0; i < told; ++i) {
    text += (i == 0 ? " " : " → ") + std::to_string((i < 8 ? f.fault.offset : f.fault.pc) >> i % 8 * 8 & 0xff);
  }
  if (told < f.fault.argument) text += " and " + std::to_string(f.fault.argument - told) + " more";
  return text + (granted ? ", and streams of others" : ", each waits for the next, the last for the first");
}

// Cores that waited for the one that failed.
std::string waiting_text(const wire::FaultRecord& fault) {
  if (fault.waiting == 0) return {};
  return " while " + std::to_string(fault.waiting) + (fault.waiting == 1 ? " core" : " cores") +
         " of the launch waited at the barrier";
}

std::string fault_text(const StreamFailure& f) {
  if (f.status == wire::Status::EventFailed || f.status == wire::Status::EventDeadlock) return wait_text(f);
  if (f.fault.access == wire::FaultAccess::None && f.symbol.empty()) return {};
  std::string text;
  if (f.fault.access != wire::FaultAccess::None) {
    const char* verb = f.fault.access == wire::FaultAccess::Load    ? "load"
                       : f.fault.access == wire::FaultAccess::Store ? "store"
                                                                    : "fetch";
    text += std::string(", ") + verb;
    text += f.fault.region_ordinal == wire::kNoRegionOrdinal
                ? " outside of every region, " + place_outside_regions(f.fault.offset)
                : " in region " + std::to_string(f.fault.region_ordinal) + " at offset " + offset_text(f.fault.offset);
    if (!f.operand.empty()) text += " (" + f.operand + ")";
  }
  // A refusal is the engine's way to end: its instruction says nothing.
  if (!f.symbol.empty() && f.refusal.empty()) {
    text += ", pc " + f.symbol + ", core " + std::to_string(f.fault.core);
  }
  text += waiting_text(f.fault);
  if (!f.operation.empty()) text += ", in " + f.operation;
  if (f.status == wire::Status::KernelStatus && !f.refusal.empty()) {
    text += (f.of_index ? ": " : ": the engine refused ") + f.refusal;
  } else if (f.status == wire::Status::KernelStatus) {
    // Any 64 bits of the kernel's choice, an address perhaps; statuses are small by convention (kernels/sdk.hpp).
    text += f.fault.argument < kSplitOffset ? ", status " + hex(f.fault.argument) : ", with a status above 28 bits";
  }
  return text;
}

}  // namespace

StreamFailure bare_failure(const wire::ControlBlock& block, const wire::Completion& completion) noexcept {
  StreamFailure failure;
  failure.stream = completion.stream;
  failure.opcode = block.header.opcode;
  failure.outcome = completion.outcome;
  failure.status = completion.status;
  failure.field = completion.field;
  failure.fault = completion.fault;
  failure.slices = completion.slices;
  return failure;
}

StreamFailure describe_failure(const LaunchedBlock& of, const wire::Completion& completion) {
  const auto& [block, windows, kernel, operands] = of;
  StreamFailure failure = bare_failure(block, completion);
  const bool event = block.header.opcode == wire::Opcode::EventSignal || block.header.opcode == wire::Opcode::EventWait;
  failure.job = kernel != nullptr ? kernel->name() : event ? "event" : "transfer";
  const bool ran = completion.outcome == wire::Outcome::Fault || completion.outcome == wire::Outcome::Timeout;
  if (block.header.opcode == wire::Opcode::Compute && ran && completion.status != wire::Status::Stopped) {
    std::optional<Hit> hit;
    if (completion.fault.region_ordinal != wire::kNoRegionOrdinal &&
        completion.fault.access != wire::FaultAccess::None) {
      hit = find_hit(of, completion.fault);
    }
    if (hit) failure.operand = attribute(of, *hit);
    if (kernel != nullptr) failure.symbol = kernel->symbolise(completion.fault.pc);
    if (kernel != nullptr && completion.status == wire::Status::KernelStatus) {
      note_refusal(*kernel, completion.fault.argument, failure);
    } else if (kernel != nullptr) {
      failure.operation = operation_of(*kernel, completion.fault, hit);
    }
  }
  return failure;
}

ErrorInfo explain(const StreamFailure& f) {
  std::string message(wire::name(f.opcode));
  message += " of job '" + f.job + "' (launch " + std::to_string(f.launch) + ", tile " + std::to_string(f.tile) +
             ", step " + std::to_string(f.step) + ") ended " + std::string(wire::name(f.outcome));
  if (f.status != wire::Status::None) message += ": " + std::string(wire::name(f.status));
  if (f.field != wire::Field::None) message += " in " + std::string(wire::name(f.field));
  message += fault_text(f);
  const bool gone = f.outcome == wire::Outcome::Lost || f.outcome == wire::Outcome::Indeterminate;
  return {.layer = layer_of(f),
          .source = "stream " + std::to_string(f.stream),
          .outcome = f.outcome,
          .recoverable = !gone,
          .next_step = next_step(f),
          .message = std::move(message),
          .status = f.status};
}

ErrorInfo explain_of_one_launch(const StreamFailure& f, std::uint64_t behind) {
  ErrorInfo info = explain(f);
  info.next_step = indices_to_give(f) + " and launch again: the stream goes on";
  if (behind != 0) {
    info.message += "; " + std::to_string(behind) + (behind == 1 ? " launch" : " launches") +
                    " behind it on this stream " + (behind == 1 ? "was" : "were") + " not executed";
  }
  return info;
}

spyre::StreamFailure StreamError::for_programs(const StreamFailure& failure) {
  return {.stream = failure.stream,
          .launch = failure.launch,
          .job = failure.job,
          .tile = failure.tile,
          .step = failure.step,
          .operation = std::string(wire::name(failure.opcode)),
          .outcome = failure.outcome,
          .status = failure.status,
          .operand = failure.operand,
          .symbol = failure.symbol,
          .slices = failure.slices};
}

}  // namespace svp
