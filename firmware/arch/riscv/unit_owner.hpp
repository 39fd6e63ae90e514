// SPDX-License-Identifier: Apache-2.0
// Whose f or v registers stand in a hart's registers: handed over between that hart, which saves them to the owner's
// memory before it gives them to somebody else, and any hart that takes the owner's memory away. No instruction of the
// machine is in here, so that it is tested natively and under ThreadSanitizer; tests/model/unit_owner.pml has its
// orders.
#pragma once

#include <atomic>
#include <cstdint>

namespace riscv {

// `Context` is hal::Context; the pause of the lock is the caller's (a hart that waits must still notice a panic).
template <typename Context>
class UnitOwner {
 public:
  explicit UnitOwner(Context*& owner) : owner_(owner) {}

  // By the hart itself, which alone makes anybody an owner.
  Context* seen_here() const { return owner_.load(std::memory_order_relaxed); }

  // By the hart itself. Release: who sees another owner sees what was saved of the one before (gave_up()).
  void set(Context* context) { owner_.store(context, std::memory_order_release); }

  // By any hart: true when `context` owns nothing here any more, and everything that this hart wrote to its memory is
  // visible. Acquire: its memory is about to become somebody else's, and a late store would land there.
  bool gave_up(const Context* context) const { return owner_.load(std::memory_order_acquire) != context; }

  // By any hart, under the hart's lock: takes the registers from `context` unless somebody else has them already.
  void take_from(Context* context) { owner_.compare_exchange_strong(context, nullptr, std::memory_order_acq_rel); }

 private:
  std::atomic_ref<Context*> owner_;
};

// Held while an owner's registers are saved, and by harts that drop an owner.
template <typename Pause>
class UnitLock {
 public:
  UnitLock(std::uint32_t& word, Pause pause) : word_(word) {
    // bounded: the holder saves one unit's registers, or makes one store
    while (word_.exchange(1, std::memory_order_acquire) != 0) pause();
  }
  ~UnitLock() { word_.store(0, std::memory_order_release); }
  UnitLock(const UnitLock&) = delete;
  UnitLock& operator=(const UnitLock&) = delete;

 private:
  std::atomic_ref<std::uint32_t> word_;
};

// By the hart itself: saves the owner's registers when `used(owner)`, and leaves them without owner.
template <typename Context, typename Used, typename Save, typename Pause>
void spill_owner(Context*& word, std::uint32_t& lock_word, Used used, Save save, Pause pause) {
  UnitOwner<Context> owner(word);
  if (owner.seen_here() == nullptr) return;
  const UnitLock lock(lock_word, pause);
  if (Context* const context = owner.seen_here(); context != nullptr && used(*context)) save(context);
  owner.set(nullptr);
}

// By any hart: `context` owns the registers no more when this returns, and no store to its memory is still under way.
template <typename Context, typename Pause>
void forget_owner(Context*& word, std::uint32_t& lock_word, Context* context, Pause pause) {
  UnitOwner<Context> owner(word);
  if (owner.gave_up(context)) return;
  const UnitLock lock(lock_word, pause);
  owner.take_from(context);
}

}  // namespace riscv
