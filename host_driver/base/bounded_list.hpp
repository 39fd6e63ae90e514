// SPDX-License-Identifier: Apache-2.0
// A list of at most kMost items that lie in the object itself: no heap. Room that no item is in costs nothing, it is
// neither cleared nor copied. For what a launch has of each operand: most have three, some have many.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

namespace svp {

template <typename T, std::size_t kMost>
class BoundedList {
  static_assert(std::is_trivially_destructible_v<T> && std::is_copy_constructible_v<T>);

 public:
  BoundedList() noexcept {}  // NOLINT(modernize-use-equals-default): a defaulted one would be deleted
  BoundedList(const BoundedList& other) : size_(other.size_) { std::uninitialized_copy_n(other.items_, size_, items_); }
  BoundedList& operator=(const BoundedList& other) {
    if (this == &other) return *this;
    size_ = other.size_;
    std::uninitialized_copy_n(other.items_, size_, items_);
    return *this;
  }
  ~BoundedList() = default;

  static constexpr std::size_t capacity() { return kMost; }
  std::size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T* data() { return items_; }
  const T* data() const { return items_; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T& operator[](std::size_t index) { return items_[index]; }
  const T& operator[](std::size_t index) const { return items_[index]; }
  T& back() { return items_[size_ - 1]; }
  std::span<const T> items() const { return {items_, size_}; }

  // The caller has made sure that there is room: size() < capacity().
  T& push_back(const T& item) { return *std::construct_at(items_ + size_++, item); }
  // `count` is at most capacity(). New items are as T{} makes them.
  void resize(std::size_t count) {
    for (std::size_t i = size_; i < count; ++i) std::construct_at(items_ + i);
    size_ = count;
  }
  void clear() { size_ = 0; }

 private:
  std::size_t size_ = 0;
  union {
    T items_[kMost];
  };
};

}  // namespace svp
