// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/layout_digits.hpp"

#include <algorithm>

namespace svp {

LayoutDigits::LayoutDigits(const SpyreTensorLayout& layout) {
  // An extent of 0, also of a dimension that walks nothing, leaves no place. The product of the others may be any then.
  places_ = std::ranges::find(layout.device_size, 0) == layout.device_size.end();
  if (!places_) return;
  std::int64_t stride = 1;
  for (std::size_t j = layout.device_size.size(); j-- > 0;) {
    if (layout.device_size[j] > 1 && layout.stride_map[j] > 0) {
      digits_.push_back({layout.stride_map[j], layout.device_size[j], stride, j});
    }
    stride *= layout.device_size[j];
  }
  std::ranges::sort(digits_, [](const LayoutDigit& a, const LayoutDigit& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.dimension < b.dimension;
  });
}

std::vector<std::int64_t> LayoutDigits::of(std::int64_t index) const {
  std::vector<std::int64_t> digits;
  digits.reserve(digits_.size());
  for (const LayoutDigit& digit : digits_) {
    digits.push_back(index / digit.weight);
    index %= digit.weight;
  }
  return digits;
}

bool LayoutDigits::expresses(std::int64_t index) const {
  for (const LayoutDigit& digit : digits_) index %= digit.weight;
  return index == 0;
}

std::optional<std::int64_t> LayoutDigits::offset_of(std::int64_t index) const {
  if (index < 0 || !places_) return std::nullopt;
  std::int64_t offset = 0;
  for (const LayoutDigit& digit : digits_) {
    const std::int64_t at = index / digit.weight;
    if (at >= digit.extent) return std::nullopt;
    offset += at * digit.device_stride;
    index %= digit.weight;
  }
  if (index != 0) return std::nullopt;
  return offset;
}

}  // namespace svp
