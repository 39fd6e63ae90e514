// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/raw/attempts.hpp"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "tests/support/blocks.hpp"
#include "tests/support/buffer_entry.hpp"
#include "tests/validation/raw/bare_slot.hpp"

namespace raw {

using wire::AdminCommand;
using wire::ControlBlock;
using wire::kStickBytes;
using wire::Opcode;

namespace {
constexpr std::uint64_t kMax = ~std::uint64_t{0};
constexpr std::uint32_t kStick = kStickBytes;
constexpr auto kLastOpcode = static_cast<unsigned>(wire::kLastOpcode);
constexpr auto kLastAdminCommand = static_cast<unsigned>(wire::kLastAdminCommand);
}  // namespace

// ---- words ----------------------------------------------------------------------------------------------------------

std::uint64_t Attempts::word() {
  switch (below(6)) {
    case 0: return 0;
    case 1: return kMax - below(300);
    case 2: return std::uint64_t{1} << below(64);
    case 3: return below(256);
    case 4: return (std::uint64_t{1} << below(64)) - 1;
    default: return random_();
  }
}

RegionHandle Attempts::some_region() {
  const unsigned pick = below(5);
  if (pick == 0) return targets_.program;
  if (pick == 1) return targets_.released;
  if (pick == 2 && !targets_.foreign.empty())
    return targets_.foreign[below(static_cast<unsigned>(targets_.foreign.size()))];
  return targets_.tensor;
}

// Names of others, physical bases, neighbours of what is its own, and none.
std::uint64_t Attempts::some_region_id() {
  const std::uint64_t known = some_region().id;
  switch (below(8)) {
    case 0: return wire::kNoRegion;
    case 1: return known + wire::kGranuleBytes;
    case 2: return known - wire::kGranuleBytes;
    case 3: return 0x80000000 + std::uint64_t{below(64)} * wire::kGranuleBytes;     // the firmware
    case 4: return 0x100000000 + std::uint64_t{below(4096)} * wire::kGranuleBytes;  // region memory
    case 5: return below(10);
    case 6: return word();
    default: return known;
  }
}

std::uint32_t Attempts::some_generation() {
  const std::uint32_t known = some_region().generation;
  switch (below(5)) {
    case 0: return known + 1;
    case 1: return known - 1;
    case 2: return 0;
    case 3: return static_cast<std::uint32_t>(word());
    default: return known;
  }
}

std::uint64_t Attempts::some_offset() {
  switch (below(6)) {
    case 0: return targets_.tensor.bytes - kStick;
    case 1: return targets_.tensor.bytes;
    case 2: return kMax - (kStick - 1);
    case 3: return word();
    default: return std::uint64_t{below(1024)} * kStick;
  }
}

std::uint64_t Attempts::some_window_offset() {
  constexpr wire::Block kBlocks[] = {wire::kHeaderBlock,      wire::kFifoToCard,    wire::kFifoToHost,
                                     wire::kQueueBlock,       wire::kControlBlocks, wire::kCompletions,
                                     wire::kStartedSequences, wire::kAdminRequests, wire::kAdminReplies,
                                     wire::kEvents,           wire::kFatalRecord,   wire::kReservedBlock};
  switch (below(5)) {
    case 0: return kBlocks[below(std::size(kBlocks))].offset + below(64) * kStick;
    case 1: return targets_.window_bytes - below(4) * 64;
    case 2: return word();
    default: return wire::kHostMemoryOffset + below(1 << 20);
  }
}

// ---- control blocks -------------------------------------------------------------------------------------------------

wire::Endpoint Attempts::some_endpoint() {
  wire::Endpoint end{};
  if (below(2) == 0) return RawDriver::host(some_window_offset());
  const RegionHandle region = some_region();
  end = RawDriver::device(region, some_offset());
  return end;
}

void Attempts::make_transfer(ControlBlock& block) {
  auto& header = block.header;
  const auto host = RawDriver::host(wire::kHostMemoryOffset + below(1 << 20));
  const auto device = RawDriver::device(targets_.tensor, std::uint64_t{below(1024)} * kStick);
  const std::uint64_t bytes = 1 + below(64 * 1024);
  switch (below(4)) {
    case 0: stride(block, host, device); break;
    case 1:
      header.opcode = Opcode::Dma;
      block.payload.dma = {host, device, bytes, 0, 0};
      break;
    case 2:
      header.opcode = Opcode::Dma;
      block.payload.dma = {device, host, bytes, 0, 0};
      break;
    default: header.opcode = Opcode::Fill; block.payload.fill = {device, bytes, random_(), {}};
  }
}

void Attempts::make_launch(ControlBlock& block) {
  block.header.opcode = Opcode::Compute;
  block.header.sticks = 4;
  block.payload.compute.image = RawDriver::device(targets_.program, targets_.image_offset);
  block.payload.compute.image_bytes = targets_.image_bytes != 0 ? targets_.image_bytes : 4096;
  block.payload.compute.core_mask = below(3);
  for (auto& segment : block.payload.compute.segments) {
    if (below(3) != 0) continue;
    segment = {targets_.tensor.id,         std::uint64_t{below(1024)} * kStick,     1 + below(4096),
               targets_.tensor.generation, static_cast<std::uint8_t>(1 + below(3)), {}};
  }
}

// Signals, waits for streams of its own, and for somebody else's: those end at once, or by their budget.
void Attempts::make_event(ControlBlock& block) {
  auto& event = block.payload.event;
  const unsigned kind = below(3);
  block.header.opcode = kind == 0 ? Opcode::EventSignal : Opcode::EventWait;
  if (kind == 0) {
    event.value = ++signalled_;
    signaller_ = block.header.stream;
    return;
  }
  block.header.budget = 1 + below(1000);
  event.incarnation = block.header.incarnation;
  if (kind == 1) {
    event.value = 1 + (below(4) != 0 ? below(kSignalled + 1) : below(static_cast<unsigned>(signalled_) + 2));
    const std::uint32_t known[] = {block.header.stream, signaller_, below(wire::kStreamsPerFunction)};
    event.stream = below(2) == 0 ? targets_.signalled : known[below(3)];
    return;
  }
  event.value = 1 + below(3);
  event.incarnation = below(3);
  event.flags = wire::kEventGranted;
  event.grant = below(wire::kGrantsPerFunction + 2);
  event.epoch = word();
  if (targets_.grants.empty() || below(2) != 0) return;
  const GrantHandle& known = targets_.grants[below(static_cast<unsigned>(targets_.grants.size()))];
  event.grant = known.index;
  event.epoch = known.epoch + below(3);
}

BufferHandle Attempts::some_buffer_handle() {
  BufferHandle buffer{below(4), 1 + below(2), 1 + below(64), below(2) == 0};
  if (!targets_.buffers.empty() && below(8) != 0) {
    buffer = targets_.buffers[below(static_cast<unsigned>(targets_.buffers.size()))];
  }
  if (below(16) == 0) buffer.epoch += below(3);
  return buffer;
}

void Attempts::make_call(ControlBlock& block) {
  const BufferHandle buffer = some_buffer_handle();
  const bool alone = buffer.launch ? below(4) != 0 : below(8) == 0;
  block.header.opcode = alone ? Opcode::Prepared : Opcode::Call;
  block.payload.call.buffer = buffer.id;
  block.payload.call.epoch = buffer.epoch;
  // Signals of the buffer are larger than those before them.
  if (!alone && below(8) != 0) block.payload.call.signal_base = signalled_ += 8;
}

void Attempts::make_patch(ControlBlock& block) {
  const BufferHandle buffer = some_buffer_handle();
  block.header.opcode = Opcode::Patch;
  block.payload.patch = {.buffer = buffer.id,
                         .block = below(buffer.blocks + below(2)),
                         .epoch = buffer.epoch,
                         .offset = entries() + below(kEntries) * wire::kBufferBlockBytes,
                         .bytes = wire::kBufferBlockBytes,
                         .reserved = {}};
}

void Attempts::make_bufferable(ControlBlock& block) {
  switch (below(8)) {
    case 0: return;  // NOP
    case 1:
    case 2: return make_event(block);
    case 3:
    case 4: return make_launch(block);
    default: return make_transfer(block);
  }
}

// Good, and cheap: at most 64 KiB move.
ControlBlock Attempts::base(const StreamHandle& stream) {
  ControlBlock block{};
  auto& header = block.header;
  header.magic = wire::kControlBlockMagic;
  header.sticks = 1;
  header.stream = stream.id;
  header.incarnation = stream.incarnation;
  header.generation = targets_.generation;
  header.sequence = stream.next_sequence;
  header.cookie = random_();
  switch (below(8)) {
    case 0: make_call(block); break;
    case 1:
    case 2: make_patch(block); break;
    default: make_bufferable(block);
  }
  return block;
}

ControlBlock Attempts::entry() {
  StreamHandle stream;
  ControlBlock block = base(stream);
  // In most cases what a buffer may hold.
  while (!wire::is_bufferable(block.header.opcode) && below(16) != 0) block = base(stream);  // the draws end it
  if (targets_.image_bytes != 0 && below(2) == 0) {
    block = {};
    make_launch(block);
  }
  block = svp::test::buffer_entry(block);
  // Behind the base that a call gives.
  if (block.header.opcode == Opcode::EventSignal) block.payload.event.value = 1 + below(4);
  if (below(4) == 0) spoil(block);
  bound_wait(block);
  return block;
}

// Up to 4096 elements, transposed.
void Attempts::stride(ControlBlock& block, wire::Endpoint from, const wire::Endpoint& to) {
  from.offset -= from.offset % 8;
  const std::uint64_t rows = 1 + below(64);
  const std::uint64_t columns = 1 + below(64);
  const wire::StridedLevel levels[] = {{rows, static_cast<std::int64_t>(columns), 1},
                                       {columns, 1, static_cast<std::int64_t>(rows)}};
  const bool there = below(2) == 0;
  const ControlBlock strided = svp::test::Blocks::strided(there ? from : to, there ? to : from, 1u << below(4), levels);
  block.header.opcode = Opcode::Dma;
  block.header.sticks = 3;
  block.payload = strided.payload;
}

void Attempts::spoil_loops(wire::StridedPayload& loops) {
  wire::StridedLevel& level = loops.levels[below(4) == 0 ? below(wire::kStridedLevels) : below(3)];
  switch (below(6)) {
    case 0: loops.depth = below(2) == 0 ? below(10) : static_cast<std::uint32_t>(word()); break;
    case 1: loops.element_bytes = below(2) == 0 ? below(17) : static_cast<std::uint32_t>(word()); break;
    case 2: level.count = word(); break;
    case 3: level.source_stride = static_cast<std::int64_t>(word()); break;
    case 4: level.destination_stride = static_cast<std::int64_t>(word()); break;
    default: loops.reserved[below(7)] = word(); break;
  }
}

void Attempts::spoil_header(wire::ControlBlockHeader& header) {
  switch (below(13)) {
    case 0: header.magic = static_cast<std::uint32_t>(word()); break;
    case 1: header.sticks = static_cast<std::uint8_t>(word()); break;
    case 2:
      header.opcode = static_cast<Opcode>(below(2) == 0 ? below(kLastOpcode + 1) : static_cast<unsigned>(word()));
      break;
    case 3: header.flags = static_cast<std::uint16_t>(word()); break;
    case 4: header.stream = below(2) == 0 ? below(140) : static_cast<std::uint32_t>(word()); break;
    case 5: header.incarnation += below(2) == 0 ? 1 : -1; break;
    case 6: header.incarnation = static_cast<std::uint32_t>(word()); break;
    case 7: header.generation += below(2) == 0 ? 1 : kMax; break;
    case 8: header.generation = word(); break;
    case 9: header.sequence = below(2) == 0 ? header.sequence + 1 : word(); break;
    case 10: header.budget = word(); break;
    case 11: header.crc32c = static_cast<std::uint32_t>(word()); break;
    default: (below(2) == 0 ? header.reserved1 : header.cookie) = word(); break;
  }
}

void Attempts::spoil_endpoint(wire::Endpoint& end) {
  switch (below(7)) {
    case 0: end = some_endpoint(); break;
    case 1: end.region_id = some_region_id(); break;
    case 2: end.generation = some_generation(); break;
    case 3: end.offset = end.kind == wire::EndpointKind::Region ? some_offset() : some_window_offset(); break;
    case 4: end.kind = static_cast<wire::EndpointKind>(below(4)); break;
    case 5: end.reserved[below(3)] = static_cast<std::uint8_t>(word()); break;
    default: {  // somebody else's region, by its very name
      const RegionHandle region = some_region();
      end.region_id = region.id;
      end.generation = region.generation;
    }
  }
}

void Attempts::spoil_segment(wire::Segment& segment) {
  switch (below(6)) {
    case 0: segment.region_id = some_region_id(); break;
    case 1: segment.generation = some_generation(); break;
    case 2: segment.offset = some_offset(); break;
    case 3: segment.bytes = word(); break;
    case 4: segment.access = static_cast<std::uint8_t>(word()); break;
    default: segment.reserved[below(3)] = static_cast<std::uint8_t>(word()); break;
  }
}

void Attempts::spoil_compute(wire::ComputePayload& compute) {
  switch (below(8)) {
    case 0: spoil_endpoint(compute.image); break;
    case 1: compute.image_bytes = word(); break;
    case 2:
      compute.correction = some_endpoint();
      compute.correction_bytes = 1 + below(8192);
      break;
    case 3: compute.correction_bytes = word(); break;
    case 4: compute.core_mask = word(); break;
    case 5: compute.reserved[below(7)] = word(); break;
    default: spoil_segment(compute.segments[below(wire::kSegments)]); break;
  }
}

void Attempts::spoil_payload(ControlBlock& block) {
  auto& payload = block.payload;
  if (below(6) == 0) {  // any bit
    const unsigned words = block.header.opcode == Opcode::Compute ? 56 : wire::is_strided(block) ? 40 : 8;
    payload.words[below(words)] ^= std::uint64_t{1} << below(64);
    return;
  }
  switch (block.header.opcode) {
    case Opcode::Dma:
      if (wire::is_strided(block) && below(2) == 0) return spoil_loops(payload.strided.loops);
      switch (below(4)) {
        case 0: return spoil_endpoint(payload.dma.source);
        case 1: return spoil_endpoint(payload.dma.destination);
        case 2: payload.dma.bytes = word(); return;
        default:
          (below(2) == 0 ? payload.dma.flags : payload.dma.checksum) = static_cast<std::uint32_t>(word());
          return;
      }
    case Opcode::Fill:
      if (below(2) == 0) return spoil_endpoint(payload.fill.destination);
      payload.fill.bytes = word();
      return;
    case Opcode::Compute: return spoil_compute(payload.compute);
    default: payload.words[below(8)] = word(); return;
  }
}

// A wait may have any budget, or none: spoilt into one for a value that its own stream never reaches, it would rightly
// stand for ever.
void Attempts::bound_wait(ControlBlock& block) {
  auto& header = block.header;
  if (header.opcode != Opcode::EventWait) return;
  if (header.budget == 0 || header.budget > kLongestWait) header.budget = 1 + below(kLongestWait);
}

void Attempts::spoil(ControlBlock& block) {
  // The payload first: what the block is said to be may change afterwards.
  if (below(3) != 0) {
    spoil_payload(block);
  } else {
    spoil_header(block.header);
  }
}

ControlBlock Attempts::control_block(const StreamHandle& stream) {
  ControlBlock block = base(stream);
  if (below(8) == 0) return block;
  for (unsigned more = 1 + below(3); more != 0; --more) spoil(block);
  bound_wait(block);
  return block;
}

// ---- admin requests -------------------------------------------------------------------------------------------------

bool Attempts::may_touch(AdminCommand command, wire::Target target) const {
  const bool own = target == wire::kTargetSelf || target == wire::kTargetPhysical + targets_.function_index;
  if (targets_.kind == wire::FunctionKind::Physical) return target <= wire::kTargetPhysical + targets_.functions;
  return own && command == AdminCommand::FunctionReset;
}

wire::Target Attempts::some_target(AdminCommand command) {
  for (;;) {  // bounded: one of two draws is a target, half of them allowed
    const auto target = below(2) == 0 ? below(24) : static_cast<wire::Target>(word());
    const bool entitled =
        (command == AdminCommand::FunctionReset || command == AdminCommand::QuotaSet) && may_touch(command, target);
    if (!entitled) return target;
  }
}

wire::AdminRequest Attempts::admin_request() {
  return admin_request(
      static_cast<AdminCommand>(below(16) == 0 ? static_cast<unsigned>(word()) : below(kLastAdminCommand + 1)));
}

wire::AdminRequest Attempts::admin_request(AdminCommand command) {
  wire::AdminRequest request{};
  request.magic = below(16) == 0 ? static_cast<std::uint32_t>(word()) : wire::kAdminMagic;
  request.generation = below(16) == 0 ? word() : targets_.generation;
  request.flags = below(16) == 0 ? static_cast<std::uint16_t>(word()) : std::uint16_t{0};
  request.command = command;
  for (auto& any : request.arguments.words) any = below(3) == 0 ? word() : 0;
  make_arguments(request);
  return request;
}

// From kEntries / 2 on there is room for as many blocks as are asked for, and for their data.
void Attempts::make_buffer_arguments(wire::AdminRequest& request) {
  auto& arguments = request.arguments;
  arguments = {};
  if (request.command == AdminCommand::BufferDestroy) {
    const BufferHandle buffer = some_buffer_handle();
    arguments.buffer_destroy = {buffer.id, 0, buffer.epoch};
  } else {
    arguments.buffer_create = {entries() + below(kEntries / 2) * wire::kBufferBlockBytes,
                               below(2) == 0 ? 1 : 1 + below(kEntries / 2), below(4) == 0 ? below(8) * kStick : 0};
  }
  if (below(8) == 0) arguments.words[below(2)] = word();
}

void Attempts::make_arguments(wire::AdminRequest& request) {
  auto& arguments = request.arguments;
  switch (request.command) {
    case AdminCommand::RegionAcquire:
      arguments.region_acquire = {word(), static_cast<wire::RegionType>(below(3))};
      break;
    case AdminCommand::RegionRelease: do { arguments.region_release = {some_region_id(), some_generation()};
      } while (arguments.region_release.region_id == targets_.tensor.id ||
               arguments.region_release.region_id == targets_.program.id);
      break;
    case AdminCommand::StreamOpen: arguments.stream_open.priority = below(3); break;
    case AdminCommand::StreamReset:
    case AdminCommand::StreamClose: arguments.stream = {below(140), below(4)}; break;
    case AdminCommand::Cancel: arguments.cancel = {below(140), below(4), 1 + below(3)}; break;
    case AdminCommand::SelfTest:
      arguments.self_test = {static_cast<wire::SelfTestKind>(below(4)), below(100), some_window_offset()};
      if (below(2) == 0) arguments.self_test.offset = wire::kHostMemoryOffset + std::uint64_t{below(1024)} * kStick;
      break;
    case AdminCommand::FunctionReset:
    case AdminCommand::SlotBind:
    case AdminCommand::SlotRetire:
    case AdminCommand::FunctionQuery:
    case AdminCommand::Stats: arguments.function = {some_target(request.command), below(40)}; break;
    case AdminCommand::Trace: arguments.trace.on = below(3); break;
    case AdminCommand::BufferCreate:
    case AdminCommand::BufferDestroy: return make_buffer_arguments(request);
    case AdminCommand::EventGrant:
      arguments.event_grant = {below(24), below(24), below(140), below(4), some_generation(), some_generation()};
      break;
    case AdminCommand::EventRevoke: arguments.event_revoke = {below(24), below(70), word()}; break;
    case AdminCommand::QuotaSet:
      arguments.quota = {some_target(request.command), static_cast<std::uint32_t>(below(4) == 0 ? word() : 0), word()};
      break;
    default: break;
  }
}

// ---- chains ---------------------------------------------------------------------------------------------------------

RawBuffer Attempts::some_buffer() {
  const bool writable = below(2) == 0;
  RawBuffer buffer{writable ? completion_at(below(512)) : block_at(below(512)), kStick, writable};
  if (below(3) == 0) buffer.offset = some_window_offset();
  if (below(4) == 0) buffer.bytes = below(2) == 0 ? below(6) * kStick : static_cast<std::uint32_t>(word());
  if (below(6) == 0) buffer.writable = !buffer.writable;
  return buffer;
}

Attempts::Chain Attempts::chain() {
  Chain chain;
  switch (below(8)) {
    case 0:  // a good form, buffers anywhere
    case 1: chain.buffers = {some_buffer(), some_buffer()}; break;
    case 2: chain.buffers = {{completion_at(below(512)), kStick, true}, {block_at(below(512)), kStick, false}}; break;
    case 3:
      chain.buffers = {some_buffer()};
      chain.partly_published = below(3) == 0;
      break;
    case 4:  // through a table; not all are where a table may be
      chain.buffers = {{below(3) == 0 ? some_window_offset() : table(), below(2) == 0 ? 32u : below(80) * 8, false}};
      chain.more_flags = wire::kDescIndirect;
      chain.partly_published = below(16) == 0;
      break;
    case 5:  // over-long
      chain.buffers.resize(3 + below(below(16) == 0 ? 600 : 30));
      std::ranges::generate(chain.buffers, [this] { return some_buffer(); });
      break;
    default: chain.buffers = {{block_at(below(512)), kStick, false}, {completion_at(below(512)), kStick, true}}; break;
  }
  return chain;
}

std::vector<wire::DescriptorWords> Attempts::table_words() {
  std::vector<wire::DescriptorWords> words(8);
  for (auto& entry : words) {
    const RawBuffer buffer = some_buffer();
    auto flags = buffer.writable ? wire::kDescWrite : std::uint16_t{0};
    if (below(6) == 0) flags = static_cast<std::uint16_t>(word());
    entry = {buffer.offset, wire::pack_tail({buffer.bytes, static_cast<std::uint16_t>(word()), flags})};
  }
  return words;
}

}  // namespace raw
