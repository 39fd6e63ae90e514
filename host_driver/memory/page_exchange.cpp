// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/page_exchange.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <fstream>
#include <string>
#include <system_error>
#include <utility>

#include "host_driver/base/system_call.hpp"

namespace svp {
namespace {

template <typename Number>
bool take_number(std::string_view& text, Number& number, int base) {
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number, base);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return true;
}

std::string_view take_word(std::string_view& text) {
  const std::size_t begin = std::min(text.find_first_not_of(' '), text.size());
  const std::size_t end = std::min(text.find(' ', begin), text.size());
  const std::string_view word = text.substr(begin, end - begin);
  text.remove_prefix(end);
  return word;
}

std::string hex_address(std::uintptr_t address) {
  char digits[2 * sizeof address];
  const auto [end, error] = std::to_chars(std::begin(digits), std::end(digits), address, 16);
  return "0x" + std::string(digits, end);
}

std::unexpected<ExchangeRefusal> refuse_memory(const std::string& what, std::string next_step) {
  return std::unexpected(ExchangeRefusal{true, refused_by_driver("memory", what, std::move(next_step))});
}

ErrorInfo kernel_refused(const char* step, int error) {
  return {.layer = Layer::Memory,
          .source = "registered host memory",
          .outcome = wire::Outcome::Rejected,
          .recoverable = true,
          .next_step = "copy from unregistered memory (it is staged), or from memory of allocate()",
          .message = std::string("the kernel does not ") + step + ": " + std::generic_category().message(error)};
}

// Why this mapping is not taken; nullptr: it is.
const char* unfit(const MappingLine& mapping) {
  if (!mapping.permissions.starts_with("rw")) return "is not readable and writable";
  if (!mapping.permissions.ends_with('p')) return "is a shared mapping";
  if (mapping.inode != 0) return "is a mapping of a file";
  if (mapping.name.starts_with("[stack")) return "is a stack";
  if (mapping.name.starts_with("[v")) return "belongs to the kernel";
  return nullptr;
}

void* move_pages(std::byte* from, std::size_t old_bytes, std::size_t bytes, int flags, std::byte* to) {
  return system_call([&] { return ::mremap(from, old_bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED | flags, to); });
}

}  // namespace

std::optional<MappingLine> parse_mapping(std::string_view line) {
  MappingLine mapping;
  if (!take_number(line, mapping.begin, 16) || !line.starts_with('-')) return std::nullopt;
  line.remove_prefix(1);
  if (!take_number(line, mapping.end, 16)) return std::nullopt;
  mapping.permissions = take_word(line);
  (void)take_word(line);  // offset
  (void)take_word(line);  // device
  std::string_view inode = take_word(line);
  if (mapping.permissions.size() != 4 || !take_number(inode, mapping.inode, 10)) return std::nullopt;
  const std::size_t name = line.find_first_not_of(' ');
  if (name != std::string_view::npos) mapping.name = line.substr(name);
  return mapping;
}

std::expected<std::vector<PageExchange::Piece>, ExchangeRefusal> PageExchange::pieces_of(std::span<std::byte> memory) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data());
  const std::uintptr_t end = begin + memory.size();
  std::uintptr_t covered = begin;
  std::vector<Piece> pieces;
  std::ifstream maps("/proc/self/maps");
  for (std::string line; covered < end && std::getline(maps, line);) {
    const auto mapping = parse_mapping(line);
    if (!mapping || mapping->end <= covered) continue;
    if (mapping->begin > covered) break;
    if (const char* why = unfit(*mapping)) {
      return refuse_memory("the memory from " + hex_address(covered) + " on " + why,
                           "register private anonymous memory: mmap(MAP_PRIVATE | MAP_ANONYMOUS), aligned_alloc()");
    }
    const std::uintptr_t upto = std::min(end, mapping->end);
    pieces.push_back({covered - begin, upto - covered});
    covered = upto;
  }
  if (covered == end) return pieces;
  return refuse_memory("there is no memory at " + hex_address(covered), "register memory that is mapped as a whole");
}

// Only what is still parked: the addresses of the rest may be somebody else's by now.
PageExchange::~PageExchange() {
  for (const Piece& piece : pieces_) ::munmap(parked_ + piece.offset, piece.bytes);
}

// What has been moved goes back; the addresses were reserved by what DONTUNMAP left there.
void PageExchange::unpark() noexcept {
  for (const Piece& piece : pieces_) {
    (void)::mremap(parked_ + piece.offset, piece.bytes, piece.bytes, MREMAP_MAYMOVE | MREMAP_FIXED,
                   memory_.data() + piece.offset);
  }
  pieces_.clear();
}

Expected<void> PageExchange::park() {
  const auto pieces = std::exchange(pieces_, {});  // from here on: those that are parked
  void* at = system_call(
      [&] { return ::mmap(nullptr, memory_.size(), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0); });
  if (at == MAP_FAILED) return std::unexpected(kernel_refused("reserve addresses", errno));
  parked_ = static_cast<std::byte*>(at);
  pieces_.reserve(pieces.size());
  for (const Piece& piece : pieces) {
    const auto [offset, bytes] = piece;
    if (move_pages(memory_.data() + offset, bytes, bytes, MREMAP_DONTUNMAP, parked_ + offset) != MAP_FAILED) {
      pieces_.push_back(piece);
      continue;
    }
    const int error = errno;
    unpark();
    ::munmap(parked_ + offset, memory_.size() - offset);
    return std::unexpected(kernel_refused("move the pages (Linux 5.7 can)", error));
  }
  return {};
}

std::expected<PageExchange, ExchangeRefusal> PageExchange::begin(std::span<std::byte> memory,
                                                                 std::span<std::byte> shared) {
  auto pieces = pieces_of(memory);
  if (!pieces) return std::unexpected(std::move(pieces.error()));
  PageExchange exchange(memory, *std::move(pieces));
  if (auto parked = exchange.park(); !parked) return std::unexpected(ExchangeRefusal{false, parked.error()});
  std::memcpy(shared.data(), exchange.parked_, memory.size());
  // Old size 0 of a shared mapping: a second mapping of the same pages. It is kept from forked children as the first
  // one is.
  if (move_pages(shared.data(), 0, memory.size(), 0, memory.data()) == MAP_FAILED) {
    const int error = errno;
    exchange.unpark();
    return std::unexpected(ExchangeRefusal{false, kernel_refused("map the window a second time", error)});
  }
  // Locked pages stay: the kernel refuses, and that is meant.
  for (const Piece& piece : exchange.pieces_) {
    (void)::madvise(exchange.parked_ + piece.offset, piece.bytes, MADV_DONTNEED);
  }
  return exchange;
}

Expected<void> PageExchange::end() {
  while (!pieces_.empty()) {
    const auto [offset, bytes] = pieces_.back();
    std::memcpy(parked_ + offset, memory_.data() + offset, bytes);
    if (move_pages(parked_ + offset, bytes, bytes, 0, memory_.data() + offset) == MAP_FAILED) {
      return std::unexpected(kernel_refused("put the pages back", errno));
    }
    pieces_.pop_back();
  }
  return {};
}

}  // namespace svp
