// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/buffer_commands.hpp"

#include <cstring>

#include "firmware/core/admin.hpp"
#include "firmware/core/card.hpp"
#include "firmware/core/charges.hpp"
#include "firmware/core/command_buffers.hpp"
#include "firmware/core/control_block_check.hpp"
#include "firmware/core/steps.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/mutants/mutants.hpp"

namespace fw {

using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

namespace {

// Bytes of data that are the block's own.
std::uint64_t tensor_bytes(const ControlBlock& cb) {
  if (cb.header.opcode != Opcode::Compute) return 0;
  const wire::ComputePayload& compute = cb.payload.compute;
  const bool own = compute.correction_bytes != 0 && compute.correction.kind == wire::EndpointKind::BufferData;
  return own ? wire::align_up(compute.correction_bytes, wire::kStickBytes) : 0;
}

Verdict check_create(const Function& function, const wire::AdminRequest& request) {
  const auto& asked = request.arguments.buffer_create;
  if (asked.blocks == 0 || asked.blocks > wire::kMaxBufferBlocks) return {Status::BadCount, Field::AdminBlocks};
  if (asked.data_bytes > wire::kMaxBufferDataBytes || !wire::is_aligned(asked.data_bytes, wire::kStickBytes)) {
    return {Status::BadSize, Field::AdminBytes};
  }
  if (!wire::is_aligned(asked.offset, wire::kStickBytes)) return {Status::BadAlignment, Field::AdminSource};
  const std::uint64_t bytes = asked.blocks * wire::kBufferBlockBytes + asked.data_bytes;
  if (!wire::host_memory(function.window().size()).contains(asked.offset, bytes)) {
    return {Status::NotHostMemory, Field::AdminSource};
  }
  return {};
}

void copy_in(Function& function, CommandBuffer& buffer, std::uint64_t offset) {
  for (std::uint32_t i = 0; i < buffer.blocks; ++i, offset += wire::kBufferBlockBytes) {
    hal::copy(reinterpret_cast<std::byte*>(&buffer.entry(i).cb), function.at<std::byte>(offset),
              wire::kBufferBlockBytes);
  }
  if (buffer.data_bytes != 0) hal::copy(buffer.data(), function.at<std::byte>(offset), buffer.data_bytes);
}

// Whether the block may stand in a buffer with so much data, and what it names is there now.
Verdict judge(const Card& card, Function& function, const ControlBlock& cb, std::uint64_t data_bytes) {
  const Verdict form = check_buffer_block(cb, data_bytes, card.core_mask());
  return form.ok() && !mutated(Mutant::BufferJudged) ? judge_addresses(function, cb) : form;
}

}  // namespace

namespace {

// PendingAdmin::mark of a BUFFER_CREATE: the buffer's id, and the block that is judged next.
struct MakingMark {
  std::uint32_t id;
  std::uint32_t block;
};
constexpr unsigned kBlockShift = 32;
std::uint64_t mark_of(MakingMark mark) { return std::uint64_t{mark.block} << kBlockShift | mark.id; }
MakingMark making_of(std::uint64_t mark) {
  return {static_cast<std::uint32_t>(mark), static_cast<std::uint32_t>(mark >> kBlockShift)};
}

// False: refused.
bool begin_buffer(Card& card, Function& function, PendingAdmin& pending, wire::AdminReply& reply) {
  if (const Verdict v = check_create(function, pending.request); !v.ok()) {
    reply = refusal(v.status, v.field);
    return false;
  }
  const auto& asked = pending.request.arguments.buffer_create;
  const auto made = function.buffers.make(card.spaces, function.id(), asked.blocks, asked.data_bytes);
  if (made.buffer == nullptr) {
    reply = refusal(made.why.status, made.why.field);
    return false;
  }
  copy_in(function, *made.buffer, asked.offset);
  function.charge(2 * made.buffer->page_bytes);  // cleared, then written
  pending.mark = mark_of({made.id, 0});
  return true;
}

// The entry's block is in order, or is not.
Verdict judge_entry(const Card& card, Function& function, CommandBuffer& buffer, std::uint32_t block) {
  BufferEntry& entry = buffer.entry(block);
  function.charge(charge_of_judging(entry.cb));
  const Verdict why = judge(card, function, entry.cb, buffer.data_bytes);
  if (!why.ok()) return why;
  entry.capacity = tensor_bytes(entry.cb);
  if (entry.capacity != 0) entry.data_offset = entry.cb.payload.compute.correction.offset;
  entry.tensor = function.buffers.next_tensor();
  entry.judged = function.regions.names_version();
  return why;
}

}  // namespace

Progress create_buffer(Card& card, Function& function, PendingAdmin& pending, bool resumed, wire::AdminReply& reply) {
  const std::uint64_t charged = function.charged();
  if (!resumed && !begin_buffer(card, function, pending, reply)) return Progress::Answered;
  MakingMark making = making_of(pending.mark);
  CommandBuffer& buffer = function.buffers.unfinished(making.id);
  for (; making.block < buffer.blocks; ++making.block) {
    if (function.charged() - charged >= kQuantumBytes / 4) {
      pending.mark = mark_of(making);
      return Progress::Waits;
    }
    const Verdict why = judge_entry(card, function, buffer, making.block);
    if (why.ok()) continue;
    reply = refusal(why.status, why.field);
    reply.values.buffer.block = making.block;
    reply.values.buffer.argument = why.argument;
    function.buffers.destroy(card.spaces, function.id(), making.id);
    return Progress::Answered;
  }
  // When regions have come or gone meanwhile, the first call finds that its first block was judged before.
  buffer.judged = buffer.entry(0).judged;
  buffer.find_last_signal();
  buffer.state = BufferState::Ready;
  reply.values.buffer.buffer = making.id;
  reply.values.buffer.epoch = buffer.epoch;
  return Progress::Answered;
}

void destroy_buffer(Card& card, Function& function, const wire::AdminRequest& request, wire::AdminReply& reply) {
  const auto& asked = request.arguments.buffer_destroy;
  if (asked.reserved != 0) {
    reply = refusal(Status::ReservedBits, Field::Reserved);
    return;
  }
  Verdict why;
  if (function.buffers.find(asked.buffer, asked.epoch, why) == nullptr) {
    reply = refusal(why.status, Field::AdminBuffer);
    return;
  }
  function.buffers.destroy(card.spaces, function.id(), asked.buffer);
}

// ---- PATCH ----------------------------------------------------------------------------------------------------------

namespace {

// The new block against the one that it replaces.
Verdict check_replacement(const BufferEntry& entry, const ControlBlock& cb, std::uint64_t bytes) {
  if (cb.header.opcode != entry.cb.header.opcode && !mutated(Mutant::PatchKind))
    return {Status::BadOpcode, Field::OpcodeField};
  const std::uint64_t tensor = tensor_bytes(cb);
  if (bytes - wire::kBufferBlockBytes != tensor) return {Status::BadSize, Field::PatchBytes};
  if (tensor == 0) return {};
  if (tensor > entry.capacity) return {Status::OutOfBounds, Field::ComputeCorrectionBytes};
  if (cb.payload.compute.correction.offset != entry.data_offset) return {Status::OutOfBounds, Field::ComputeCorrection};
  return {};
}

// Not begun before it is known to be in order.
Verdict patch_block(Card& card, Function& function, Block& block) {
  const wire::PatchPayload& patch = block.cb.payload.patch;
  Verdict why;
  CommandBuffer* const buffer = function.buffers.find(patch.buffer, patch.epoch, why);
  if (buffer == nullptr) return why;
  if (buffer->users != 0 && !mutated(Mutant::PatchBusy)) return {Status::Busy, Field::CallBuffer};
  if (patch.block >= buffer->blocks) return {Status::OutOfBounds, Field::PatchBlock};
  if (!wire::host_memory(function.window().size()).contains(patch.offset, patch.bytes)) {
    return {Status::NotHostMemory, Field::PatchSource};
  }
  PatchRoom& room = card.patch_room;
  hal::copy(reinterpret_cast<std::byte*>(&room), function.at<std::byte>(patch.offset), patch.bytes);
  function.charge(patch.bytes + kBytesOfAPatch + charge_of_judging(room.cb));
  BufferEntry& entry = buffer->entry(patch.block);
  why = judge(card, function, room.cb, buffer->data_bytes);
  if (why.ok()) why = check_replacement(entry, room.cb, patch.bytes);
  if (!why.ok()) return why;
  block.start_time = hal::now();
  publish_started(function, block);
  if (mutated(Mutant::PatchDone)) return {};
  entry.cb = room.cb;
  std::memcpy(buffer->data() + entry.data_offset, room.tensor.data(), patch.bytes - wire::kBufferBlockBytes);
  entry.tensor = function.buffers.next_tensor();
  entry.judged = function.regions.names_version();
  if (room.cb.header.opcode == Opcode::EventSignal) buffer->find_last_signal();
  return {};
}

}  // namespace

void step_patch(Card& card, Function& function, unsigned index) {
  const Verdict why = patch_block(card, function, function.streams.head(index));
  end_head(function, index, {why.ok() ? Outcome::Ok : Outcome::Rejected, why, hal::now()});
}

}  // namespace fw
