// SPDX-License-Identifier: Apache-2.0
// hal/memory.hpp: pointers and bulk moves. (Which memory there is, is the platform's to say.)
#include "firmware/hal/memory.hpp"

#include <algorithm>
#include <array>

#include "firmware/arch/riscv/assembly.hpp"
#include "firmware/arch/riscv/code_generation.hpp"
#include "firmware/arch/riscv/dma_engine.hpp"
#include "firmware/arch/riscv/hart_local.hpp"
#include "firmware/arch/riscv/layout.h"
#include "firmware/arch/riscv/translation_cache.hpp"
#include "firmware/arch/riscv/vector_unit.hpp"
#include "firmware/hal/hart.hpp"
#include "firmware/hal/memory_map.h"
#include "shared/crc32c.hpp"

namespace {

// Each hart uses its own.
constinit std::array<riscv::TranslationCacheGrowth, MAX_HARTS> translation_cache{};

}  // namespace

void riscv::drop_translations() {
  asm volatile("sfence.vma" ::: "memory");
  translation_cache[hal::hart_id()].flushed_elsewhere();
}

namespace hal {

namespace {

// Below this a vector move (about 100 ns, plus saving a suspended kernel's registers) loses against words.
constexpr std::uint64_t kFewestVectorBytes = 256;
constexpr std::uint64_t kWord = sizeof(std::uint64_t);
constexpr std::uint64_t kBlock = 8 * kWord;

bool aligned(const std::byte* to, const std::byte* from) {
  return (reinterpret_cast<std::uint64_t>(to) | reinterpret_cast<std::uint64_t>(from)) % kWord == 0;
}

void copy_words(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  auto* target = reinterpret_cast<std::uint64_t*>(to);
  const auto* source = reinterpret_cast<const std::uint64_t*>(from);
  for (; bytes >= kBlock; bytes -= kBlock, target += 8, source += 8) {
    const std::uint64_t a = source[0], b = source[1], c = source[2], d = source[3];
    const std::uint64_t e = source[4], f = source[5], g = source[6], h = source[7];
    target[0] = a, target[1] = b, target[2] = c, target[3] = d;
    target[4] = e, target[5] = f, target[6] = g, target[7] = h;
  }
  for (; bytes >= kWord; bytes -= kWord) *target++ = *source++;
}

void copy_bytes(std::byte* to, const std::byte* from, std::uint64_t bytes) {
#pragma clang loop vectorize(disable) unroll(disable)
  for (; bytes > 0; --bytes) {
    *to++ = *from++;
    asm volatile("" ::: "memory");  // stays a loop: a call to memcpy would be the slower one here
  }
}

void copy_scalar(std::byte* to, const std::byte* from, std::uint64_t bytes) {
  const std::uint64_t whole = aligned(to, from) ? bytes - bytes % kWord : 0;
  copy_words(to, from, whole);
  copy_bytes(to + whole, from + whole, bytes - whole);
}

}  // namespace

namespace {

constexpr std::uint64_t kLargeMove = 64 * 1024;

// Makes the emulator translate an address of the card's memory, and nothing else: cbo.clean of Zicbom.
void translate(std::uint64_t address) { asm volatile(".insn i 0x0f, 2, x0, %0, 1" : : "r"(address) : "memory"); }

void let_translation_cache_grow(std::uint64_t bytes) {
  using riscv::TranslationCacheGrowth;
  constexpr std::uint64_t kPage = TranslationCacheGrowth::kPageBytes;
  // Memory of every card, and no guard page in it.
  constexpr std::uint64_t kRange = REGIONS_BASE - TranslationCacheGrowth::kMostEntries * kPage;
  const TranslationCacheGrowth::Step step = translation_cache[hart_id()].moved(bytes);
  for (std::uint64_t i = 0; i < step.pages; ++i) translate(kRange + (step.first_page + i) * kPage);
  if (step.flush) asm volatile("sfence.vma" ::: "memory");
}

}  // namespace

std::byte* pointer(PhysicalAddress address) { return reinterpret_cast<std::byte*>(address); }

PhysicalAddress address_of(const std::byte* pointer) { return reinterpret_cast<PhysicalAddress>(pointer); }

// Aligned so that it lies in one page: the emulator looks up jumps between pages, and every launch comes here.
[[gnu::aligned(1024)]] void copy(std::byte* to, const std::byte* from, std::uint64_t bytes, Reuse reuse) {
  if (bytes <= kWord || (bytes < kFewestVectorBytes && aligned(to, from))) {
    copy_scalar(to, from, bytes);
  } else {
    if (riscv::dma_engine::is_there()) {
      const std::uint64_t done = riscv::dma_engine::copy(to, from, bytes, reuse);
      if (done == bytes) return;
      to += done, from += done, bytes -= done;
    }
    riscv::take_vector_for_firmware(riscv::local());
    riscv_vector_copy(to, from, bytes);
    if (bytes >= kLargeMove) let_translation_cache_grow(bytes);
  }
}

namespace {

// By scalar loads and stores: strided vector ones are helpers of the emulator, element by element.
template <typename T>
[[gnu::noinline]] void copy_typed(ElementRows to, ElementRows from, std::uint64_t elements, std::uint64_t rows) {
  for (; rows > 0; --rows, from.first += from.row_step, to.first += to.row_step) {
    const std::byte* source = from.first;
    std::byte* target = to.first;
    const auto load = [&] {
      const T value = *reinterpret_cast<const T*>(source);
      source += from.step;
      return value;
    };
    const auto store = [&](T value) {
      *reinterpret_cast<T*>(target) = value;
      target += to.step;
    };
    std::uint64_t left = elements;
    for (; left >= 4; left -= 4) {
      const T a = load(), b = load(), c = load(), d = load();
      store(a), store(b), store(c), store(d);
    }
    for (; left > 0; --left) store(load());
  }
}

// Dense rows of whole words.
[[gnu::noinline]] void copy_word_rows(ElementRows to, ElementRows from, std::uint64_t bytes, std::uint64_t rows) {
  for (; rows > 0; --rows, from.first += from.row_step, to.first += to.row_step) {
    copy_words(to.first, from.first, bytes);
  }
}

[[gnu::noinline]] void copy_long_rows(ElementRows to, ElementRows from, std::uint64_t bytes, std::uint64_t rows) {
  riscv::take_vector_for_firmware(riscv::local());
  for (; rows > 0; --rows, from.first += from.row_step, to.first += to.row_step) {
    riscv_vector_copy(to.first, from.first, bytes);
  }
}

}  // namespace

void copy_rows(ElementRows to, ElementRows from, std::uint64_t elements, std::uint64_t rows, unsigned element_bytes) {
  const std::uint64_t bytes = elements * element_bytes;
  const bool dense = to.step == element_bytes && from.step == element_bytes;
  if (dense && rows == 1) return hal::copy(to.first, from.first, bytes);
  if (riscv::dma_engine::is_there()) {
    const std::uint64_t done = riscv::dma_engine::copy_rows(to, from, elements, rows, element_bytes);
    rows -= done;
    if (rows == 0) return;
    to.first += static_cast<std::int64_t>(done) * to.row_step;
    from.first += static_cast<std::int64_t>(done) * from.row_step;
  }
  let_translation_cache_grow(bytes * rows);
  if (dense && bytes >= kFewestVectorBytes) return copy_long_rows(to, from, bytes, rows);
  switch (element_bytes) {
    case 1: return copy_typed<std::uint8_t>(to, from, elements, rows);
    case 2: return copy_typed<std::uint16_t>(to, from, elements, rows);
    case 4: return copy_typed<std::uint32_t>(to, from, elements, rows);
    default: return dense ? copy_word_rows(to, from, bytes, rows) : copy_typed<std::uint64_t>(to, from, elements, rows);
  }
}

void fill(std::byte* to, std::uint64_t pattern, std::uint64_t bytes) {
  if (bytes < kFewestVectorBytes && aligned(to, to)) {
    for (; bytes >= kWord; bytes -= kWord, to += kWord) *reinterpret_cast<std::uint64_t*>(to) = pattern;
    copy_bytes(to, reinterpret_cast<const std::byte*>(&pattern), bytes);
  } else if (bytes > 0) {
    if (riscv::dma_engine::is_there()) {
      const std::uint64_t done = riscv::dma_engine::fill(to, pattern, bytes);
      if (done == bytes) return;
      to += done, bytes -= done;
    }
    riscv::take_vector_for_firmware(riscv::local());
    riscv_vector_fill(to, pattern, bytes);
    if (bytes >= kLargeMove) let_translation_cache_grow(bytes);
  }
}

std::uint32_t checksum(std::uint32_t crc, const std::byte* data, std::uint64_t bytes) {
  if (bytes >= kFewestVectorBytes && riscv::dma_engine::is_there()) {
    const std::uint64_t done = riscv::dma_engine::checksum(crc, data, bytes);
    data += done, bytes -= done;
  }
  return wire::crc32c(crc, data, bytes);
}

void copy_code(PhysicalAddress to, const std::byte* from, std::uint64_t bytes) {
  copy_scalar(pointer(to), from, bytes);
  riscv::code_generation.fetch_add(1, std::memory_order_release);
}

}  // namespace hal
