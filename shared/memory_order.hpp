// SPDX-License-Identifier: Apache-2.0
// The only way both sides touch words that the other side writes concurrently. Plain integers in shared layouts, atomic
// access at the point of use: the layout stays a plain struct, and ThreadSanitizer sees every access.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstring>

namespace wire {

template <typename T>
T load_relaxed(const T& word) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_relaxed);
}
template <typename T>
T load_acquire(const T& word) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  return std::atomic_ref<T>(const_cast<T&>(word)).load(std::memory_order_acquire);
}
template <typename T>
void store_relaxed(T& word, T value) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  std::atomic_ref<T>(word).store(value, std::memory_order_relaxed);
}
template <typename T>
void store_release(T& word, T value) {
  static_assert(std::atomic_ref<T>::is_always_lock_free);
  std::atomic_ref<T>(word).store(value, std::memory_order_release);
}

// Store→load order between the two sides: needed before every decision to sleep or not to ring (protocol §8). Written
// as a locked operation on x86 by the compiler, `fence rw,rw` on RISC-V.
inline void full_fence() { std::atomic_thread_fence(std::memory_order_seq_cst); }

// Every store before it is visible before any store behind it. A store with release order alone orders what stands
// before it; what stands behind may overtake it.
inline void store_fence() { std::atomic_thread_fence(std::memory_order_release); }

// Copies `words` 64-bit words that the other side may be changing meanwhile. Each word is read exactly once; the copy
// is private afterwards and is what gets validated (copy once, validate, use). The private side is some structure: it
// is copied as bytes, or the compiler may read its fields before these stores.
inline void copy_shared_words(std::uint64_t* to, const std::uint64_t* from, std::size_t words) {
#pragma clang loop unroll_count(8)
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = load_relaxed(from[i]);
    __builtin_memcpy(to + i, &word, sizeof word);
  }
}
// The other direction: publishes a private structure into shared memory word by word (ordered by a later release).
inline void store_shared_words(std::uint64_t* to, const std::uint64_t* from, std::size_t words) {
  for (std::size_t i = 0; i < words; ++i) {
    std::uint64_t word;
    __builtin_memcpy(&word, from + i, sizeof word);
    store_relaxed(to[i], word);
  }
}

}  // namespace wire
