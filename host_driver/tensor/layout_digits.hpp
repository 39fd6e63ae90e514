// SPDX-License-Identifier: Apache-2.0
// Where a layout has an element, asked for many elements: a host index is a number whose digits are the card's indices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "host_driver/tensor/tensor_layout.hpp"

namespace svp {

// Indices and offsets of a tensor stay below this, so that sums of two of them never wrap.
inline constexpr std::int64_t kMostElements = std::int64_t{1} << 62;

// A device dimension of more than one index that a host index steps through.
struct LayoutDigit {
  std::int64_t weight;  // host elements per step: its entry of stride_map
  std::int64_t extent;
  std::int64_t device_stride;  // elements
  std::size_t dimension;       // of the layout
};

// The largest weight first, as in any positional system. Keeps no reference to the layout.
class LayoutDigits {
 public:
  explicit LayoutDigits(const SpyreTensorLayout& layout);

  std::size_t count() const { return digits_.size(); }
  const LayoutDigit& operator[](std::size_t level) const { return digits_[level]; }
  // The digit `level` and those below it begin again after so many host elements.
  std::int64_t period(std::size_t level) const { return level == 0 ? kMostElements : digits_[level - 1].weight; }
  // The digits of an index, or of a step from one to another, whether or not an element lies there.
  std::vector<std::int64_t> of(std::int64_t index) const;
  // Whether the digits of an index, or of a step, are all of it. If not, no element lies there.
  bool expresses(std::int64_t index) const;
  // Where the card has the element with this host index, in elements (of an expanded dimension: the first copy).
  // Nothing: the layout has no place for it.
  std::optional<std::int64_t> offset_of(std::int64_t index) const;

 private:
  std::vector<LayoutDigit> digits_;
  bool places_ = true;
};

}  // namespace svp
