// SPDX-License-Identifier: Apache-2.0
// Device memory as a list of chunks. What owns it frees it; a view of one chunk, made from a Chunk, does not.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <memory>
#include <string>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {

// A byte of a region, without an address of the card: `region_id` is the region's ordinal (0…7), as
// RegionStatistics::ordinal.
struct LogicalAddress {
  std::uint64_t region_id = 0;
  std::uint64_t offset = 0;

  friend bool operator==(const LogicalAddress&, const LogicalAddress&) = default;
};

struct Chunk {
  LogicalAddress addr{};
  std::uint64_t size = 0;       // bytes
  std::uint32_t domain_id = 0;  // of memory that is near to some cores: this card has one, 0

  friend bool operator==(const Chunk&, const Chunk&) = default;
};

// Move-only. What was moved from is empty and owns nothing.
class CompositeAddress {
 public:
  CompositeAddress() = default;
  // Does not own.
  explicit CompositeAddress(const Chunk& chunk);
  // Owns `bytes` (FlexAllocator::allocate(), and throws as it). Sizes are as asked for, so that total_size() is
  // `bytes`. 0 bytes: no chunk, and nothing is owned.
  static CompositeAddress allocate(std::shared_ptr<FlexAllocator> allocator, std::uint64_t bytes,
                                   const AllocationPolicy& policy);

  CompositeAddress(CompositeAddress&& other) noexcept { swap(other); }
  CompositeAddress& operator=(CompositeAddress&& other) noexcept {
    CompositeAddress(std::move(other)).swap(*this);
    return *this;
  }
  CompositeAddress(const CompositeAddress&) = delete;
  CompositeAddress& operator=(const CompositeAddress&) = delete;
  // Frees what it owns. Work under way that uses it keeps the memory until it has ended (FlexAllocator::try_use()).
  // After a reset of the function there is nothing to free.
  ~CompositeAddress();

  const std::vector<Chunk>& chunks() const { return chunks_; }
  std::uint64_t total_size() const;  // bytes
  bool owns() const { return index_ != AllocationIndex::Null; }
  // Null: it does not own.
  AllocationIndex allocation_index() const { return index_; }
  void swap(CompositeAddress& other) noexcept;

 private:
  std::shared_ptr<FlexAllocator> allocator_;
  AllocationIndex index_ = AllocationIndex::Null;
  std::vector<Chunk> chunks_;
};

// "CompositeAddress{total_size=256, num_chunks=1, owns=true, chunks=[Chunk{addr=LogicalAddress{region_id=0x0,
// offset=0x0}, size=256, domain_id=0}]}", on one line.
std::string to_string(const LogicalAddress& address);
std::string to_string(const Chunk& chunk);
std::string to_string(const CompositeAddress& memory);
std::ostream& operator<<(std::ostream& out, const LogicalAddress& address);
std::ostream& operator<<(std::ostream& out, const Chunk& chunk);
std::ostream& operator<<(std::ostream& out, const CompositeAddress& memory);

}  // namespace svp
