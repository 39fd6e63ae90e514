// SPDX-License-Identifier: Apache-2.0
// Puts pages of a shared mapping where private anonymous pages of this process are, and back, with their content. Linux
// can not make existing anonymous pages part of a file, so the content is copied once in each direction; the addresses
// stay (docs/notes/2026-11-23-registered-memory.md).
//
//   begin():  anonymous pages ─ mremap(DONTUNMAP) ─► parked; content ─ memcpy ─► shared pages
//             shared pages ─ mremap(old size 0: a second mapping) ─► the addresses
//   end():    content ─ memcpy ─► parked pages ─ mremap ─► the addresses
//
// The parked mappings keep what they were told (mlock, madvise, names), but not their pages, unless they are locked.
#pragma once

#include <cstddef>
#include <cstdint>
#include <expected>
#include <optional>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "host_driver/base/error.hpp"

namespace svp {

// A line of /proc/self/maps.
struct MappingLine {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  std::string_view permissions;  // "rw-p"
  std::uint64_t inode = 0;
  std::string_view name;  // may be empty
};
std::optional<MappingLine> parse_mapping(std::string_view line);

// Why pages are not exchanged: an argument of the caller's, or the kernel.
struct ExchangeRefusal {
  bool argument = false;
  ErrorInfo info;
};

class PageExchange {
 public:
  // [memory, memory + bytes) becomes a second mapping of `shared`, which has as many bytes. All are multiples of pages.
  // No other thread touches the memory meanwhile: what it writes may be lost. Refused, with everything as before:
  // memory that is not mapped as a whole, readable and writable, private and anonymous, and no stack.
  static std::expected<PageExchange, ExchangeRefusal> begin(std::span<std::byte> memory, std::span<std::byte> shared);

  PageExchange() = default;  // of nothing
  PageExchange(PageExchange&& other) noexcept { swap(other); }
  PageExchange& operator=(PageExchange&& other) noexcept {
    PageExchange(std::move(other)).swap(*this);
    return *this;
  }
  // Without end() the shared pages stay at the addresses; the parked mappings go.
  ~PageExchange();

  // The addresses are the anonymous mappings of before, with the content that the shared pages have now. Nobody touches
  // the memory meanwhile. On an error nothing has changed for the pages that it names, and it may be called again.
  Expected<void> end();

  std::span<std::byte> memory() const { return memory_; }

 private:
  struct Piece {
    std::size_t offset;
    std::size_t bytes;
  };
  PageExchange(std::span<std::byte> memory, std::vector<Piece> pieces) : memory_(memory), pieces_(std::move(pieces)) {}
  void swap(PageExchange& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(pieces_, other.pieces_);
    std::swap(parked_, other.parked_);
  }
  static std::expected<std::vector<Piece>, ExchangeRefusal> pieces_of(std::span<std::byte> memory);
  Expected<void> park();
  void unpark() noexcept;

  std::span<std::byte> memory_;
  std::vector<Piece> pieces_;  // one for each mapping of the kernel's that is parked
  std::byte* parked_ = nullptr;
};

}  // namespace svp
