// SPDX-License-Identifier: Apache-2.0
// A hart saves a context's registers while another one takes the context's memory away. The registers are plain stores,
// as on the card, so ThreadSanitizer sees a save that the owner's end did not wait for.
#include "firmware/arch/riscv/unit_owner.hpp"

#include <gtest/gtest.h>

#include <array>
#include <thread>

namespace {

struct Context {
  bool used = true;
  std::array<std::uint64_t, 64> saved{};
};

constexpr int kRounds = 1000;

// Plain stores, which no optimiser may take for dead.
void write_all(Context& context, std::uint64_t value) {
  context.saved.fill(value);
  asm volatile("" : : "r"(context.saved.data()) : "memory");
}

struct Hart {
  Context* owner = nullptr;
  std::uint32_t lock = 0;

  // As take_vector() does with the registers that another context left.
  void take(Context* next) {
    riscv::spill_owner(
        owner, lock, [](const Context& context) { return context.used; },
        [](Context* context) { write_all(*context, 1); }, [] { std::this_thread::yield(); });
    riscv::UnitOwner<Context>(owner).set(next);
  }
};

// All that this thread knows of the save comes from the owner's word: a relaxed look finds out when, forget_owner()
// orders.
TEST(UnitOwner, MemoryOfAForgottenContextIsNotWrittenAnyMore) {
  Hart hart;
  std::array<Context, 2> contexts;
  Context others;  // what the hart goes on with; it is never dropped
  std::atomic<int> round{0};
  std::thread harts([&] {
    for (int i = 1; i <= kRounds; ++i) {
      // bounded: the other thread counts on at every round
      while (round.load(std::memory_order_acquire) != i) std::this_thread::yield();
      hart.take(&others);
    }
  });
  for (int i = 1; i <= kRounds; ++i) {
    Context& mine = contexts[static_cast<std::size_t>(i) % 2];
    riscv::UnitOwner<Context>(hart.owner).set(&mine);
    round.store(i, std::memory_order_release);
    // bounded: the hart's thread takes the registers in every round
    while (riscv::UnitOwner<Context>(hart.owner).seen_here() == &mine) std::this_thread::yield();
    riscv::forget_owner(hart.owner, hart.lock, &mine, [] { std::this_thread::yield(); });
    write_all(mine, 2);  // somebody else's now
    for (const std::uint64_t word : mine.saved) ASSERT_EQ(word, 2u);
    // bounded: as above; the next round's owner must not be overwritten by this one's
    while (riscv::UnitOwner<Context>(hart.owner).seen_here() != &others) std::this_thread::yield();
  }
  harts.join();  // bounded: both threads make as many rounds
}

TEST(UnitOwner, OnlyTheOwnerIsForgotten) {
  Hart hart;
  Context first, second;
  hart.take(&first);
  riscv::forget_owner(hart.owner, hart.lock, &second, [] {});
  EXPECT_EQ(hart.owner, &first);
  riscv::forget_owner(hart.owner, hart.lock, &first, [] {});
  EXPECT_EQ(hart.owner, nullptr);
  EXPECT_EQ(hart.lock, 0u);
  EXPECT_EQ(first.saved[0], 0u) << "what is dropped is not saved";
}

TEST(UnitOwner, UnusedRegistersAreNotSaved) {
  Hart hart;
  Context first{.used = false}, second;
  hart.take(&first);
  hart.take(&second);
  EXPECT_EQ(first.saved[0], 0u);
  hart.take(&first);
  EXPECT_EQ(second.saved[0], 1u);
}

}  // namespace
