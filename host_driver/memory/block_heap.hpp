// SPDX-License-Identifier: Apache-2.0
// The block manager below FlexAllocator (device regions) and HostMemory (pinned memory): cuts one range of memory into
// blocks, in multiples of 128 bytes, without ever touching that memory. Not thread-safe: the owner holds a lock.
//
// Properties
//   * Blocks tile the range: no gap, no overlap. Two neighbours are never both free.
//   * allocate() without alignment succeeds exactly when some free block is large enough.
//   * Every operation is O(1) up to a walk of at most 22 steps (see FreeIndex); none depends on how many blocks live.
//
// Structure: blocks are nodes in a slab shared by the heaps of one owner. Address neighbours are linked, so a free
// block finds its neighbours without a search. Free blocks are indexed by size (FreeIndex).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "shared/units.hpp"

namespace svp {

inline constexpr std::uint64_t kBlockUnit = wire::kStickBytes;

// A request near 2^64 must end as out-of-memory, not as a small block.
constexpr std::uint64_t saturating_align_up(std::uint64_t bytes, std::uint64_t unit) {
  const std::uint64_t limit = ~std::uint64_t{0} - (unit - 1);
  return bytes > limit ? ~std::uint64_t{0} : wire::align_up(bytes, unit);
}

enum class Fit : std::uint8_t {
  Best,   // the smallest block that is large enough
  First,  // the first block of the first size class in which every block is large enough; cheaper, looser
};

// Which end of a free block an allocation takes.
enum class BlockEnd : std::uint8_t { Low, High };

using BlockId = std::uint32_t;
inline constexpr BlockId kNoBlock = ~BlockId{0};
using BlockChildren = std::array<BlockId, 2>;

// Sizes and offsets are in units of 128 bytes: 32 bits reach 512 GiB.
//
// With many blocks an operation costs as much as the cache lines that it has to wait for. Two nodes fill a line and
// none lies on two; what only the trie of large free blocks needs is kept elsewhere (BlockNodes::children()).
struct alignas(32) BlockNode {
  std::uint32_t offset = 0;
  std::uint32_t size = 0;
  BlockId previous = kNoBlock;  // neighbour below, same heap
  BlockId next = kNoBlock;      // neighbour above
  union {
    BlockId ring_previous = kNoBlock;  // free: ring of free blocks of equal size
    std::uint32_t slack;               // used: bytes of the block that were not asked for
  };
  union {
    BlockId ring_next = kNoBlock;  // free
    BlockId next_chunk;            // used, and chunked: the allocation goes on there; kNoBlock: it does not
  };
  union {
    BlockId parent = kNoBlock;  // free
    std::uint32_t uses;         // used: by work under way, which the owner of the heap counts
  };
  std::uint32_t generation : 20 = 0;  // counts how often this id was handed out: tells a stale handle
  std::uint32_t heap : 4 = 0;
  std::uint32_t used : 1 = 0;
  std::uint32_t in_tree : 1 = 0;  // free: this one stands in the size tree for its ring
  std::uint32_t doomed : 1 = 0;   // used: released by its owner, and kept for the work that uses it
  // Used, and both the business of the owner of the heap, which clears them before it releases the block.
  std::uint32_t chunked : 1 = 0;  // of an allocation of several blocks
  std::uint32_t follows : 1 = 0;  // not its first one
};
static_assert(sizeof(BlockNode) == 32);

// The slab. An id is stable while its block is allocated; a released id comes back with a higher generation, and an id
// whose generations are used up is never handed out again, so {id, generation} names one allocation for ever (as long
// as the slab is not full, at 2^24 blocks).
class BlockNodes {
 public:
  static constexpr std::uint32_t kMaxGeneration = (1U << 20) - 1;
  static constexpr std::uint32_t kMaxNodes = 1U << 24;

  explicit BlockNodes(std::uint32_t max_generation = kMaxGeneration) : max_generation_(max_generation) {}

  BlockNode& operator[](BlockId id) { return nodes_[id]; }
  const BlockNode& operator[](BlockId id) const { return nodes_[id]; }
  // Of a free block that stands in a trie; undefined for others.
  BlockChildren& children(BlockId id) { return children_[id]; }
  const BlockChildren& children(BlockId id) const { return children_[id]; }
  // Begins to load a node that will be written. `id` may be kNoBlock.
  void prefetch(BlockId id) const {
    if (id != kNoBlock) __builtin_prefetch(&nodes_[id], 1);
  }
  bool contains(BlockId id) const { return id < nodes_.size(); }
  bool has_room(std::uint32_t count) const { return free_count_ + (kMaxNodes - nodes_.size()) >= count; }
  // Of a used block: it may get another handle, and be released afterwards.
  bool has_generation_left(BlockId id) const { return nodes_[id].generation + 2 <= max_generation_; }
  bool exhausted(BlockId id) const { return nodes_[id].generation >= max_generation_; }

  // A blank node (its generation is kept); kNoBlock when kMaxNodes are in use. May move all nodes: hold no reference.
  BlockId take();
  void give_back(BlockId id);

 private:
  std::uint32_t max_generation_;
  BlockId free_ = kNoBlock;
  std::uint32_t free_count_ = 0;
  std::vector<BlockNode> nodes_;
  std::vector<BlockChildren> children_;  // one for each node
};

// Free blocks by size: 28 × 32 size classes found by two bitmap scans. Up to 63 units a class holds one size; above, a
// class spans 1/32 of a power of two and keeps its blocks in a binary trie over the remaining size bits (22 at most;
// in practice two or three levels), equal sizes in a ring.
class FreeIndex {
 public:
  FreeIndex() { heads_.fill(kNoBlock); }

  void insert(BlockNodes& nodes, BlockId id);
  void remove(BlockNodes& nodes, BlockId id);
  BlockId best_fit(const BlockNodes& nodes, std::uint32_t size) const;
  BlockId first_fit(const BlockNodes& nodes, std::uint32_t size) const;
  BlockId largest(const BlockNodes& nodes) const;

  // How many low bits of a size its class leaves open: 0 where a class holds one size, and so no trie.
  static unsigned key_bits(std::uint32_t size);

 private:
  static constexpr unsigned kSplitBits = 5;
  static constexpr unsigned kClasses = 1U << kSplitBits;
  static constexpr unsigned kLevels = 32 - kSplitBits + 1;
  static unsigned class_of(std::uint32_t size);

  BlockId next_class(unsigned from) const;  // head of the first non-empty class at or above `from`
  void set_head(unsigned index, BlockId head);

  std::uint32_t level_map_ = 0;
  std::array<std::uint32_t, kLevels> class_map_{};
  std::array<BlockId, std::size_t{kLevels} * kClasses> heads_{};
};

class BlockHeap {
 public:
  struct Block {
    std::uint64_t offset;  // bytes from the start of the range
    std::uint64_t bytes;
    bool used;
  };

  // `tag` (0…15) is stored in every node, so that an owner of several heaps finds the heap of a block.
  // `bytes` is a non-zero multiple of kBlockUnit. `nodes` outlives the heap.
  BlockHeap(BlockNodes& nodes, unsigned tag, std::uint64_t bytes);

  // `bytes` > 0, rounded up to whole units; `alignment` is a power of two ≥ kBlockUnit. The block holds exactly the
  // rounded bytes. With an alignment above the unit it succeeds whenever a free block of bytes + alignment - unit
  // exists, and otherwise only if the best block happens to suit. It lies at the lowest or the highest aligned place of
  // the free block. nullopt (also when the slab is full): nothing changed.
  std::optional<BlockId> allocate(std::uint64_t bytes, std::uint64_t alignment = kBlockUnit, Fit fit = Fit::Best,
                                  BlockEnd end = BlockEnd::Low);

  // `id` is a used block of this heap. Its generation goes up and the block merges with free neighbours.
  void release(BlockId id);

  // Forgets every block, also the used ones; the range can not be used afterwards.
  void clear();

  std::uint64_t total_bytes() const { return std::uint64_t{total_} * kBlockUnit; }
  std::uint64_t free_bytes() const { return std::uint64_t{free_} * kBlockUnit; }
  std::uint64_t largest_free() const;  // bytes; exact
  std::uint64_t free_blocks() const { return free_blocks_; }
  std::uint64_t used_blocks() const { return used_blocks_; }
  bool unused() const { return used_blocks_ == 0; }

  // Calls f(Block) for each block in address order.
  template <typename F>
  void for_each(F&& f) const {
    for (BlockId id = first_; id != kNoBlock; id = (*nodes_)[id].next) {
      const BlockNode& n = (*nodes_)[id];
      f(Block{n.offset * kBlockUnit, n.size * kBlockUnit, n.used != 0});
    }
  }

 private:
  BlockId find(std::uint32_t size, Fit fit) const;
  BlockId find_aligned(std::uint32_t size, std::uint32_t alignment, Fit fit) const;
  BlockId split(BlockId id, std::uint32_t keep);  // cuts off the part above `keep` units into a new node
  void absorb_next(BlockId id);                   // joins `id` with its upper neighbour
  BlockId relocate(BlockId id);                   // moves a block to a fresh node
  void add_free(BlockId id);
  void take_free(BlockId id);

  BlockNodes* nodes_;
  std::uint32_t tag_;
  std::uint32_t total_;
  std::uint32_t free_ = 0;
  std::uint64_t free_blocks_ = 0;
  std::uint64_t used_blocks_ = 0;
  BlockId first_ = kNoBlock;
  FreeIndex index_;
};

}  // namespace svp
