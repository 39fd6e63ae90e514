// SPDX-License-Identifier: Apache-2.0
#include "tests/support/chunked_transfers.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host_driver/runtime/strided_split.hpp"
#include "tests/support/nest_loops.hpp"
#include "tests/support/random_nests.hpp"

namespace svp::test {
namespace {

constexpr std::uint64_t kMost = 64 * wire::kKiB;  // of an allocation
constexpr std::size_t kMostBlocksOfANest = 200;

class BlockCount final : public LaunchObserver {
 public:
  void on_block(const BlockRecord&) noexcept override { ++blocks; }
  void on_launch_ended(std::uint64_t, wire::Outcome) noexcept override {}
  std::size_t blocks = 0;  // read after Synchronize only
};

}  // namespace

void hold_regions(FlexAllocator& allocator, std::size_t count, std::uint64_t region_bytes) {
  std::vector<AllocationIndex> all;
  all.reserve(count);
  for (std::size_t i = 0; i < count; ++i) all.push_back(allocator.allocate(region_bytes));
  for (const AllocationIndex index : all) allocator.deallocate(index);
}

// An allocation, and the bytes that it has to have: as many as it has blocks.
struct ChunkedTransfers::Memory {
  std::shared_ptr<FlexAllocator> allocator;
  AllocationIndex index = AllocationIndex::Null;
  std::vector<std::byte> expected;

  explicit Memory(std::shared_ptr<FlexAllocator> from) : allocator(std::move(from)) {}
  Memory(Memory&& other) noexcept
      : allocator(std::move(other.allocator)),
        index(std::exchange(other.index, AllocationIndex::Null)),
        expected(std::move(other.expected)) {}
  Memory& operator=(Memory&&) = delete;
  ~Memory() {
    if (index != AllocationIndex::Null) (void)allocator->try_deallocate(index);
  }
};

ChunkedTransfers::ChunkedTransfers(Runtime& runtime, FlexStream& stream, std::uint64_t seed)
    : runtime_(runtime), stream_(stream), random_(seed) {}

ChunkedTransfers::Memory ChunkedTransfers::allocate(std::uint64_t bytes) {
  Memory memory(runtime_.shared_allocator());
  memory.index =
      memory.allocator->allocate(bytes, {.placement = below(5) == 0 ? Placement::Anywhere : Placement::Interleave});
  const ResolvedChunks chunks = memory.allocator->resolve_chunks(memory.index);
  if (chunks.count > 1) counts_.chunks += chunks.count;
  memory.expected.resize(chunks.block_bytes);
  const std::uint64_t pattern = random_();
  for (std::size_t i = 0; i < memory.expected.size(); i += 8) std::memcpy(&memory.expected[i], &pattern, 8);
  launch(Job::fill(memory.index, chunks.block_bytes, pattern));
  return memory;
}

// One at a time: host memory of a transfer belongs to it until then.
void ChunkedTransfers::launch(const Job& job) {
  BlockCount count;
  stream_.Launch(job, {}, {.observer = &count});
  stream_.Synchronize();
  ++counts_.transfers;
  counts_.blocks += count.blocks;
}

void ChunkedTransfers::write(Memory& memory) {
  const std::uint64_t offset = below(memory.expected.size() / 128) * 128;
  const std::uint64_t bytes = 1 + below(memory.expected.size() - offset);
  const auto part = std::span(memory.expected).subspan(offset, bytes);
  for (std::byte& byte : part) byte = static_cast<std::byte>(random_());
  if (below(2) == 0) return launch(Job::to_device(part.data(), memory.index, bytes, offset));
  const PinnedBuffer pinned = runtime_.host_memory().allocate(bytes);
  std::memcpy(pinned.data(), part.data(), bytes);
  launch(Job::to_device(pinned.data(), memory.index, bytes, offset));
}

void ChunkedTransfers::fill(Memory& memory) {
  const std::uint64_t offset = below(memory.expected.size() / 128) * 128;
  const std::uint64_t bytes = (1 + below((memory.expected.size() - offset) / 8)) * 8;
  const std::uint64_t pattern = random_();
  for (std::uint64_t i = 0; i < bytes; i += 8) std::memcpy(&memory.expected[offset + i], &pattern, 8);
  launch(Job::fill(memory.index, bytes, pattern, offset));
}

void ChunkedTransfers::copy(Memory& to, const Memory& from) {
  const std::uint64_t offset = below(to.expected.size() / 128) * 128;
  const std::uint64_t source = below(from.expected.size() / 128) * 128;
  const std::uint64_t bytes = 1 + below(std::min(to.expected.size() - offset, from.expected.size() - source));
  std::memcpy(&to.expected[offset], &from.expected[source], bytes);
  launch(Job(JobPlan({DMA{.allocation_index = to.index,
                          .size = bytes,
                          .direction = Direction::DeviceToDevice,
                          .offset = offset,
                          .source_allocation_index = from.index,
                          .source_offset = source}})));
}

void ChunkedTransfers::move_nest(Memory& to, const Memory& from) {
  const Nest nest =
      random_nest(random_, {.elements = 700, .memory_bytes = std::min(to.expected.size(), from.expected.size())});
  const auto parts = split_at_chunks(runtime_.allocator(),
                                     {.source = CardPlace{from.index},
                                      .destination = CardPlace{to.index},
                                      .element_bytes = nest.element_bytes,
                                      .loops = loops_of(nest)},
                                     kMostBlocksOfANest);
  ++counts_.nests;
  if (!parts) {
    ++counts_.refused_nests;
    return;
  }
  if (parts->size() > 1) ++counts_.cut_nests;
  move(nest, from.expected, to.expected);
  launch(Job(JobPlan(std::vector<Step>(parts->begin(), parts->end()))));
}

std::optional<std::string> ChunkedTransfers::check(const Memory& memory, const char* what) {
  std::vector<std::byte> found(memory.expected.size());
  launch(Job::from_device(found.data(), memory.index, found.size()));
  PinnedBuffer pinned = runtime_.host_memory().allocate(found.size());
  launch(Job::from_device(pinned.data(), memory.index, found.size()));
  const auto wrong = std::ranges::mismatch(found, memory.expected).in1 - found.begin();
  if (static_cast<std::size_t>(wrong) != found.size()) {
    return std::string(what) + ": byte " + std::to_string(wrong) + " of " + std::to_string(found.size());
  }
  if (std::memcmp(pinned.data(), found.data(), found.size()) != 0)
    return std::string(what) + ": read into pinned memory";
  return std::nullopt;
}

std::optional<std::string> ChunkedTransfers::run(std::size_t rounds) {
  while (rounds-- != 0) {
    Memory a = allocate(1 + below(kMost));
    Memory between = allocate(1 + below(kMost));  // what must not change
    Memory b = allocate(1 + below(kMost));
    for (int i = 0; i < 12; ++i) {
      Memory& to = below(2) == 0 ? a : b;
      const Memory& from = &to == &a ? b : a;
      switch (below(4)) {
        case 0: write(to); break;
        case 1: fill(to); break;
        case 2: copy(to, from); break;
        default: move_nest(to, from); break;
      }
    }
    if (auto wrong = check(a, "the first")) return wrong;
    if (auto wrong = check(b, "the second")) return wrong;
    if (auto wrong = check(between, "a bystander")) return wrong;
  }
  return std::nullopt;
}

}  // namespace svp::test
