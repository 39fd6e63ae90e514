// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/footprint.hpp"

#include <algorithm>
#include <utility>

#include "shared/units.hpp"

namespace svp::compiler {

using wire::program::Base;

namespace {

using Strides = std::vector<std::pair<std::int64_t, std::int64_t>>;  // stride, count

// Of scratchpads the strides within one, or from one to the next.
Strides strides_within(const std::vector<Walk>& walks) {
  Strides strides;
  for (const Walk& walk : walks) {
    if (walk.count > walk.parts) strides.emplace_back(walk.stride, walk.count / walk.parts);
  }
  std::ranges::sort(strides);
  return strides;
}
Strides strides_between(const std::vector<Walk>& walks) {
  Strides strides;
  for (const Walk& walk : walks) {
    if (walk.parts > 1) strides.emplace_back(walk.part_stride, walk.parts);
  }
  std::ranges::sort(strides);
  return strides;
}

// Each step leads beyond all that the shorter ones reach.
bool are_apart(const Strides& strides, std::int64_t item) {
  std::int64_t end = item;
  for (const auto& [stride, count] : strides) {
    if (stride < end) return false;
    end += stride * (count - 1);
  }
  return true;
}

// Items that lie one behind the other from the first place on; 0: not all do.
std::int64_t dense_items(const Strides& strides, std::int64_t item) {
  std::int64_t end = item;
  for (const auto& [stride, count] : strides) {
    if (stride != end) return 0;
    end *= count;
  }
  return end / item;
}

Strides merged(const Strides& strides) {
  Strides result;
  for (const auto& [stride, count] : strides) {
    if (!result.empty() && result.back().first * result.back().second == stride) {
      result.back().second *= count;
    } else {
      result.emplace_back(stride, count);
    }
  }
  return result;
}

}  // namespace

bool Walk::same_way(const Walk& other) const {
  return count == other.count && stride == other.stride && parts == other.parts && part_stride == other.part_stride;
}

std::optional<std::vector<Walk>> walks_of(const TensorUse& use, const std::vector<std::uint32_t>& extent) {
  std::vector<Walk> walks;
  const std::uint32_t lanes = wire::program::lanes_of(use.format);
  for (unsigned d = 0; d < extent.size(); ++d) {
    if (!use.present[d]) {
      if (use.split[d] > 1) return std::nullopt;
      continue;
    }
    if (d == use.stick && extent[d] % lanes != 0) return std::nullopt;
    const std::uint32_t count = d == use.stick ? extent[d] / lanes : extent[d];
    if (count % use.split[d] != 0) return std::nullopt;
    if (count == 1) continue;
    walks.push_back({.dimension = d,
                     .count = count,
                     .stride = count == use.split[d] ? 0 : use.stride[d],
                     .parts = use.split[d],
                     .part_stride = use.split[d] == 1 ? 0 : use.split_stride[d]});
  }
  return walks;
}

bool are_apart(const std::vector<Walk>& walks) {
  return are_apart(strides_within(walks), wire::kStickBytes) && are_apart(strides_between(walks), 1);
}

bool may_touch(const TensorUse& a, const std::vector<std::uint32_t>& extent_of_a, const TensorUse& b,
               const std::vector<std::uint32_t>& extent_of_b) {
  if (a.base != b.base || a.base == Base::Data || a.base == Base::Tables || a.base == Base::None) return false;
  if (a.base == Base::Argument && a.argument != b.argument) return true;
  const auto of_a = reach_of(a, extent_of_a, {}), of_b = reach_of(b, extent_of_b, {});
  return of_a.second > of_b.first && of_b.second > of_a.first;
}

bool covers(const TensorUse& a, const std::vector<std::uint32_t>& extent_of_a, const TensorUse& b,
            const std::vector<std::uint32_t>& extent_of_b) {
  if (a.base != b.base || a.argument != b.argument) return false;
  const auto of_a = walks_of(a, extent_of_a), of_b = walks_of(b, extent_of_b);
  if (!of_a || !of_b) return false;
  const Strides in_a = strides_within(*of_a), in_b = strides_within(*of_b);
  const Strides over_a = strides_between(*of_a), over_b = strides_between(*of_b);
  std::int64_t last_of_b = 0;
  for (const auto& [stride, count] : over_b) last_of_b += stride * (count - 1);
  const bool same_cores = merged(over_a) == merged(over_b) || dense_items(over_a, 1) > last_of_b;
  if (!same_cores) return false;
  if (a.offset == b.offset && merged(in_a) == merged(in_b)) return true;
  const auto reach = reach_of(b, extent_of_b, {});
  const std::int64_t items = dense_items(in_a, wire::kStickBytes);
  return a.offset <= reach.first && reach.second <= a.offset + items * static_cast<std::int64_t>(wire::kStickBytes);
}

}  // namespace svp::compiler
