// SPDX-License-Identifier: Apache-2.0
// P11: FlexAllocator allocate + free with 1 … 100 000 live blocks, and a trace like that of a PyTorch program, against
// itself at one live block and against malloc in the same run. Every figure is the time of one allocate and one free.
//
//   allocator_bench --benchmark_repetitions=5 --benchmark_report_aggregates_only=true
//
// Goals: FlexStackPair/100000 ≤ 1.5 × its value at 1 live block; FlexRandomPair/100000 ≤ 1.5 × MallocRandomPair/100000;
// FlexTrace ≤ 5 × MallocTrace. What a pair at a random place costs beyond itself at 1 live block is cache misses, which
// malloc has, too.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "host_driver/memory/flex_allocator.hpp"

namespace svp {
namespace {

// Grants as much as is asked for: what is measured is the driver's own work.
class PlentifulSource : public RegionSource {
 public:
  Expected<Region> acquire(RegionType type, std::uint64_t bytes) override {
    const std::uint32_t ordinal = type == RegionType::Program ? wire::kProgramRegion : next_++;
    return Region{.base = {ordinal, 0}, .generation = 1, .ordinal = ordinal, .bytes = bytes, .type = type};
  }
  Expected<void> release(const Region&) override { return {}; }
  Expected<MemoryInfo> memory_info() override { return MemoryInfo{}; }

 private:
  std::uint32_t next_ = 0;
};

struct DeviceHeap {
  using Handle = AllocationIndex;
  Handle allocate(std::uint64_t bytes) { return allocator.allocate(bytes); }
  void release(Handle handle) { allocator.deallocate(handle); }
  PlentifulSource source;
  FlexAllocator allocator{source};
};

struct MallocHeap {
  using Handle = void*;
  Handle allocate(std::uint64_t bytes) {
    void* block = std::malloc(bytes);
    benchmark::DoNotOptimize(block);
    return block;
  }
  void release(Handle handle) { std::free(handle); }
};

// Sizes of a trace: the logarithm is uniform between the ends, as activations, weights and scalars mix.
std::vector<std::uint64_t> trace_sizes(std::uint64_t smallest, std::uint64_t largest) {
  std::mt19937_64 random(20260101);
  const auto span = static_cast<double>(std::bit_width(largest) - std::bit_width(smallest));
  std::uniform_real_distribution<double> exponent(0, span);
  std::vector<std::uint64_t> sizes(1U << 14);
  std::ranges::generate(
      sizes, [&] { return static_cast<std::uint64_t>(static_cast<double>(smallest) * std::exp2(exponent(random))); });
  return sizes;
}

template <typename Heap>
std::vector<typename Heap::Handle> populate(Heap& heap, std::size_t live, std::span<const std::uint64_t> sizes) {
  std::vector<typename Heap::Handle> handles;
  for (std::size_t i = 0; i < live; ++i) handles.push_back(heap.allocate(sizes[i % sizes.size()]));
  std::shuffle(handles.begin(), handles.end(), std::mt19937(1));
  for (std::size_t i = 0; i < live / 4; ++i) {  // holes, so that the free index is as full as the heap
    heap.release(handles.back());
    handles.pop_back();
  }
  while (handles.size() < live) handles.push_back(heap.allocate(sizes[(handles.size() * 7) % sizes.size()]));
  return handles;
}

// The newest block goes and comes again while `live` others stay.
template <typename Heap>
void StackPair(benchmark::State& state) {
  auto heap = std::make_unique<Heap>();
  const auto sizes = trace_sizes(128, 4096);
  const auto handles = populate(*heap, static_cast<std::size_t>(state.range(0)), sizes);
  std::size_t i = 0;
  for (auto _ : state) {
    heap->release(heap->allocate(sizes[i]));
    i = (i + 1) % sizes.size();
  }
  for (const auto handle : handles) heap->release(handle);
}

// A random one of `live` blocks goes and another comes: also measures what memory it touches.
template <typename Heap>
void RandomPair(benchmark::State& state) {
  auto heap = std::make_unique<Heap>();
  const auto sizes = trace_sizes(128, 4096);
  auto handles = populate(*heap, static_cast<std::size_t>(state.range(0)), sizes);
  std::vector<std::uint32_t> victims(1U << 16);
  std::mt19937 random(2);
  std::ranges::generate(victims, [&] { return static_cast<std::uint32_t>(random() % handles.size()); });
  std::size_t i = 0;
  for (auto _ : state) {
    auto& victim = handles[victims[i % victims.size()]];
    heap->release(victim);
    victim = heap->allocate(sizes[i % sizes.size()]);
    ++i;
  }
  for (const auto handle : handles) heap->release(handle);
}

// A program with phases: blocks come in bursts and most of a burst goes again in any order; a few stay for long.
template <typename Heap>
void trace(benchmark::State& state, Heap& heap, std::span<const std::uint64_t> sizes) {
  std::mt19937 random(3);
  std::vector<typename Heap::Handle> burst;
  std::vector<typename Heap::Handle> kept;
  std::size_t i = 0;
  std::int64_t pairs = 0;
  for (auto _ : state) {
    for (int k = 0; k < 256; ++k) burst.push_back(heap.allocate(sizes[i++ % sizes.size()]));
    for (std::size_t k = 0; k < 256; k += 32) kept.push_back(std::exchange(burst[k], typename Heap::Handle{}));
    for (std::size_t k = 0; k < burst.size(); ++k) std::swap(burst[k], burst[random() % burst.size()]);
    for (const auto handle : burst) {
      if (handle != typename Heap::Handle{}) heap.release(handle);
    }
    burst.clear();
    if (kept.size() > 512) {
      for (std::size_t k = 0; k < 256; ++k) heap.release(kept[k]);
      kept.erase(kept.begin(), kept.begin() + 256);
    }
    pairs += 256;
  }
  for (const auto handle : kept) heap.release(handle);
  state.SetItemsProcessed(pairs);
  state.counters["per_pair"] =
      benchmark::Counter(static_cast<double>(pairs), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void FlexTrace(benchmark::State& state) {
  DeviceHeap heap;
  trace(state, heap, trace_sizes(128, static_cast<std::uint64_t>(state.range(0))));
}

void MallocTrace(benchmark::State& state) {
  MallocHeap heap;
  trace(state, heap, trace_sizes(128, static_cast<std::uint64_t>(state.range(0))));
}

// Fragmentation of the full-size trace with `range(0)` live blocks that are replaced at random a million times.
void Fragmentation(benchmark::State& state) {
  const auto sizes = trace_sizes(128, 64 * wire::kMiB);
  AllocatorStatistics end;
  for (auto _ : state) {
    DeviceHeap heap;
    std::mt19937 random(4);
    auto handles = populate(heap, static_cast<std::size_t>(state.range(0)), sizes);
    for (int i = 0; i < 1'000'000; ++i) {
      auto& victim = handles[random() % handles.size()];
      heap.release(victim);
      victim = heap.allocate(sizes[random() % sizes.size()]);
    }
    end = heap.allocator.statistics();
    for (const auto handle : handles) heap.release(handle);
  }
  state.counters["score"] = end.fragmentation;
  state.counters["reserved_over_used"] =
      static_cast<double>(end.reserved_bytes.current) / static_cast<double>(end.bytes.current);
}

void Resolve(benchmark::State& state) {
  DeviceHeap heap;
  const auto handles = populate(heap, static_cast<std::size_t>(state.range(0)), trace_sizes(128, 4096));
  std::size_t i = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(heap.allocator.resolve(handles[i]));
    if (++i == handles.size()) i = 0;
  }
}

BENCHMARK(StackPair<DeviceHeap>)->Name("FlexStackPair")->Arg(1)->Arg(1000)->Arg(100'000);
BENCHMARK(StackPair<MallocHeap>)->Name("MallocStackPair")->Arg(1)->Arg(1000)->Arg(100'000);
BENCHMARK(RandomPair<DeviceHeap>)->Name("FlexRandomPair")->Arg(1)->Arg(1000)->Arg(100'000);
BENCHMARK(RandomPair<MallocHeap>)->Name("MallocRandomPair")->Arg(1)->Arg(1000)->Arg(100'000);
BENCHMARK(FlexTrace)->Arg(64 << 10)->Arg(64 << 20);
BENCHMARK(MallocTrace)->Arg(64 << 10);
BENCHMARK(Resolve)->Arg(1)->Arg(100'000);
BENCHMARK(Fragmentation)->Arg(1000)->Unit(benchmark::kMillisecond)->Iterations(1);

}  // namespace
}  // namespace svp

BENCHMARK_MAIN();
