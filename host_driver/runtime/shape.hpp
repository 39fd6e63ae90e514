// SPDX-License-Identifier: Apache-2.0
// Shapes without heap, and where the elements of a tensor in default stick layout lie (RFC "tiled tensors";
// tensor_layout.hpp is the general form). Extents are elements, strides and sizes bytes.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/tensor/data_type.hpp"
#include "shared/units.hpp"

namespace svp {

class Shape {
 public:
  static constexpr std::size_t kMaxRank = 8;

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> extents) : Shape(std::span(extents.begin(), extents.size())) {}
  // Throws InvalidArgument when the rank is above kMaxRank.
  explicit Shape(std::span<const std::int64_t> extents) {
    if (extents.size() > kMaxRank) {
      throw InvalidArgument("shape", "rank " + std::to_string(extents.size()) + " is above " + std::to_string(kMaxRank),
                            "fold dimensions");
    }
    for (const std::int64_t extent : extents) extent_[rank_++] = extent;
  }

  std::size_t rank() const { return rank_; }
  std::int64_t operator[](std::size_t dimension) const { return extent_[dimension]; }
  std::int64_t& operator[](std::size_t dimension) { return extent_[dimension]; }
  std::span<const std::int64_t> extents() const { return {extent_.data(), rank_}; }

  friend bool operator==(const Shape& a, const Shape& b) {
    if (a.rank_ != b.rank_) return false;
    for (std::size_t i = 0; i < a.rank_; ++i) {
      if (a.extent_[i] != b.extent_[i]) return false;
    }
    return true;
  }

 private:
  std::array<std::int64_t, kMaxRank> extent_{};
  std::size_t rank_ = 0;
};

std::string to_string(const Shape& shape);  // "[4096, 1024]"

// Byte steps of a tensor: stride[d] for one element along a dimension, for the last (the stick) dimension one stick of
// `elements_per_stick` elements. In default layout a stick column holds dimension 0; outside of it come the sticks of
// the last dimension, then the others from the last but one to the second.
struct StickGeometry {
  std::array<std::uint64_t, Shape::kMaxRank> stride{};
  std::uint64_t bytes = 0;  // of the whole tensor

  // Extents are positive. A size that does not fit 64 bits saturates `bytes`, which then fits no allocation.
  static StickGeometry of(const Shape& shape, std::int64_t elements_per_stick);

  // With strides of its own (a view): multiples of 128, or 0 along a dimension whose elements are one.
  static StickGeometry strided(const Shape& shape, const std::array<std::uint64_t, Shape::kMaxRank>& stride,
                               std::int64_t elements_per_stick);

  // The bytes from a part's first to its last stick, when the part has `shape` and the strides of the whole.
  std::uint64_t span_of(const Shape& shape, std::int64_t elements_per_stick) const;
};

}  // namespace svp
