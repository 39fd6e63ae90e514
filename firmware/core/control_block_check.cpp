// SPDX-License-Identifier: Apache-2.0
#include "firmware/core/control_block_check.hpp"

#include <cstddef>
#include <cstring>

#include "firmware/mutants/mutants.hpp"
#include "shared/crc32c.hpp"
#include "shared/memory_order.hpp"

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

bool crc_matches(const ControlBlock& block) {
  constexpr std::size_t kAt = offsetof(wire::ControlBlockHeader, crc32c);
  constexpr std::uint32_t kZero = 0;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&block);
  std::uint32_t crc = wire::crc32c(0, bytes, kAt);
  crc = wire::crc32c(crc, &kZero, sizeof kZero);
  crc = wire::crc32c(crc, bytes + kAt + sizeof kZero, block.header.sticks * wire::kStickBytes - kAt - sizeof kZero);
  return crc == block.header.crc32c && !mutated(Mutant::RightCrc);
}

Verdict check_endpoint(const wire::Endpoint& endpoint, Field field) {
  if (endpoint.kind != wire::EndpointKind::HostMemory && endpoint.kind != wire::EndpointKind::Region) {
    return {Status::BadEndpointKind, field};
  }
  if (!all_zero(endpoint.reserved, sizeof endpoint.reserved)) return {Status::ReservedBits, field};
  if (endpoint.kind == wire::EndpointKind::HostMemory && (endpoint.region_id != 0 || endpoint.generation != 0)) {
    return {Status::ReservedBits, field};
  }
  // Linear transfers are stick-aligned on the device side; bytes are bytes on the host side (protocol, preamble).
  if (endpoint.kind == wire::EndpointKind::Region && !wire::is_aligned(endpoint.offset, wire::kStickBytes)) {
    return {Status::BadAlignment, field};
  }
  return {};
}

Verdict check_dma(const wire::DmaPayload& dma) {
  if ((dma.flags & wire::kDmaStrided) != 0) return {Status::Unsupported, Field::DmaFlags};
  if ((dma.flags & ~wire::kDmaChecksum) != 0) return {Status::BadFlags, Field::DmaFlags};
  // Only who sends bytes into the card knows their sum before.
  const bool sum_allowed = dma.flags == wire::kDmaChecksum && dma.source.kind == wire::EndpointKind::HostMemory;
  if (dma.checksum != 0 && !sum_allowed) return {Status::BadFlags, Field::DmaFlags};
  if (dma.bytes == 0) return {Status::BadSize, Field::DmaBytes};
  if (const Verdict v = check_endpoint(dma.source, Field::DmaSource); !v.ok()) return v;
  if (const Verdict v = check_endpoint(dma.destination, Field::DmaDestination); !v.ok()) return v;
  if (dma.source.kind == wire::EndpointKind::HostMemory && dma.destination.kind == wire::EndpointKind::HostMemory) {
    return {Status::BadEndpointKind, Field::DmaDestination};
  }
  return {};
}

Verdict check_fill(const wire::FillPayload& fill) {
  if (fill.bytes == 0) return {Status::BadSize, Field::FillBytes};
  if (!all_zero(fill.reserved, sizeof fill.reserved)) return {Status::ReservedBits, Field::Reserved};
  if (fill.destination.kind != wire::EndpointKind::Region) return {Status::BadEndpointKind, Field::FillDestination};
  return check_endpoint(fill.destination, Field::FillDestination);
}

Verdict check_compute(const wire::ComputePayload& compute, std::uint64_t budget, std::uint64_t existing_cores) {
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
    if (compute.correction.kind != wire::EndpointKind::Region) {
      return {Status::BadEndpointKind, Field::ComputeCorrection};
    }
    if (const Verdict v = check_endpoint(compute.correction, Field::ComputeCorrection); !v.ok()) return v;
  }
  if ((compute.core_mask & ~existing_cores) != 0) return {Status::BadCoreMask, Field::ComputeCoreMask};
  if (!all_zero(reinterpret_cast<const std::uint8_t*>(compute.reserved), sizeof compute.reserved)) {
    return {Status::ReservedBits, Field::Reserved};
  }
  for (unsigned i = 0; i < wire::kSegments; ++i) {
    const wire::Segment& segment = compute.segments[i];
    if (!all_zero(segment.reserved, sizeof segment.reserved)) return {Status::ReservedBits, Field::ComputeSegment, i};
    if (segment.access > wire::kSegmentReadWrite) return {Status::BadAccess, Field::ComputeSegment, i};
    if (segment.access != wire::kSegmentUnused && segment.bytes == 0) {
      return {Status::BadSize, Field::ComputeSegment, i};
    }
  }
  return {};
}

}  // namespace

Verdict check_form(const ControlBlock& block, bool crc_negotiated, std::uint64_t existing_cores) {
  const auto& header = block.header;
  const unsigned sticks = wire::required_sticks(header.opcode);
  if (sticks == 0) {
    const bool known = header.opcode <= Opcode::Call;
    return {known ? Status::Unsupported : Status::BadOpcode, Field::OpcodeField};
  }
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
    case Opcode::Dma: return check_dma(block.payload.dma);
    case Opcode::Fill: return check_fill(block.payload.fill);
    case Opcode::Compute: return check_compute(block.payload.compute, header.budget, existing_cores);
    default: return {Status::BadOpcode, Field::OpcodeField};
  }
}

}  // namespace fw
