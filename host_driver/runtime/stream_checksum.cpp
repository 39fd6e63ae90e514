// SPDX-License-Identifier: Apache-2.0
// Checksums of transfers (ChannelRules::checksums): the host's part.
#include "host_driver/base/crc32c.hpp"
#include "host_driver/base/mutants.hpp"
#include "host_driver/runtime/stream_channel.hpp"
#include "host_driver/runtime/strided_transfer.hpp"

namespace svp {

using wire::Outcome;
using wire::Status;

namespace {

// The end of a transfer that is host memory; null when there is none.
const wire::Endpoint* host_end(const wire::ControlBlock& block) {
  if (block.header.opcode != wire::Opcode::Dma) return nullptr;
  const wire::DmaPayload& dma = block.payload.dma;
  if (dma.source.kind == wire::EndpointKind::HostMemory) return &dma.source;
  return dma.destination.kind == wire::EndpointKind::HostMemory ? &dma.destination : nullptr;
}

// Of that end.
std::uint32_t sum_of_host(const Device& device, const wire::ControlBlock& block, const wire::Endpoint& end) {
  const wire::DmaPayload& dma = block.payload.dma;
  const std::uint64_t at = end.offset - device.host_memory_offset();
  if (!wire::is_strided(block)) return crc32c(0, device.host_memory().subspan(at, dma.bytes));
  const bool source = &end == &dma.source;
  return sum_of_elements(block.payload.strided.loops,
                         source ? &wire::StridedLevel::source_stride : &wire::StridedLevel::destination_stride,
                         device.host_memory(), at);
}

}  // namespace

// Once: a block that the card did not take comes by again.
void StreamChannel::seal_transfer(Unit& unit) const {
  wire::DmaPayload& dma = unit.block.payload.dma;
  const wire::Endpoint* host = host_end(unit.block);
  if (host == nullptr || (dma.flags & wire::kDmaChecksum) != 0) return;
  dma.flags |= wire::kDmaChecksum;
  if (host == &dma.source) dma.checksum = sum_of_host(*device_, unit.block, *host);
}

// What came out of the card must be what the card says it sent.
wire::Completion StreamChannel::verified(const Unit& unit, const wire::Completion& completion) const {
  wire::Completion end = completion;
  const wire::DmaPayload& dma = unit.block.payload.dma;
  const wire::Endpoint* host = host_end(unit.block);
  if (completion.outcome != Outcome::Ok || host != &dma.destination) return end;
  if (sum_of_host(*device_, unit.block, *host) == completion.checksum || mutated(HostMutant::ReadChecksum)) return end;
  end.outcome = Outcome::Fault;
  end.status = Status::ChecksumMismatch;
  end.field = wire::Field::DmaChecksum;
  return end;
}

}  // namespace svp
