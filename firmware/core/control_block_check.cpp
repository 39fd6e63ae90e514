// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/control_block_check.hpp"

#include <cstddef>
#include <cstring>

#include "firmware/mutants/mutants.hpp"
#include "shared/command_buffer.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"
#include "shared/strided.hpp"

namespace fw {

using wire::ControlBlock;
using wire::Field;
using wire::Opcode;
using wire::Status;

Verdict check_frame(const wire::ControlBlockHeader& header, std::uint32_t readable_bytes) {
  if (header.magic != wire::kControlBlockMagic) return {Status::BadMagic, Field::Magic};
  if (header.sticks == 0 || header.sticks > wire::kMaxControlBlockSticks ||
      header.sticks * wire::kStickBytes != readable_bytes) {
    return {Status::BadSize, Field::Sticks};
  }
  return {};
}

namespace {

bool all_zero(const std::uint8_t* bytes, std::size_t count) {
  // By words: this looks at every reserved byte of every block.
  std::uint64_t any = 0;
  std::size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    any |= word;
  }
  for (; i < count; ++i) any |= bytes[i];
  return any == 0;
}

[[gnu::noinline]] bool crc_matches(const ControlBlock& block) {
  constexpr std::size_t kAt = offsetof(wire::ControlBlockHeader, crc32c);
  constexpr std::uint32_t kZero = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&block);
  std::uint32_t crc = wire::crc32c(0, bytes, kAt);
  crc = wire::crc32c(crc, &kZero, sizeof kZero);
  crc = wire::crc32c(crc, bytes + kAt + sizeof kZero, block.header.sticks * wire::kStickBytes - kAt - sizeof kZero);
  return crc == block.header.crc32c && !mutated(Mutant::RightCrc);
}

// What the offset of an end must be a multiple of. Linear transfers are stick-aligned on the device side, and bytes are
// bytes on the host side (protocol, preamble); strided ones are aligned to their elements.
struct Alignment {
  std::uint64_t in_region = wire::kStickBytes;
  std::uint64_t in_window = 1;
};

Verdict check_endpoint(const wire::Endpoint& endpoint, Field field, Alignment alignment = {}) {
  const bool region = endpoint.kind == wire::EndpointKind::Region;
  if (endpoint.kind != wire::EndpointKind::HostMemory && !region) return {Status::BadEndpointKind, field};
  if (!all_zero(endpoint.reserved, sizeof endpoint.reserved)) return {Status::ReservedBits, field};
  if (!region && (endpoint.region_id != 0 || endpoint.generation != 0)) return {Status::ReservedBits, field};
  if (!wire::is_aligned(endpoint.offset, region ? alignment.in_region : alignment.in_window)) {
    return {Status::BadAlignment, field};
  }
  return {};
}

Verdict check_ends(const wire::DmaPayload& dma, Alignment alignment = {}) {
  if (const Verdict v = check_endpoint(dma.source, Field::DmaSource, alignment); !v.ok()) return v;
  if (const Verdict v = check_endpoint(dma.destination, Field::DmaDestination, alignment); !v.ok()) return v;
  if (dma.source.kind == wire::EndpointKind::HostMemory && dma.destination.kind == wire::EndpointKind::HostMemory) {
    return {Status::BadEndpointKind, Field::DmaDestination};
  }
  return {};
}

// The numbers of each level; what they come to is check_nest()'s.
Verdict check_levels(const wire::StridedPayload& loops) {
  if (loops.depth == 0 || loops.depth > wire::kStridedLevels) return {Status::BadCount, Field::StridedDepth};
  if (!wire::is_element_size(loops.element_bytes)) return {Status::BadSize, Field::StridedElement};
  if (!all_zero(reinterpret_cast<const std::uint8_t*>(loops.reserved), sizeof loops.reserved)) {
    return {Status::ReservedBits, Field::Reserved};
  }
  for (unsigned i = 0; i < wire::kStridedLevels; ++i) {
    const wire::StridedLevel& level = loops.levels[i];
    if (i < loops.depth && level.count == 0) return {Status::BadCount, Field::StridedCount, i};
    if (i >= loops.depth && (level.count | static_cast<std::uint64_t>(level.source_stride) |
                             static_cast<std::uint64_t>(level.destination_stride)) != 0) {
      return {Status::ReservedBits, Field::StridedLevelUnused, i};
    }
  }
  return {};
}

// What all levels come to together, before anything is known of regions: no number of it overflows, the elements are
// as many bytes as the block says, and each has a place of its own in the destination.
Verdict check_nest(const wire::StridedDmaPayload& strided) {
  const wire::StridedPayload& loops = strided.loops;
  unsigned level = 0;
  const auto elements = wire::element_count(loops, level);
  if (!elements) return {Status::Overflow, Field::StridedCount, level};
  std::uint64_t bytes;
  if (__builtin_mul_overflow(*elements, std::uint64_t{loops.element_bytes}, &bytes)) {
    return {Status::Overflow, Field::StridedCount, loops.depth - 1};
  }
  if (bytes != strided.dma.bytes) return {Status::BadSize, Field::DmaBytes};
  const auto source = wire::reach_of(loops, &wire::StridedLevel::source_stride);
  if (!source || !source->fits(strided.dma.source.offset)) return {Status::Overflow, Field::StridedSource};
  const auto destination = wire::reach_of(loops, &wire::StridedLevel::destination_stride);
  if (!destination || !destination->fits(strided.dma.destination.offset)) {
    return {Status::Overflow, Field::StridedDestination};
  }
  if (!wire::elements_distinct(loops)) return {Status::Overlap, Field::StridedDestination};
  return {};
}

[[gnu::noinline]] Verdict check_strided(const wire::StridedDmaPayload& strided) {
  if (const Verdict v = check_levels(strided.loops); !v.ok()) return v;
  const std::uint64_t element = strided.loops.element_bytes;
  if (const Verdict v = check_ends(strided.dma, {element, element}); !v.ok()) return v;
  return check_nest(strided);
}

constexpr std::uint32_t kDmaFlags = wire::kDmaChecksum | wire::kDmaStrided | wire::kDmaAhead;

bool may_go_ahead(const wire::DmaPayload& dma) {
  return (dma.flags & wire::kDmaStrided) == 0 && dma.source.kind == wire::EndpointKind::HostMemory &&
         dma.destination.kind == wire::EndpointKind::Region && dma.bytes <= wire::kMaxCorrectionBytes;
}

[[gnu::noinline]] Verdict check_dma(const wire::StridedDmaPayload& strided) {
  const wire::DmaPayload& dma = strided.dma;
  if ((dma.flags & ~kDmaFlags) != 0) return {Status::BadFlags, Field::DmaFlags};
  if ((dma.flags & wire::kDmaAhead) != 0 && !may_go_ahead(dma)) return {Status::BadFlags, Field::DmaFlags};
  // Only who sends bytes into the card knows their sum before.
  const bool sum_allowed = (dma.flags & wire::kDmaChecksum) != 0 && dma.source.kind == wire::EndpointKind::HostMemory;
  if (dma.checksum != 0 && !sum_allowed) return {Status::BadFlags, Field::DmaFlags};
  if (dma.bytes == 0) return {Status::BadSize, Field::DmaBytes};
  if ((dma.flags & wire::kDmaStrided) != 0) return check_strided(strided);
  return check_ends(dma);
}

[[gnu::noinline]] Verdict check_fill(const wire::FillPayload& fill) {
  if (fill.bytes == 0) return {Status::BadSize, Field::FillBytes};
  if (!all_zero(fill.reserved, sizeof fill.reserved)) return {Status::ReservedBits, Field::Reserved};
  if (fill.destination.kind != wire::EndpointKind::Region) return {Status::BadEndpointKind, Field::FillDestination};
  return check_endpoint(fill.destination, Field::FillDestination);
}

Verdict check_correction(const wire::Endpoint& correction, BlockPlace place) {
  if (correction.kind == wire::EndpointKind::BufferData && place == BlockPlace::Buffer) {
    if (!all_zero(correction.reserved, sizeof correction.reserved) || correction.region_id != 0 ||
        correction.generation != 0) {
      return {Status::ReservedBits, Field::ComputeCorrection};
    }
    if (!wire::is_aligned(correction.offset, wire::kStickBytes)) {
      return {Status::BadAlignment, Field::ComputeCorrection};
    }
    return {};
  }
  if (correction.kind != wire::EndpointKind::Region) return {Status::BadEndpointKind, Field::ComputeCorrection};
  return check_endpoint(correction, Field::ComputeCorrection);
}

[[gnu::noinline]] Verdict check_compute(const wire::ComputePayload& compute, std::uint64_t budget,
                                        std::uint64_t existing_cores, BlockPlace place) {
  if (compute.image.kind != wire::EndpointKind::Region) return {Status::BadEndpointKind, Field::ComputeImage};
  if (const Verdict v = check_endpoint(compute.image, Field::ComputeImage); !v.ok()) return v;
  // Bounded here already: what is no image must not cost hart 0 a checksum over gigabytes.
  if (compute.image_bytes < sizeof(wire::ImageHeader) || compute.image_bytes > wire::kMaxImageBytes) {
    return {Status::BadSize, Field::ComputeImageBytes};
  }
  if (budget > wire::kMaxBudgetSlices) return {Status::BadBudget, Field::Budget};
  if (compute.correction_bytes > wire::kMaxCorrectionBytes) {
    return {Status::CorrectionTooLarge, Field::ComputeCorrectionBytes};
  }
  if (compute.correction_bytes != 0) {
    if (const Verdict v = check_correction(compute.correction, place); !v.ok()) return v;
  }
  if ((compute.core_mask & ~existing_cores) != 0) return {Status::BadCoreMask, Field::ComputeCoreMask};
  if (!all_zero(reinterpret_cast<const std::uint8_t*>(compute.reserved), sizeof compute.reserved)) {
    return {Status::ReservedBits, Field::Reserved};
  }
  const unsigned rows = segment_rows(compute);
  for (unsigned i = 0; i < rows; ++i) {
    const wire::Segment& segment = compute.segments[i];
    if (!all_zero(segment.reserved, sizeof segment.reserved)) return {Status::ReservedBits, Field::ComputeSegment, i};
    if (segment.access > wire::kSegmentReadWrite) return {Status::BadAccess, Field::ComputeSegment, i};
    if (segment.access != wire::kSegmentUnused && segment.bytes == 0) {
      return {Status::BadSize, Field::ComputeSegment, i};
    }
  }
  return {};
}

[[gnu::noinline]] Verdict check_event(const wire::EventPayload& event, bool waits) {
  if (!all_zero(reinterpret_cast<const std::uint8_t*>(event.reserved), sizeof event.reserved)) {
    return {Status::ReservedBits, Field::Reserved};
  }
  if (event.value == 0) return {Status::EventRegressed, Field::EventValue};
  if ((event.flags & ~(waits ? wire::kEventGranted : 0)) != 0) return {Status::BadFlags, Field::EventFlags};
  const bool granted = (event.flags & wire::kEventGranted) != 0;
  if (!granted && (event.grant | event.epoch) != 0) return {Status::ReservedBits, Field::EventGrant};
  if (granted && event.stream != 0) return {Status::ReservedBits, Field::EventStream};
  if (!waits && (event.stream | event.incarnation) != 0) return {Status::ReservedBits, Field::EventStream};
  if (event.stream >= wire::kStreamsPerFunction) return {Status::UnknownStream, Field::EventStream};
  return {};
}

[[gnu::noinline]] Verdict check_call(const wire::CallPayload& call, bool prepared) {
  if (call.reserved0 != 0 || !all_zero(reinterpret_cast<const std::uint8_t*>(call.reserved), sizeof call.reserved)) {
    return {Status::ReservedBits, Field::Reserved};
  }
  if (prepared && call.signal_base != 0) return {Status::ReservedBits, Field::CallSignalBase};
  return {};
}

[[gnu::noinline]] Verdict check_patch(const wire::PatchPayload& patch) {
  if (!all_zero(reinterpret_cast<const std::uint8_t*>(patch.reserved), sizeof patch.reserved)) {
    return {Status::ReservedBits, Field::Reserved};
  }
  if (!wire::is_aligned(patch.offset, wire::kStickBytes)) return {Status::BadAlignment, Field::PatchSource};
  if (patch.bytes < wire::kBufferBlockBytes || patch.bytes > wire::kBufferBlockBytes + wire::kMaxCorrectionBytes ||
      !wire::is_aligned(patch.bytes, wire::kStickBytes)) {
    return {Status::BadSize, Field::PatchBytes};
  }
  return {};
}

// What is the call's, and not of a block that it runs.
bool names_a_place(const wire::ControlBlockHeader& header) {
  return (header.stream | header.incarnation | header.generation | header.sequence | header.cookie) != 0;
}

}  // namespace

Verdict check_buffer_block(const ControlBlock& block, std::uint64_t data_bytes, std::uint64_t existing_cores) {
  const auto& header = block.header;
  if (header.magic != wire::kControlBlockMagic) return {Status::BadMagic, Field::Magic};
  if (!wire::is_bufferable(header.opcode)) {
    const bool known = header.opcode <= wire::kLastOpcode;
    return {known ? Status::Unsupported : Status::BadOpcode, Field::OpcodeField};
  }
  if (names_a_place(header)) return {Status::ReservedBits, Field::Reserved};
  if (const Verdict v = check_form(block, false, existing_cores, BlockPlace::Buffer); !v.ok()) return v;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&block);
  const std::size_t used = header.sticks * wire::kStickBytes;
  if (!all_zero(bytes + used, sizeof block - used)) return {Status::ReservedBits, Field::Reserved};
  if (header.opcode != Opcode::Compute) return {};
  const wire::ComputePayload& compute = block.payload.compute;
  if (compute.correction_bytes == 0 || compute.correction.kind != wire::EndpointKind::BufferData) return {};
  if (!wire::range_inside(compute.correction.offset, compute.correction_bytes, data_bytes)) {
    return {Status::OutOfBounds, Field::ComputeCorrection};
  }
  return {};
}

Verdict check_form(const ControlBlock& block, bool crc_negotiated, std::uint64_t existing_cores, BlockPlace place) {
  const auto& header = block.header;
  const unsigned sticks = wire::required_sticks(block);
  if (sticks == 0) return {Status::BadOpcode, Field::OpcodeField};
  if (header.sticks != sticks) return {Status::BadSize, Field::Sticks};
  if (header.flags != 0) return {Status::BadFlags, Field::Flags};
  if (header.reserved0 != 0 || header.reserved1 != 0) return {Status::ReservedBits, Field::Reserved};
  if (crc_negotiated ? !crc_matches(block) : header.crc32c != 0) return {Status::BadCrc, Field::Crc};
  switch (header.opcode) {
    case Opcode::Nop: {
      std::uint64_t any = 0;
      for (unsigned i = 0; i < 8; ++i) any |= block.payload.words[i];
      return any == 0 ? Verdict{} : Verdict{Status::ReservedBits, Field::Reserved};
    }
    case Opcode::Dma: return check_dma(block.payload.strided);
    case Opcode::Fill: return check_fill(block.payload.fill);
    case Opcode::Compute: return check_compute(block.payload.compute, header.budget, existing_cores, place);
    case Opcode::EventSignal:
    case Opcode::EventWait: return check_event(block.payload.event, header.opcode == Opcode::EventWait);
    case Opcode::Call:
    case Opcode::Prepared:
      if (header.budget != 0) return {Status::BadBudget, Field::Budget};
      return check_call(block.payload.call, header.opcode == Opcode::Prepared);
    case Opcode::Patch:
      if (header.budget != 0) return {Status::BadBudget, Field::Budget};
      return check_patch(block.payload.patch);
    default: return {Status::BadOpcode, Field::OpcodeField};
  }
}

}  // namespace fw
