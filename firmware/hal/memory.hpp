// SPDX-License-Identifier: Apache-2.0
// Memory as the firmware sees it. core/ never forms an address: it names card memory by PhysicalAddress and windows by
// slot, and gets pointers from here. On the card a PhysicalAddress is the bus address; in the native build it is an
// offset into a sparse mapping of the same map.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace hal {

using PhysicalAddress = std::uint64_t;

// Bytes of card memory at `address`. The caller has validated the range (fw::Resolver does).
std::byte* pointer(PhysicalAddress address);

// The other way round, for memory that came from pointer().
PhysicalAddress address_of(const std::byte* pointer);

// Card memory that regions are granted from: [begin, end), granule-aligned.
struct MemoryRange {
  PhysicalAddress begin;
  PhysicalAddress end;
};
MemoryRange region_memory();

// The shared window of a slot (BAR2); empty when the slot is not mapped. Written by the host at any moment.
std::span<std::byte> window(unsigned slot);

// Whether what is copied is read before so much else has been that it has left the host's caches.
enum class Reuse : std::uint8_t { Soon, Late };

// Bulk moves; any alignment, ranges must not overlap. Hart 0 of a card with the compute array has its DMA engine move
// what goes to regions and windows. Else they use vector registers (fastest from 1 KiB up, one register group per
// step): a suspended kernel's vector state is saved first.
void copy(std::byte* to, const std::byte* from, std::uint64_t bytes, Reuse reuse = Reuse::Soon);
// `pattern` repeats from `to` on, little-endian; a tail shorter than 8 bytes gets the pattern's first bytes.
void fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes);

// Rows of elements of 1, 2, 4 or 8 bytes, each aligned to its size; the next element of a row lies `step` bytes
// further, or back, and the next row `row_step`. No element of one side lies in one of the other. An element takes
// about as long as copy() for 32 bytes, a row besides that as long as 256 bytes.
struct ElementRows {
  std::byte* first;
  std::int64_t step;
  std::int64_t row_step;
};
void copy_rows(ElementRows to, ElementRows from, std::uint64_t elements, std::uint64_t rows, unsigned element_bytes);

// Continues a CRC32C (shared/crc32c.hpp) over `bytes` bytes. Takes about twenty times as long as a copy, where the DMA
// engine of the compute array does not sum.
std::uint32_t checksum(std::uint32_t crc, const std::byte* data, std::uint64_t bytes);

// Copies code into pages that will be executed: plain hart stores (written by anybody else, already translated code
// would not see it), followed by what makes this and every other hart fetch it anew.
void copy_code(PhysicalAddress to, const std::byte* from, std::uint64_t bytes);

}  // namespace hal
