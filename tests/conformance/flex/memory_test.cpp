// SPDX-License-Identifier: Apache-2.0
// Addresses, ownership, and what happens when memory is short.
#include <gmock/gmock.h>

#include <algorithm>
#include <list>
#include <sstream>
#include <thread>

#include "tests/conformance/flex/flex_runtime.hpp"

namespace flex_test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;

class FlexMemory : public FlexRuntime {
 protected:
  void TearDown() override { allocator().registerMemoryPressureCallback({}); }

  // Until nothing is left of any size.
  static void exhaust(std::list<flex::CompositeAddress>& memory) {
    for (std::size_t bytes = std::size_t{1} << 34; bytes >= (std::size_t{1} << 20);) {
      try {
        memory.push_back(tensor(bytes));
      } catch (const std::runtime_error&) {
        bytes /= 2;
      }
    }
  }
};

std::string text_of(const flex::CompositeAddress& address) {
  std::ostringstream text;
  text << std::hex << address;  // the stream's flags are the caller's
  return text.str();
}

TEST_F(FlexMemory, SizesAreWholeSticks) {
  EXPECT_EQ(tensor(0).total_size(), 0U);
  EXPECT_TRUE(tensor(0).chunks().empty());
  EXPECT_EQ(tensor(1).total_size(), 128U);
  EXPECT_EQ(tensor(128).total_size(), 128U);
  EXPECT_EQ(tensor(129).total_size(), 256U);
}

TEST_F(FlexMemory, PrintsWhatItIs) {
  EXPECT_EQ(text_of(flex::CompositeAddress(flex::Chunk({0x3, 0x80}, 256, 0))),
            "CompositeAddress{total_size=256, num_chunks=1, owns=false, "
            "chunks=[Chunk{addr=LogicalAddress{region_id=0x3, offset=0x80}, size=256, domain_id=0}]}");
  const auto memory = tensor(200);
  EXPECT_THAT(text_of(memory), testing::StartsWith("CompositeAddress{total_size=256, num_chunks=1, owns=true, "));
  EXPECT_EQ(text_of(flex::CompositeAddress()), "CompositeAddress{total_size=0, num_chunks=0, owns=false, chunks=[]}");
}

TEST_F(FlexMemory, AnAddressIsASegmentAndAnOffset) {
  const auto memory = tensor(4096);
  const std::uint64_t dmva = allocator().compositeAddressToDmva(memory);
  EXPECT_LT(flex::dmvaToSegmentId(dmva), flex::PROG_SEGMENT);
  EXPECT_EQ(flex::dmvaToSegmentId(dmva), memory.chunks()[0].addr.region_id);
  EXPECT_EQ(dmva % flex::SEGMENT_SIZE, memory.chunks()[0].addr.offset);
  const auto program = allocator().allocate(4096, program_memory());
  EXPECT_EQ(flex::dmvaToSegmentId(allocator().compositeAddressToDmva(program)), flex::PROG_SEGMENT);
  EXPECT_EQ(allocator().compositeAddressToDmva(part_of(memory, 256, 128)), dmva + 256);
  EXPECT_THAT(what_of([] { (void)allocator().compositeAddressToDmva(flex::CompositeAddress()); }), HasSubstr("chunks"));
}

TEST_F(FlexMemory, IsFreedByItsLastOwner) {
  auto memory = tensor(4096);
  const std::uint64_t first = allocator().compositeAddressToDmva(memory);
  flex::CompositeAddress moved(std::move(memory));
  // NOLINTNEXTLINE(bugprone-use-after-move,clang-analyzer-cplusplus.Move): what was moved from is empty
  EXPECT_EQ(memory.total_size(), 0U);
  EXPECT_NE(allocator().compositeAddressToDmva(tensor(4096)), first);
  {
    flex::CompositeAddress view(moved.chunks()[0]);
  }
  const auto bytes = counted_bytes(4096);
  send(stream(), bytes.data(), bytes.size(), moved);
  EXPECT_EQ(content(moved), bytes);
  moved = flex::CompositeAddress();
  EXPECT_EQ(allocator().compositeAddressToDmva(tensor(4096)), first);
}

TEST_F(FlexMemory, AViewOfFreedMemoryIsRefused) {
  const flex::CompositeAddress view = part_of(tensor(4096), 0, 4096);
  const auto bytes = counted_bytes(4096);
  EXPECT_THAT(what_of([&] { send(stream(), bytes.data(), bytes.size(), view); }), HasSubstr("lie in no allocation"));
}

TEST_F(FlexMemory, WhatWorkUnderWayUsesIsNobodyElses) {
  const auto bytes = counted_bytes(std::size_t{3} << 20);
  std::vector<std::uint8_t> back(bytes.size());
  {
    const auto memory = tensor(bytes.size());
    send(stream(), bytes.data(), bytes.size(), memory);
    receive(stream(), back.data(), back.size(), memory);
  }
  const auto other = tensor(bytes.size());
  stream().fillAsync(&other, 0, DataFormats::SENINT8, true);
  stream().synchronize();
  EXPECT_EQ(back, bytes);
}

TEST_F(FlexMemory, ADomainThatDoesNotExistIsRefused) {
  const flex::AllocationDirective second(flex::PlacementPolicy::Bind, {1}, std::nullopt, flex::MemoryType::Tensor);
  EXPECT_THAT(what_of([&] { (void)allocator().allocate(128, second); }), HasSubstr("one domain"));
}

TEST_F(FlexMemory, AnInterleavedAddressHasSeveralChunks) {
  {
    std::list<flex::CompositeAddress> memory;
    exhaust(memory);  // all segments have memory afterwards
  }
  const flex::AllocationDirective directive(flex::PlacementPolicy::Interleave, {0}, 0, flex::MemoryType::Tensor);
  const auto memory = allocator().allocate(std::size_t{1} << 20, directive);
  ASSERT_GT(memory.chunks().size(), 1U);
  EXPECT_EQ(memory.total_size(), std::size_t{1} << 20);
  EXPECT_THAT(what_of([&] { (void)allocator().compositeAddressToDmva(memory); }), HasSubstr("chunks"));
  auto bytes = counted_bytes(memory.total_size());
  send(stream(), bytes.data(), bytes.size(), memory);
  // A chunk is an address of its own.
  const flex::CompositeAddress second(memory.chunks()[1]);
  stream().fillAsync(&second, 5, DataFormats::SENINT8, true);
  const auto first_bytes = static_cast<std::ptrdiff_t>(memory.chunks()[0].size);
  std::fill_n(bytes.begin() + first_bytes, memory.chunks()[1].size, std::uint8_t{5});
  EXPECT_EQ(content(memory), bytes);
}

TEST_F(FlexMemory, RunningOutSaysSo) {
  EXPECT_THAT(what_of([] { (void)tensor(std::size_t{1} << 60); }), HasSubstr("out of memory"));
  EXPECT_THAT(what_of([] { (void)tensor(~std::size_t{0}); }), HasSubstr("out of memory"));
}

TEST_F(FlexMemory, ACallbackThatFreesMemoryIsEnough) {
  std::list<flex::CompositeAddress> memory;
  exhaust(memory);
  int calls = 0;
  bool held = false;
  allocator().registerMemoryPressureCallback([&](std::unique_lock<std::mutex>& lock) {
    ++calls;
    held = lock.owns_lock();
    lock.unlock();
    memory.clear();
    lock.lock();
  });
  const auto again = tensor(std::size_t{16} << 20);
  EXPECT_EQ(again.total_size(), std::size_t{16} << 20);
  EXPECT_EQ(calls, 1);
  EXPECT_TRUE(held);
}

TEST_F(FlexMemory, ACallbackThatFreesNothingEndsInAnError) {
  std::list<flex::CompositeAddress> memory;
  exhaust(memory);
  int calls = 0;
  allocator().registerMemoryPressureCallback([&](std::unique_lock<std::mutex>&) { ++calls; });
  EXPECT_THAT(what_of([] { (void)tensor(std::size_t{16} << 20); }), ContainsRegex("out of memory|OOM|OutOfMemory"));
  EXPECT_EQ(calls, 1);
}

TEST_F(FlexMemory, WhatACallbackThrowsReachesTheCaller) {
  std::list<flex::CompositeAddress> memory;
  exhaust(memory);
  allocator().registerMemoryPressureCallback(
      [](std::unique_lock<std::mutex>&) { throw std::out_of_range("of the program"); });
  EXPECT_THROW((void)tensor(std::size_t{16} << 20), std::out_of_range);
  memory.clear();
  EXPECT_EQ(tensor(128).total_size(), 128U);
}

// A program's lock is held by whoever launches and waits; the callback, which another thread's request calls, wants it.
TEST_F(FlexMemory, ACallbackMayWaitForAThreadThatUsesTheRuntime) {
  std::list<flex::CompositeAddress> memory;
  const auto mine = tensor(4096);
  exhaust(memory);
  std::mutex global;
  allocator().registerMemoryPressureCallback([&](std::unique_lock<std::mutex>& lock) {
    lock.unlock();
    {
      const std::lock_guard collecting(global);
      memory.clear();
    }
    lock.lock();
  });
  const auto bytes = counted_bytes(4096);
  std::unique_lock program(global);
  std::thread asking([] { EXPECT_EQ(tensor(std::size_t{16} << 20).total_size(), std::size_t{16} << 20); });
  for (int i = 0; i < 50; ++i) {
    send(stream(), bytes.data(), bytes.size(), mine);
    stream().synchronize();
  }
  program.unlock();
  asking.join();  // bounded: its callback gets the lock now
  EXPECT_EQ(content(mine), bytes);
}

}  // namespace
}  // namespace flex_test
