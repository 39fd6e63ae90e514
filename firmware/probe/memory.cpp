// SPDX-License-Identifier: Apache-2.0
// Bulk moves are right for every alignment and size, and touch nothing beside their range.
#include <algorithm>

#include "firmware/hal/address_space.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/probe/probe.hpp"
#include "shared/units.hpp"

namespace probe {

namespace {

constexpr std::uint64_t kArea = 64 * 1024;
constexpr std::byte kUntouched{0xee};

// True when `area` holds kUntouched outside [offset, offset + bytes).
bool rest_untouched(const std::byte* area, std::uint64_t offset, std::uint64_t bytes) {
  constexpr std::uint64_t kMargin = 256;
  const auto clean = [](std::byte byte) { return byte == kUntouched; };
  const std::uint64_t before = std::min(offset, kMargin);
  return std::all_of(area + offset - before, area + offset, clean) &&
         std::all_of(area + offset + bytes, area + offset + bytes + kMargin, clean);
}

void moves_are_exact(std::byte* from, std::byte* to) {
  Proof proof("moves of any alignment and size are exact");
  scramble({from, kArea}, 11);
  constexpr std::uint64_t kSizes[] = {0,    1,    2,    3,    7,    8,    9,    63,     64,     65,    127,
                                      128,  129,  255,  256,  257,  511,  1023, 1024,   1025,   2047,  2049,
                                      4095, 4096, 4097, 5120, 8191, 8192, 8193, 12'345, 16'384, 20'000};
  constexpr std::uint64_t kOffsets[] = {0, 1, 7, 8, 64, 127, 128, 1000, 1024, 4088, 4095};
  for (const std::uint64_t bytes : kSizes) {
    for (const std::uint64_t source : kOffsets) {
      for (const std::uint64_t target : kOffsets) {
        const std::uint64_t at = 512 + target;
        std::fill_n(to + at - 256, bytes + 512, kUntouched);
        hal::copy(to + at, from + source, bytes);
        const bool good = std::equal(to + at, to + at + bytes, from + source) && rest_untouched(to, at, bytes);
        if (!proof.expect(good, "a copy")) return;
      }
    }
  }
}

void fills_are_exact(std::byte* to) {
  Proof proof("fills of any alignment and size are exact");
  constexpr std::uint64_t kPattern = 0x8877'6655'4433'2211;
  for (std::uint64_t bytes = 0; bytes < 9000; bytes = bytes < 300 ? bytes + 1 : bytes * 5 / 4) {
    for (const std::uint64_t offset :
         {std::uint64_t{512}, std::uint64_t{513}, std::uint64_t{4090}, std::uint64_t{4096}}) {
      std::fill_n(to + offset - 256, bytes + 512, kUntouched);
      hal::fill(to + offset, kPattern, bytes);
      bool good = rest_untouched(to, offset, bytes);
      for (std::uint64_t i = 0; i < bytes; ++i) good &= to[offset + i] == static_cast<std::byte>(kPattern >> i % 8 * 8);
      if (!proof.expect(good, "a fill")) return;
    }
  }
}

void pages_come_clean() {
  Proof proof("pages come zeroed and aligned, and are found again");
  for (int round = 0; round < 3; ++round) {
    const hal::PhysicalAddress large = hal::allocate_pages(wire::kGranuleBytes);
    const hal::PhysicalAddress small = hal::allocate_pages(5000);
    proof.expect(large != 0 && large % wire::kGranuleBytes == 0, "2 MiB aligned");
    proof.expect(small != 0 && small % 4096 == 0, "page aligned");
    const auto zero = [](std::byte byte) { return byte == std::byte{0}; };
    proof.expect(std::all_of(hal::pointer(large), hal::pointer(large) + wire::kGranuleBytes, zero), "zero");
    proof.expect(std::all_of(hal::pointer(small), hal::pointer(small) + 8192, zero), "zero");
    hal::fill(hal::pointer(large), ~std::uint64_t{0}, wire::kGranuleBytes);
    hal::fill(hal::pointer(small), ~std::uint64_t{0}, 8192);
    hal::free_pages(large, wire::kGranuleBytes);
    hal::free_pages(small, 5000);
  }
  proof.expect_equal(hal::allocate_pages(std::uint64_t{8} << 30), 0, "more than there is");
}

void high_memory_is_there() {
  Proof proof("region memory is usable from its first to its last byte");
  const hal::MemoryRange memory = hal::region_memory();
  proof.expect_equal(memory.begin, std::uint64_t{4} << 30, "where regions begin");
  proof.expect(memory.end > memory.begin && memory.end % wire::kGranuleBytes == 0, "whole granules");
  for (const hal::PhysicalAddress at : {memory.begin, memory.end - 4096}) {
    scramble({hal::pointer(at), 4096}, at);
    proof.expect(scrambled({hal::pointer(at), 4096}, at), "written and read");
  }
}

}  // namespace

void prove_memory() {
  const hal::PhysicalAddress from = hal::allocate_pages(kArea);
  const hal::PhysicalAddress to = hal::allocate_pages(kArea);
  moves_are_exact(hal::pointer(from), hal::pointer(to));
  fills_are_exact(hal::pointer(to));
  hal::free_pages(from, kArea);
  hal::free_pages(to, kArea);
  pages_come_clean();
  high_memory_is_there();
}

}  // namespace probe
