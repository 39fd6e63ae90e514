// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/composite_address.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <ostream>
#include <utility>

namespace svp {
namespace {

std::string hexadecimal(std::uint64_t value) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16).ptr;
  return "0x" + std::string(digits.data(), end);
}

}  // namespace

CompositeAddress::CompositeAddress(const Chunk& chunk) : chunks_{chunk} {}

CompositeAddress CompositeAddress::allocate(std::shared_ptr<FlexAllocator> allocator, std::uint64_t bytes,
                                            const AllocationPolicy& policy) {
  CompositeAddress result;
  const AllocationIndex index = allocator->allocate(bytes, policy);
  if (index == AllocationIndex::Null) return result;
  result.allocator_ = std::move(allocator);
  result.index_ = index;  // from here on its destructor frees
  std::uint64_t left = bytes;
  const ResolvedChunks memory = result.allocator_->resolve_chunks(index);
  result.chunks_.reserve(memory.count);
  for (const ResolvedChunk& chunk : memory.chunks()) {
    const std::uint64_t size = std::min(left, chunk.bytes);
    result.chunks_.push_back(
        {.addr = {.region_id = chunk.region_ordinal, .offset = chunk.address.offset}, .size = size});
    left -= size;
  }
  return result;
}

CompositeAddress::~CompositeAddress() {
  if (owns()) (void)allocator_->try_deallocate(index_);
}

std::uint64_t CompositeAddress::total_size() const {
  std::uint64_t bytes = 0;
  for (const Chunk& chunk : chunks_) bytes += chunk.size;
  return bytes;
}

void CompositeAddress::swap(CompositeAddress& other) noexcept {
  std::swap(allocator_, other.allocator_);
  std::swap(index_, other.index_);
  std::swap(chunks_, other.chunks_);
}

std::string to_string(const LogicalAddress& address) {
  return "LogicalAddress{region_id=" + hexadecimal(address.region_id) + ", offset=" + hexadecimal(address.offset) + "}";
}

std::string to_string(const Chunk& chunk) {
  return "Chunk{addr=" + to_string(chunk.addr) + ", size=" + std::to_string(chunk.size) +
         ", domain_id=" + std::to_string(chunk.domain_id) + "}";
}

std::string to_string(const CompositeAddress& memory) {
  std::string text = "CompositeAddress{total_size=" + std::to_string(memory.total_size()) +
                     ", num_chunks=" + std::to_string(memory.chunks().size()) +
                     ", owns=" + (memory.owns() ? "true" : "false") + ", chunks=[";
  const char* separator = "";
  for (const Chunk& chunk : memory.chunks()) {
    text += separator + to_string(chunk);
    separator = ", ";
  }
  return text + "]}";
}

std::ostream& operator<<(std::ostream& out, const LogicalAddress& address) { return out << to_string(address); }
std::ostream& operator<<(std::ostream& out, const Chunk& chunk) { return out << to_string(chunk); }
std::ostream& operator<<(std::ostream& out, const CompositeAddress& memory) { return out << to_string(memory); }

}  // namespace svp
