// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/stick_access.hpp"

#include <algorithm>

#include "shared/units.hpp"

namespace svp {
namespace {

// A host index is a number whose digits are indices of the card. The lanes of a stick and the sticks behind it are one
// digit when they count the same thing.
struct IndexDigit {
  std::int64_t weight;  // host elements per step
  std::int64_t limit;   // steps before it begins again, or ends
  std::int64_t sticks;  // from one step to the next; of the stick digit: from one stick to the next
  bool lanes;           // the stick digit
};

struct IndexDigits {
  std::vector<IndexDigit> digit;  // largest weight first
  std::int64_t lanes;

  // IndexDigits of an index or a step; nothing when they do not make it up.
  std::optional<std::vector<std::int64_t>> of(std::int64_t index) const {
    std::vector<std::int64_t> result;
    for (const IndexDigit& d : digit) {
      result.push_back(index / d.weight);
      index %= d.weight;
    }
    if (index != 0) return std::nullopt;
    return result;
  }
};

// Elements of the stick dimension: padding behind them belongs to nobody.
std::int64_t size_of_stick_dimension(const HostShape& base, const SpyreTensorLayout& layout, std::int64_t otherwise) {
  const std::int64_t dimension = layout.dim_map.back();
  if (dimension < 0 || static_cast<std::size_t>(dimension) >= base.size.size()) return otherwise;
  const auto d = static_cast<std::size_t>(dimension);
  return base.stride[d] == layout.stride_map.back() ? base.size[d] : otherwise;
}

IndexDigits digits_of(const HostShape& base, const SpyreTensorLayout& layout) {
  IndexDigits digits{.digit = {}, .lanes = layout.elements_per_stick()};
  const std::size_t last = layout.device_size.size() - 1;
  const std::int64_t lane_weight = layout.stride_map[last];
  const std::int64_t stick_size = size_of_stick_dimension(base, layout, digits.lanes);
  if (lane_weight > 0) digits.digit.push_back({lane_weight, std::min(stick_size, digits.lanes), 0, true});
  std::int64_t sticks = 1;
  for (std::size_t j = last; j-- > 0;) {
    const std::int64_t extent = layout.device_size[j];
    const std::int64_t weight = layout.stride_map[j];
    if (extent > 1 && weight > 0) {
      // Sticks of the same dimension, or of one whose steps follow upon full sticks.
      const bool same = layout.dim_map[j] == layout.dim_map[last];
      const bool follows =
          lane_weight > 0 && weight == lane_weight * digits.lanes && (same || stick_size == digits.lanes);
      if (follows && digits.digit.front().sticks == 0) {
        digits.digit.front().limit = same ? std::min(stick_size, digits.lanes * extent) : digits.lanes * extent;
        digits.digit.front().sticks = sticks;
      } else {
        digits.digit.push_back({weight, extent, sticks, false});
      }
    }
    sticks *= extent;
  }
  std::ranges::sort(digits.digit, [](const IndexDigit& a, const IndexDigit& b) {
    return a.weight != b.weight ? a.weight > b.weight : a.sticks < b.sticks;
  });
  for (std::size_t i = 1; i < digits.digit.size(); ++i) {
    const std::int64_t period = digits.digit[i - 1].weight / digits.digit[i].weight;
    digits.digit[i].limit = std::min(digits.digit[i].limit, period);
  }
  return digits;
}

// One dimension of the view. False: no stride says it.
bool add_dimension(const IndexDigits& digits, const std::vector<std::int64_t>& step, std::size_t dimension,
                   StickAccess& access) {
  for (std::size_t i = 0; i < step.size(); ++i) {
    const IndexDigit& digit = digits.digit[i];
    std::int64_t steps = step[i];
    if (steps == 0) continue;
    if (digit.lanes && steps % digits.lanes != 0) {
      if (steps != 1 || access.stick) return false;
      access.stick = dimension;
      steps = digits.lanes;
    }
    const std::int64_t sticks = digit.lanes ? steps / digits.lanes * digit.sticks : steps * digit.sticks;
    access.stride[dimension] += static_cast<std::uint64_t>(sticks) * wire::kStickBytes;
  }
  // In two digits at once: the lanes are of this dimension, and so is another step.
  return access.stick != dimension || std::ranges::count_if(step, [](std::int64_t s) { return s != 0; }) == 1;
}

// The last element of the view in each digit.
std::vector<std::int64_t> last_index_of(const std::vector<std::int64_t>& first, const DeviceView& view,
                                        const std::vector<std::vector<std::int64_t>>& steps) {
  std::vector<std::int64_t> last = first;
  for (std::size_t k = 0; k < view.size.size(); ++k) {
    for (std::size_t i = 0; i < last.size() && !steps[k].empty(); ++i) last[i] += (view.size[k] - 1) * steps[k][i];
  }
  return last;
}

}  // namespace

std::optional<StickAccess> stick_access(const HostShape& base, const SpyreTensorLayout& layout,
                                        const DeviceView& view) {
  const IndexDigits digits = digits_of(base, layout);
  const std::size_t rank = view.size.size();
  StickAccess access;
  access.stride.resize(rank);
  access.present.resize(rank);
  const auto first = digits.of(view.offset);
  if (!first) return std::nullopt;
  std::vector<std::vector<std::int64_t>> steps(rank);
  for (std::size_t k = 0; k < rank; ++k) {
    access.present[k] = view.size[k] > 1 && view.stride[k] != 0;
    if (!access.present[k]) continue;
    const auto step = digits.of(view.stride[k]);
    if (!step || !add_dimension(digits, *step, k, access)) return std::nullopt;
    steps[k] = *step;
  }
  const std::vector<std::int64_t> last = last_index_of(*first, view, steps);
  access.whole_sticks = true;
  for (std::size_t i = 0; i < last.size(); ++i) {
    const IndexDigit& digit = digits.digit[i];
    if (last[i] >= digit.limit) return std::nullopt;
    std::int64_t sticks = (*first)[i] * digit.sticks;
    if (digit.lanes) {
      if ((*first)[i] % digits.lanes != 0) return std::nullopt;
      sticks = (*first)[i] / digits.lanes * digit.sticks;
      const bool to_the_end = last[i] + 1 == digit.limit || (last[i] + 1) % digits.lanes == 0;
      const bool every_lane = access.stick.has_value() || (*first)[i] + 1 == digit.limit;
      access.whole_sticks = to_the_end && (every_lane || digits.lanes == 1);
    }
    access.offset += static_cast<std::uint64_t>(sticks) * wire::kStickBytes;
  }
  return access;
}

}  // namespace svp
