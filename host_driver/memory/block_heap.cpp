// SPDX-License-Identifier: Apache-2.0
#include "host_driver/memory/block_heap.hpp"

#include <bit>
#include <new>

namespace svp {
namespace {

constexpr unsigned log2_floor(std::uint32_t value) { return 31U - static_cast<unsigned>(std::countl_zero(value)); }

constexpr std::uint32_t align_units(std::uint32_t value, std::uint32_t alignment) {
  return (value + alignment - 1) & ~(alignment - 1);
}

// In a trie every key below child[0] is smaller than every key below child[1], while a node's own key is anywhere in
// its subtree's range: the extreme of a subtree lies on the path that prefers one side.
BlockId extreme(const BlockNodes& nodes, BlockId root, unsigned preferred, auto&& better) {
  BlockId best = root;
  if (FreeIndex::key_bits(nodes[root].size) == 0) return root;
  for (BlockId at = root; at != kNoBlock;) {
    const BlockNode& node = nodes[at];
    if (better(node.size, nodes[best].size)) best = at;
    const BlockChildren& child = nodes.children(at);
    at = child[preferred] != kNoBlock ? child[preferred] : child[1 - preferred];
  }
  return best;
}

BlockId smallest_of(const BlockNodes& nodes, BlockId root) {
  return extreme(nodes, root, 0, [](std::uint32_t a, std::uint32_t b) { return a < b; });
}

BlockId largest_of(const BlockNodes& nodes, BlockId root) {
  return extreme(nodes, root, 1, [](std::uint32_t a, std::uint32_t b) { return a > b; });
}

// The smallest block of at least `size` in a trie whose keys differ in the lowest `bits` bits.
BlockId least_at_least(const BlockNodes& nodes, BlockId root, std::uint32_t size, unsigned bits) {
  BlockId best = kNoBlock;
  BlockId above = kNoBlock;  // the deepest subtree that was passed by and holds only larger keys
  for (BlockId at = root; at != kNoBlock;) {
    const BlockNode& node = nodes[at];
    if (node.size >= size && (best == kNoBlock || node.size < nodes[best].size)) best = at;
    if (node.size == size || bits == 0) break;
    const unsigned side = (size >> --bits) & 1U;
    const BlockChildren& child = nodes.children(at);
    if (side == 0 && child[1] != kNoBlock) above = child[1];
    at = child[side];
  }
  if (above == kNoBlock) return best;
  const BlockId candidate = smallest_of(nodes, above);
  return best == kNoBlock || nodes[candidate].size < nodes[best].size ? candidate : best;
}

// Of a ring of equal blocks the one outside the tree is the cheapest to remove.
BlockId ring_member(const BlockNodes& nodes, BlockId id) { return id == kNoBlock ? id : nodes[id].ring_next; }

// Any leaf below `id` shares its key prefix and may stand in its place. kNoBlock: there is none.
BlockId cut_leaf_below(BlockNodes& nodes, BlockId id) {
  BlockId leaf = id;
  for (;;) {  // bounded: one iteration per level of the tree
    const BlockChildren& child = nodes.children(leaf);
    const BlockId down = child[0] != kNoBlock ? child[0] : child[1];
    if (down == kNoBlock) break;
    leaf = down;
  }
  if (leaf == id) return kNoBlock;
  BlockChildren& siblings = nodes.children(nodes[leaf].parent);
  siblings[siblings[1] == leaf] = kNoBlock;
  return leaf;
}

void hand_over_children(BlockNodes& nodes, BlockId from, BlockId to) {
  nodes.children(to) = nodes.children(from);
  for (const BlockId child : nodes.children(from)) {
    if (child != kNoBlock) nodes[child].parent = to;
  }
}

}  // namespace

BlockId BlockNodes::take() {
  if (free_ != kNoBlock) {
    const BlockId id = free_;
    free_ = nodes_[id].next;
    --free_count_;
    BlockNode blank;
    blank.generation = nodes_[id].generation;
    nodes_[id] = blank;
    return id;
  }
  if (nodes_.size() >= kMaxNodes) return kNoBlock;
  if (children_.size() == nodes_.size()) children_.push_back({kNoBlock, kNoBlock});  // may throw: nothing changed then
  nodes_.emplace_back();
  return static_cast<BlockId>(nodes_.size() - 1);
}

void BlockNodes::give_back(BlockId id) {
  nodes_[id].used = 0;
  if (exhausted(id)) return;
  nodes_[id].next = free_;
  free_ = id;
  ++free_count_;
}

unsigned FreeIndex::key_bits(std::uint32_t size) { return size < kClasses ? 0 : log2_floor(size) - kSplitBits; }

unsigned FreeIndex::class_of(std::uint32_t size) {
  if (size < kClasses) return size;
  const unsigned shift = log2_floor(size) - kSplitBits;
  return (shift + 1) * kClasses + ((size >> shift) & (kClasses - 1));
}

void FreeIndex::set_head(unsigned index, BlockId head) {
  heads_[index] = head;
  const unsigned level = index / kClasses;
  const std::uint32_t bit = 1U << (index % kClasses);
  if (head != kNoBlock) {
    class_map_[level] |= bit;
    level_map_ |= 1U << level;
    return;
  }
  class_map_[level] &= ~bit;
  if (class_map_[level] == 0) level_map_ &= ~(1U << level);
}

BlockId FreeIndex::next_class(unsigned from) const {
  const unsigned level = from / kClasses;
  if (level >= kLevels) return kNoBlock;
  const std::uint32_t classes = class_map_[level] & (~0U << (from % kClasses));
  if (classes != 0) return heads_[level * kClasses + static_cast<unsigned>(std::countr_zero(classes))];
  const std::uint32_t levels = level_map_ & (~1U << level);  // strictly above `level`, which is at most 27
  if (levels == 0) return kNoBlock;
  const auto up = static_cast<unsigned>(std::countr_zero(levels));
  return heads_[up * kClasses + static_cast<unsigned>(std::countr_zero(class_map_[up]))];
}

// Blocks of a class without further size bits are all equal: one ring, no trie, and no child is looked at.
void FreeIndex::insert(BlockNodes& nodes, BlockId id) {
  BlockNode& node = nodes[id];
  node.ring_previous = node.ring_next = id;
  node.parent = kNoBlock;
  node.in_tree = 1;

  const unsigned index = class_of(node.size);
  unsigned bits = key_bits(node.size);
  if (bits != 0) nodes.children(id) = {kNoBlock, kNoBlock};
  BlockId at = heads_[index];
  if (at == kNoBlock) return set_head(index, id);
  while (bits != 0 && nodes[at].size != node.size) {
    const unsigned side = (node.size >> --bits) & 1U;
    BlockId& child = nodes.children(at)[side];
    if (child == kNoBlock) {
      child = id;
      node.parent = at;
      return;
    }
    at = child;
  }
  node.in_tree = 0;
  node.ring_previous = at;
  node.ring_next = nodes[at].ring_next;
  nodes[node.ring_next].ring_previous = id;
  nodes[at].ring_next = id;
}

void FreeIndex::remove(BlockNodes& nodes, BlockId id) {
  BlockNode& node = nodes[id];
  if (node.ring_next != id) {
    nodes[node.ring_previous].ring_next = node.ring_next;
    nodes[node.ring_next].ring_previous = node.ring_previous;
    if (!node.in_tree) return;
  }
  const bool in_trie = key_bits(node.size) != 0;
  BlockId heir = node.ring_next != id ? node.ring_next : kNoBlock;
  if (heir == kNoBlock && in_trie) heir = cut_leaf_below(nodes, id);
  if (heir != kNoBlock) {
    nodes[heir].in_tree = 1;
    nodes[heir].parent = node.parent;
    if (in_trie) hand_over_children(nodes, id, heir);
  }
  if (node.parent == kNoBlock) return set_head(class_of(node.size), heir);
  BlockChildren& siblings = nodes.children(node.parent);
  siblings[siblings[1] == id] = heir;
}

BlockId FreeIndex::best_fit(const BlockNodes& nodes, std::uint32_t size) const {
  const unsigned index = class_of(size);
  const BlockId in_class = least_at_least(nodes, heads_[index], size, key_bits(size));
  if (in_class != kNoBlock) return ring_member(nodes, in_class);
  const BlockId head = next_class(index + 1);
  return head == kNoBlock ? kNoBlock : ring_member(nodes, smallest_of(nodes, head));
}

BlockId FreeIndex::first_fit(const BlockNodes& nodes, std::uint32_t size) const {
  const std::uint32_t low_bits = (1U << key_bits(size)) - 1;
  const unsigned index = class_of(size) + ((size & low_bits) != 0 ? 1 : 0);
  const BlockId head = next_class(index);
  return head == kNoBlock ? best_fit(nodes, size) : ring_member(nodes, head);
}

BlockId FreeIndex::largest(const BlockNodes& nodes) const {
  if (level_map_ == 0) return kNoBlock;
  const unsigned level = log2_floor(level_map_);
  return largest_of(nodes, heads_[level * kClasses + log2_floor(class_map_[level])]);
}

BlockHeap::BlockHeap(BlockNodes& nodes, unsigned tag, std::uint64_t bytes)
    : nodes_(&nodes), tag_(tag), total_(static_cast<std::uint32_t>(bytes / kBlockUnit)) {
  first_ = nodes.take();
  if (first_ == kNoBlock) return;  // a heap without nodes has nothing free
  nodes[first_].size = total_;
  nodes[first_].heap = tag_ & 0xFU;
  add_free(first_);
}

void BlockHeap::add_free(BlockId id) {
  (*nodes_)[id].used = 0;
  free_ += (*nodes_)[id].size;
  ++free_blocks_;
  index_.insert(*nodes_, id);
}

void BlockHeap::take_free(BlockId id) {
  index_.remove(*nodes_, id);
  free_ -= (*nodes_)[id].size;
  --free_blocks_;
}

BlockId BlockHeap::find(std::uint32_t size, Fit fit) const {
  return fit == Fit::Best ? index_.best_fit(*nodes_, size) : index_.first_fit(*nodes_, size);
}

BlockId BlockHeap::find_aligned(std::uint32_t size, std::uint32_t alignment, Fit fit) const {
  const BlockId id = find(size, fit);
  if (id == kNoBlock || alignment == 1) return id;
  const BlockNode& node = (*nodes_)[id];
  const std::uint32_t lost = align_units(node.offset, alignment) - node.offset;
  if (lost <= node.size - size) return id;
  return size > total_ - (alignment - 1) ? kNoBlock : find(size + alignment - 1, fit);
}

BlockId BlockHeap::split(BlockId id, std::uint32_t keep) {
  const BlockId rest = nodes_->take();
  BlockNode& low = (*nodes_)[id];
  BlockNode& high = (*nodes_)[rest];
  high.heap = low.heap;
  high.offset = low.offset + keep;
  high.size = low.size - keep;
  high.previous = id;
  high.next = low.next;
  if (high.next != kNoBlock) (*nodes_)[high.next].previous = rest;
  low.next = rest;
  low.size = keep;
  return rest;
}

void BlockHeap::absorb_next(BlockId id) {
  BlockNode& low = (*nodes_)[id];
  const BlockId gone = low.next;
  const BlockNode& high = (*nodes_)[gone];
  low.size += high.size;
  low.next = high.next;
  if (low.next != kNoBlock) (*nodes_)[low.next].previous = id;
  nodes_->give_back(gone);
}

BlockId BlockHeap::relocate(BlockId id) {
  BlockId fresh = kNoBlock;
  try {
    fresh = nodes_->take();
  } catch (const std::bad_alloc&) {
    return id;  // releasing never fails: the id is used once more than it should be
  }
  if (fresh == kNoBlock) return id;
  BlockNode& to = (*nodes_)[fresh];
  const BlockNode& from = (*nodes_)[id];
  to.offset = from.offset;
  to.size = from.size;
  to.heap = from.heap;
  to.previous = from.previous;
  to.next = from.next;
  if (to.previous != kNoBlock) (*nodes_)[to.previous].next = fresh;
  if (to.next != kNoBlock) (*nodes_)[to.next].previous = fresh;
  if (first_ == id) first_ = fresh;
  return fresh;
}

std::optional<BlockId> BlockHeap::allocate(std::uint64_t bytes, std::uint64_t alignment, Fit fit, BlockEnd end) {
  if (bytes == 0 || bytes > total_bytes() || alignment > total_bytes()) return std::nullopt;
  if (!nodes_->has_room(2)) return std::nullopt;  // two splits at most
  const auto size = static_cast<std::uint32_t>(wire::align_up(bytes, kBlockUnit) / kBlockUnit);
  const auto step = static_cast<std::uint32_t>(alignment / kBlockUnit);
  BlockId id = find_aligned(size, step, fit);
  if (id == kNoBlock) return std::nullopt;

  take_free(id);
  const std::uint32_t begin = (*nodes_)[id].offset;
  const std::uint32_t highest = (begin + (*nodes_)[id].size - size) & ~(step - 1);
  const std::uint32_t lost = (end == BlockEnd::Low ? align_units(begin, step) : highest) - begin;
  if (lost > 0) {
    const BlockId aligned = split(id, lost);
    add_free(id);
    id = aligned;
  }
  if ((*nodes_)[id].size > size) add_free(split(id, size));
  (*nodes_)[id].used = 1;
  (*nodes_)[id].doomed = 0;
  (*nodes_)[id].uses = 0;
  (*nodes_)[id].slack = static_cast<std::uint32_t>((*nodes_)[id].size * kBlockUnit - bytes);
  ++used_blocks_;
  return id;
}

void BlockHeap::release(BlockId id) {
  --used_blocks_;
  BlockNode& node = (*nodes_)[id];
  nodes_->prefetch(node.next);
  nodes_->prefetch(node.previous);
  ++node.generation;
  node.used = 0;
  if (nodes_->exhausted(id)) id = relocate(id);
  const BlockId above = (*nodes_)[id].next;
  if (above != kNoBlock && !(*nodes_)[above].used) {
    take_free(above);
    absorb_next(id);
  }
  const BlockId below = (*nodes_)[id].previous;
  if (below != kNoBlock && !(*nodes_)[below].used) {
    take_free(below);
    absorb_next(below);
    id = below;
  }
  add_free(id);
}

void BlockHeap::clear() {
  for (BlockId id = first_; id != kNoBlock;) {
    BlockNode& node = (*nodes_)[id];
    const BlockId next = node.next;
    if (node.used) ++node.generation;
    nodes_->give_back(id);
    id = next;
  }
  first_ = kNoBlock;
  total_ = free_ = 0;
  free_blocks_ = used_blocks_ = 0;
  index_ = FreeIndex();
}

std::uint64_t BlockHeap::largest_free() const {
  const BlockId id = index_.largest(*nodes_);
  return id == kNoBlock ? 0 : (*nodes_)[id].size * kBlockUnit;
}

}  // namespace svp
