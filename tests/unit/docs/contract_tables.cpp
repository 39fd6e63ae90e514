// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/docs/contract_tables.hpp"

#include <fmt/format.h>
#include <cstddef>

#include "shared/admin.hpp"
#include "shared/control_block.hpp"
#include "shared/fatal_record.hpp"
#include "shared/fault.hpp"
#include "shared/kernel_abi.hpp"
#include "shared/message.hpp"
#include "shared/packed_ring.hpp"
#include "shared/post_codes.hpp"
#include "shared/trace.hpp"
#include "shared/virtio.hpp"
#include "shared/window.hpp"

namespace docs {

namespace {

struct Builder {
  std::vector<Table> tables;

  void begin_struct(const char* name, std::size_t bytes) {
    tables.push_back({fmt::format("struct {} ({} bytes)", name, bytes), {}});
  }
  void field(const char* name, std::size_t offset, std::size_t bytes) {
    tables.back().rows.push_back(fmt::format("| {} | {} | `{}` |", offset, bytes, name));
  }
  // Every number up to `last` that has a name.
  template <typename Enum>
  void enumeration(const char* name, unsigned last, std::string_view unnamed) {
    tables.push_back({fmt::format("enum {}", name), {}});
    for (unsigned i = 0; i <= last; ++i) {
      const std::string_view text = wire::name(static_cast<Enum>(i));
      if (text == unnamed || (text.empty() && i != 0)) continue;
      tables.back().rows.push_back(fmt::format("| {} | {} |", i, text.empty() ? "–" : text));
    }
  }
  void block(const char* name, wire::Block block) {
    tables.back().rows.push_back(fmt::format("| {:#x} | {} | {} |", block.offset, block.bytes, name));
  }
};

#define STRUCT(type) builder.begin_struct(#type, sizeof(wire::type))
#define FIELD(type, member) builder.field(#member, offsetof(wire::type, member), sizeof(wire::type::member))

void add_queue_structs(Builder& builder) {
  STRUCT(Descriptor);
  FIELD(Descriptor, address);
  FIELD(Descriptor, length);
  FIELD(Descriptor, id);
  FIELD(Descriptor, flags);
  STRUCT(MessageHeader);
  FIELD(MessageHeader, type);
  FIELD(MessageHeader, op);
  FIELD(MessageHeader, device);
  FIELD(MessageHeader, token);
  FIELD(MessageHeader, size);
  STRUCT(Fifo);
  FIELD(Fifo, written);
  FIELD(Fifo, read);
  FIELD(Fifo, slots);
  STRUCT(DeviceConfig);
  FIELD(DeviceConfig, abi_version);
  FIELD(DeviceConfig, kind);
  FIELD(DeviceConfig, function_index);
  FIELD(DeviceConfig, slot);
  FIELD(DeviceConfig, generation);
  FIELD(DeviceConfig, boot_epoch);
  FIELD(DeviceConfig, window_bytes);
  FIELD(DeviceConfig, memory_bytes);
  FIELD(DeviceConfig, cores);
  FIELD(DeviceConfig, streams);
  FIELD(DeviceConfig, stream_credits);
  FIELD(DeviceConfig, max_control_blocks);
  FIELD(DeviceConfig, timer_hz);
  FIELD(DeviceConfig, virtual_functions);
  FIELD(DeviceConfig, watchdog_slices);
  FIELD(DeviceConfig, quota_bytes);
  FIELD(DeviceConfig, share_bytes);
  FIELD(DeviceConfig, budget_bytes);
  FIELD(DeviceConfig, array_version);
}

void add_window(Builder& builder) {
  STRUCT(WindowHeader);
  FIELD(WindowHeader, magic);
  FIELD(WindowHeader, abi_version);
  FIELD(WindowHeader, kind);
  FIELD(WindowHeader, function_index);
  FIELD(WindowHeader, slot);
  FIELD(WindowHeader, generation);
  FIELD(WindowHeader, boot_epoch);
  FIELD(WindowHeader, window_bytes);
  FIELD(WindowHeader, heartbeat);
  FIELD(WindowHeader, post_code);
  FIELD(WindowHeader, device_status);
  FIELD(WindowHeader, events_lost);
  FIELD(WindowHeader, record_bytes);
  FIELD(WindowHeader, array_nonce);
  FIELD(WindowHeader, blocks);
  builder.tables.push_back({"blocks of a window", {}});
  builder.block("header", wire::kHeaderBlock);
  builder.block("control FIFO to the card", wire::kFifoToCard);
  builder.block("control FIFO to the host", wire::kFifoToHost);
  builder.block("queues: rings and event areas", wire::kQueueBlock);
  builder.block("control-block slots", wire::kControlBlocks);
  builder.block("completion slots", wire::kCompletions);
  builder.block("`started_seq` words, one per stream", wire::kStartedSequences);
  builder.block("admin requests", wire::kAdminRequests);
  builder.block("admin replies", wire::kAdminReplies);
  builder.block("device events", wire::kEvents);
  builder.block("fatal record (M only)", wire::kFatalRecord);
  builder.block("trace", wire::kTraceRing);
  builder.block("reserved", wire::kReservedBlock);
  builder.block("host memory (default window)", wire::host_memory(wire::kDefaultWindowBytes));
}

void add_trace(Builder& builder) {
  STRUCT(TraceEntry);
  FIELD(TraceEntry, number);
  FIELD(TraceEntry, begin);
  FIELD(TraceEntry, end);
  FIELD(TraceEntry, sequence);
  FIELD(TraceEntry, value);
  FIELD(TraceEntry, stream);
  FIELD(TraceEntry, kind);
  FIELD(TraceEntry, core);
}

void add_control_block(Builder& builder) {
  STRUCT(ControlBlockHeader);
  FIELD(ControlBlockHeader, magic);
  FIELD(ControlBlockHeader, sticks);
  FIELD(ControlBlockHeader, opcode);
  FIELD(ControlBlockHeader, flags);
  FIELD(ControlBlockHeader, stream);
  FIELD(ControlBlockHeader, incarnation);
  FIELD(ControlBlockHeader, generation);
  FIELD(ControlBlockHeader, sequence);
  FIELD(ControlBlockHeader, cookie);
  FIELD(ControlBlockHeader, budget);
  FIELD(ControlBlockHeader, crc32c);
  STRUCT(Endpoint);
  FIELD(Endpoint, region_id);
  FIELD(Endpoint, offset);
  FIELD(Endpoint, generation);
  FIELD(Endpoint, kind);
  STRUCT(DmaPayload);
  FIELD(DmaPayload, source);
  FIELD(DmaPayload, destination);
  FIELD(DmaPayload, bytes);
  FIELD(DmaPayload, checksum);
  FIELD(DmaPayload, flags);
  STRUCT(StridedLevel);
  FIELD(StridedLevel, count);
  FIELD(StridedLevel, source_stride);
  FIELD(StridedLevel, destination_stride);
  STRUCT(StridedPayload);
  FIELD(StridedPayload, depth);
  FIELD(StridedPayload, element_bytes);
  FIELD(StridedPayload, levels);
  STRUCT(StridedDmaPayload);
  FIELD(StridedDmaPayload, dma);
  FIELD(StridedDmaPayload, loops);
  STRUCT(EventPayload);
  FIELD(EventPayload, value);
  FIELD(EventPayload, stream);
  FIELD(EventPayload, incarnation);
  FIELD(EventPayload, flags);
  FIELD(EventPayload, grant);
  FIELD(EventPayload, epoch);
  STRUCT(CallPayload);
  FIELD(CallPayload, buffer);
  FIELD(CallPayload, epoch);
  FIELD(CallPayload, signal_base);
  STRUCT(PatchPayload);
  FIELD(PatchPayload, buffer);
  FIELD(PatchPayload, block);
  FIELD(PatchPayload, epoch);
  FIELD(PatchPayload, offset);
  FIELD(PatchPayload, bytes);

  STRUCT(FillPayload);
  FIELD(FillPayload, destination);
  FIELD(FillPayload, bytes);
  FIELD(FillPayload, pattern);
  STRUCT(ComputePayload);
  FIELD(ComputePayload, image);
  FIELD(ComputePayload, image_bytes);
  FIELD(ComputePayload, correction);
  FIELD(ComputePayload, correction_bytes);
  FIELD(ComputePayload, core_mask);
  FIELD(ComputePayload, segments);
  STRUCT(Segment);
  FIELD(Segment, region_id);
  FIELD(Segment, offset);
  FIELD(Segment, bytes);
  FIELD(Segment, generation);
  FIELD(Segment, access);
}

void add_completion(Builder& builder) {
  STRUCT(Completion);
  FIELD(Completion, outcome);
  FIELD(Completion, status);
  FIELD(Completion, field);
  FIELD(Completion, stream);
  FIELD(Completion, incarnation);
  FIELD(Completion, generation);
  FIELD(Completion, sequence);
  FIELD(Completion, cookie);
  FIELD(Completion, start_time);
  FIELD(Completion, end_time);
  FIELD(Completion, bytes);
  FIELD(Completion, fault);
  FIELD(Completion, slices);
  FIELD(Completion, checksum);
  FIELD(Completion, block);
  STRUCT(FaultRecord);
  FIELD(FaultRecord, access);
  FIELD(FaultRecord, waiting);
  FIELD(FaultRecord, core);
  FIELD(FaultRecord, region_ordinal);
  FIELD(FaultRecord, offset);
  FIELD(FaultRecord, pc);
  FIELD(FaultRecord, argument);
  STRUCT(AdminRequest);
  FIELD(AdminRequest, magic);
  FIELD(AdminRequest, command);
  FIELD(AdminRequest, flags);
  FIELD(AdminRequest, generation);
  FIELD(AdminRequest, cookie);
  FIELD(AdminRequest, arguments);
  STRUCT(AdminReply);
  FIELD(AdminReply, outcome);
  FIELD(AdminReply, status);
  FIELD(AdminReply, field);
  FIELD(AdminReply, cookie);
  FIELD(AdminReply, values);
  STRUCT(DeviceEvent);
  FIELD(DeviceEvent, kind);
  FIELD(DeviceEvent, stream);
  FIELD(DeviceEvent, incarnation);
  FIELD(DeviceEvent, status);
  FIELD(DeviceEvent, time);
  FIELD(DeviceEvent, argument);
  FIELD(DeviceEvent, target);
}

void add_faults(Builder& builder) {
  STRUCT(FaultTrigger);
  FIELD(FaultTrigger, function);
  FIELD(FaultTrigger, stream);
  FIELD(FaultTrigger, opcode);
  FIELD(FaultTrigger, progress);
  FIELD(FaultTrigger, core);
  FIELD(FaultTrigger, waiting);
  FIELD(FaultTrigger, sequence);
  FIELD(FaultTrigger, first);
  FIELD(FaultTrigger, every);
  FIELD(FaultTrigger, shots);
  FIELD(FaultTrigger, not_before);
  STRUCT(FaultSpec);
  FIELD(FaultSpec, operation);
  FIELD(FaultSpec, point);
  FIELD(FaultSpec, action);
  FIELD(FaultSpec, segment);
  FIELD(FaultSpec, fault);
  FIELD(FaultSpec, trigger);
  FIELD(FaultSpec, argument);
  FIELD(FaultSpec, region_id);
  FIELD(FaultSpec, offset);
  STRUCT(FaultEvidence);
  FIELD(FaultEvidence, counted);
  FIELD(FaultEvidence, fired);
  FIELD(FaultEvidence, first_time);
  FIELD(FaultEvidence, last_time);
  FIELD(FaultEvidence, function);
  FIELD(FaultEvidence, stream);
  FIELD(FaultEvidence, sequence);
  FIELD(FaultEvidence, hart);
  FIELD(FaultEvidence, armed);
  FIELD(FaultEvidence, progress);
  FIELD(FaultEvidence, waiting);
  STRUCT(FatalRecord);
  FIELD(FatalRecord, magic);
  FIELD(FatalRecord, version);
  FIELD(FatalRecord, bytes);
  FIELD(FatalRecord, crc32c);
  FIELD(FatalRecord, kind);
  FIELD(FatalRecord, boot_epoch);
  FIELD(FatalRecord, time);
  FIELD(FatalRecord, source);
  FIELD(FatalRecord, hart_count);
  FIELD(FatalRecord, waiting_for);
  FIELD(FatalRecord, next_event);
  FIELD(FatalRecord, build_id);
  FIELD(FatalRecord, reason);
  FIELD(FatalRecord, events);
  FIELD(FatalRecord, harts);
  FIELD(FatalRecord, source_stack);
  STRUCT(RecordedEvent);
  FIELD(RecordedEvent, time);
  FIELD(RecordedEvent, kind);
  FIELD(RecordedEvent, a);
  FIELD(RecordedEvent, b);
  STRUCT(RecordedHart);
  FIELD(RecordedHart, state);
  FIELD(RecordedHart, waypoint);
  FIELD(RecordedHart, pc);
  FIELD(RecordedHart, status);
  FIELD(RecordedHart, cause);
  FIELD(RecordedHart, value);
  FIELD(RecordedHart, x);
}

void add_kernel(Builder& builder) {
  STRUCT(ImageHeader);
  FIELD(ImageHeader, magic);
  FIELD(ImageHeader, abi_version);
  FIELD(ImageHeader, crc32c);
  FIELD(ImageHeader, image_bytes);
  FIELD(ImageHeader, text_offset);
  FIELD(ImageHeader, text_bytes);
  FIELD(ImageHeader, pool_offset);
  FIELD(ImageHeader, pool_bytes);
  FIELD(ImageHeader, correction_entry);
  FIELD(ImageHeader, compute_entry);
  FIELD(ImageHeader, scratchpad_bytes);
  FIELD(ImageHeader, max_correction_bytes);
  STRUCT(KernelArguments);
  FIELD(KernelArguments, core_index);
  FIELD(KernelArguments, core_count);
  FIELD(KernelArguments, correction_address);
  FIELD(KernelArguments, correction_bytes);
  FIELD(KernelArguments, pool_address);
  FIELD(KernelArguments, pool_bytes);
  FIELD(KernelArguments, compute_entry);
  FIELD(KernelArguments, scratchpad_address);
  FIELD(KernelArguments, scratchpad_bytes);
  FIELD(KernelArguments, array_version);
  STRUCT(CorrectionHeader);
  FIELD(CorrectionHeader, magic);
  FIELD(CorrectionHeader, mode);
  FIELD(CorrectionHeader, symbol_count);
  FIELD(CorrectionHeader, region_count);
  FIELD(CorrectionHeader, region);
  STRUCT(CorrectionSymbol);
  FIELD(CorrectionSymbol, kind);
  FIELD(CorrectionSymbol, operand);
  FIELD(CorrectionSymbol, region_id);
  FIELD(CorrectionSymbol, value);
}

}  // namespace

std::vector<Table> contract_tables() {
  Builder builder;
  add_window(builder);
  add_trace(builder);
  add_queue_structs(builder);
  add_control_block(builder);
  add_completion(builder);
  add_faults(builder);
  add_kernel(builder);
  builder.enumeration<wire::Outcome>("Outcome", 63, "unknown outcome");
  builder.enumeration<wire::Opcode>("Opcode", 255, "unknown opcode");
  builder.enumeration<wire::AdminCommand>("AdminCommand", 255, "unknown admin command");
  builder.enumeration<wire::FunctionState>("FunctionState", 255, "unknown state");
  builder.enumeration<wire::EventKind>("EventKind", 255, "unknown event");
  builder.enumeration<wire::MessageOp>("MessageOp", 255, "unknown message");
  builder.enumeration<wire::Status>("Status", 999, "unknown status");
  builder.enumeration<wire::Field>("Field", 255, "unknown field");
  builder.enumeration<wire::FaultPoint>("FaultPoint", 255, "unknown fault point");
  builder.enumeration<wire::FaultAction>("FaultAction", 255, "unknown fault action");
  builder.enumeration<wire::FatalKind>("FatalKind", 255, "unknown");
  builder.enumeration<wire::Waypoint>("Waypoint", 255, "unknown waypoint");
  builder.enumeration<wire::RecordedEventKind>("RecordedEventKind", 255, "unknown event");
  builder.enumeration<wire::PostCode>("PostCode", 255, "unknown POST code");
  return builder.tables;
}

}  // namespace docs
