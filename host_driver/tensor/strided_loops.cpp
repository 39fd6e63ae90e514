// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/strided_loops.hpp"

#include <algorithm>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <optional>
#include <ranges>
#include <string>
#include <utility>

#include "host_driver/tensor/layout_digits.hpp"

namespace svp {

using spyre::CopyNeeded;

namespace {

using Dims = std::vector<std::int64_t>;

std::string text(const Dims& dims) {
  std::string result = "[";
  for (std::size_t i = 0; i < dims.size(); ++i) result += (i != 0 ? "," : "") + std::to_string(dims[i]);
  return result + "]";
}

// a + b·c, or nothing when that is not below kMostElements. None is negative.
std::optional<std::int64_t> sum(std::int64_t a, std::int64_t b, std::int64_t c) {
  std::int64_t product = 0;
  std::int64_t result = 0;
  if (__builtin_mul_overflow(b, c, &product) || __builtin_add_overflow(a, product, &result)) return std::nullopt;
  if (result >= kMostElements) return std::nullopt;
  return result;
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b != 0); }

// ---- the walk: loops over the view, cut until the card's address is linear ------------------------------------------

struct ViewLoop {
  std::int64_t count;
  std::int64_t step;  // of the host index in the layout's sense
  std::int64_t host;  // elements of host memory
};

struct ViewPiece {
  std::vector<ViewLoop> loops;
  std::int64_t index = 0;  // of the first element
  std::int64_t host = 0;
};

class Splitter {
 public:
  explicit Splitter(const LayoutDigits& digits) : digits_(digits) {}

  // False: more than kMostNests pieces. Not recursive: a caller's stack may be small.
  bool split(ViewPiece whole) {
    pending_.push_back(std::move(whole));
    while (!pending_.empty()) {  // ends: each cut makes a piece shorter, and kMostNests are the most
      if (done_.size() + pending_.size() > kMostNests) return false;
      ViewPiece piece = std::move(pending_.back());
      pending_.pop_back();
      const std::size_t level = carrying_level(piece);
      if (level == 0) {
        done_.push_back(std::move(piece));
        continue;
      }
      parts_.clear();
      cut(piece, level);
      std::ranges::move(parts_ | std::views::reverse, std::back_inserter(pending_));  // the first one is next
    }
    return true;
  }
  std::vector<ViewPiece> take() { return std::move(done_); }

 private:
  // What an index, or a step, is in the digits from `level` on.
  std::int64_t below(std::int64_t index, std::size_t level) const {
    for (std::size_t k = 0; k < level; ++k) index %= digits_[k].weight;
    return index;
  }

  // Whether the digits from `level` on overflow into the one above anywhere in the piece.
  bool carries(const ViewPiece& piece, std::size_t level) const {
    std::int64_t most = below(piece.index, level);
    for (const ViewLoop& loop : piece.loops) {
      const std::int64_t part = below(loop.step, level);
      if (part == 0) continue;
      const auto next = sum(most, loop.count - 1, part);
      if (!next) return true;
      most = *next;
    }
    return most >= digits_.period(level);
  }

  // Of the digits that carry anywhere in the piece, the most significant; 0: none does.
  std::size_t carrying_level(const ViewPiece& piece) const {
    for (std::size_t level = 1; level < digits_.count(); ++level) {
      if (carries(piece, level)) return level;
    }
    return 0;
  }

  // Into parts_.
  void cut(const ViewPiece& piece, std::size_t level) {
    // The loop that moves these digits the most, and by how much the others move them together.
    std::size_t widest = piece.loops.size();
    std::size_t shortest = piece.loops.size();
    std::int64_t others = 0;
    for (std::size_t d = 0; d < piece.loops.size(); ++d) {
      const std::int64_t part = below(piece.loops[d].step, level);
      if (part == 0) continue;
      if (shortest == piece.loops.size() || piece.loops[d].count < piece.loops[shortest].count) shortest = d;
      if (widest == piece.loops.size() || part > below(piece.loops[widest].step, level)) widest = d;
    }
    for (std::size_t d = 0; d < piece.loops.size(); ++d) {
      if (d != widest) others += (piece.loops[d].count - 1) * below(piece.loops[d].step, level);
    }
    const std::int64_t part = below(piece.loops[widest].step, level);
    const std::int64_t start = below(piece.index, level);
    if (start % part + others < part) return cut_loop(piece, level, widest, others);
    unroll(piece, shortest);
  }

  // Only loop `d` carries at `level`: the others together stay inside of one of its steps.
  void cut_loop(const ViewPiece& piece, std::size_t level, std::size_t d, std::int64_t others) {
    const ViewLoop loop = piece.loops[d];
    const std::int64_t part = below(loop.step, level);
    const std::int64_t period = digits_.period(level);
    const std::int64_t start = below(piece.index, level);
    // A whole number of steps per period: full periods become a loop of their own.
    if (part == loop.step && period % part == 0) {
      const std::int64_t per_period = period / part;
      const std::int64_t head = start < part ? 0 : std::min(loop.count, ceil_div(period - start, part));
      const std::int64_t full = (loop.count - head) / per_period;
      const std::int64_t tail = loop.count - head - full * per_period;
      emit(piece, d, 0, head);
      emit_periods(piece, d, head, full, per_period);
      return emit(piece, d, head + full * per_period, tail);
    }
    // Steps and periods meet again after a while: what lies between is repeated.
    if (part == loop.step) {
      const std::int64_t steps = period / std::gcd(period, part);
      const std::int64_t repeats = loop.count / steps;
      if (repeats > 1) {
        emit_periods(piece, d, 0, repeats, steps);
        return emit(piece, d, repeats * steps, loop.count % steps);
      }
    }
    // Up to the step in which the end of the period lies; that one is cut by the others.
    const std::int64_t head = start + others < period ? (period - 1 - start - others) / part + 1 : 1;
    emit(piece, d, 0, head);
    emit(piece, d, head, loop.count - head);
  }

  void unroll(const ViewPiece& piece, std::size_t d) {
    // One more than allowed is enough to be refused.
    const auto steps = std::min<std::int64_t>(piece.loops[d].count, kMostNests + 1);
    for (std::int64_t i = 0; i < steps; ++i) emit(piece, d, i, 1);
  }

  // The part of the piece in which loop `d` has the indices from … from + count − 1.
  void emit(const ViewPiece& piece, std::size_t d, std::int64_t from, std::int64_t count) {
    if (count <= 0) return;
    ViewPiece part = moved(piece, d, from);
    part.loops[d].count = count;
    if (count == 1) part.loops.erase(part.loops.begin() + static_cast<std::ptrdiff_t>(d));
    parts_.push_back(std::move(part));
  }
  // From index `from` on: `periods` times `steps` steps.
  void emit_periods(const ViewPiece& piece, std::size_t d, std::int64_t from, std::int64_t periods,
                    std::int64_t steps) {
    if (periods <= 1) return emit(piece, d, from, periods * steps);
    ViewPiece part = moved(piece, d, from);
    ViewLoop& inner = part.loops[d];
    const ViewLoop outer{periods, inner.step * steps, inner.host * steps};
    inner.count = steps;
    if (steps == 1) {
      inner = outer;
    } else {
      part.loops.push_back(outer);
    }
    parts_.push_back(std::move(part));
  }
  static ViewPiece moved(const ViewPiece& piece, std::size_t d, std::int64_t from) {
    ViewPiece part = piece;
    part.index += from * piece.loops[d].step;
    part.host += from * piece.loops[d].host;
    return part;
  }

  const LayoutDigits& digits_;
  std::vector<ViewPiece> pending_;  // the next one last
  std::vector<ViewPiece> parts_;    // of the piece that is being cut, in order
  std::vector<ViewPiece> done_;
};

// ---- nests ----------------------------------------------------------------------------------------------------------

struct NestLoop {
  std::int64_t count;
  std::int64_t device;
  std::int64_t host;
};

// One loop per device dimension, in the layout's order, when the piece's loops step through one each: the form in which
// whole tensors are described.
std::optional<std::vector<NestLoop>> by_dimension(const SpyreTensorLayout& layout, const LayoutDigits& digits,
                                                  const std::vector<ViewLoop>& loops) {
  std::vector<std::optional<NestLoop>> of(layout.device_size.size());
  for (const ViewLoop& loop : loops) {
    const Dims at = digits.of(loop.step);
    std::optional<std::size_t> moved;
    for (std::size_t k = 0; k < at.size(); ++k) {
      if (at[k] == 0) continue;
      if (moved) return std::nullopt;
      moved = k;
    }
    if (!moved || of[digits[*moved].dimension]) return std::nullopt;
    of[digits[*moved].dimension] = {loop.count, at[*moved] * digits[*moved].device_stride, loop.host};
  }
  std::vector<NestLoop> result;
  std::int64_t stride = 1;
  for (std::size_t j = layout.device_size.size(); j-- > 0;) {
    const std::int64_t host = std::max<std::int64_t>(layout.stride_map[j], 1);
    result.push_back(of[j].value_or(NestLoop{1, stride, host}));
    stride *= layout.device_size[j];
  }
  return result;
}

// A loop that goes on where the one before it ends, on both sides, is the same loop.
void merge(std::vector<NestLoop>& loops) {
  for (std::size_t d = 0; d + 1 < loops.size();) {
    NestLoop& inner = loops[d];
    const NestLoop& outer = loops[d + 1];
    if (outer.device != inner.count * inner.device || outer.host != inner.count * inner.host) {
      ++d;
      continue;
    }
    inner.count *= outer.count;
    loops.erase(loops.begin() + static_cast<std::ptrdiff_t>(d) + 1);
  }
}

std::vector<NestLoop> by_stride(const LayoutDigits& digits, const std::vector<ViewLoop>& loops) {
  std::vector<NestLoop> result;
  for (const ViewLoop& loop : loops) {
    const Dims at = digits.of(loop.step);
    std::int64_t device = 0;
    for (std::size_t k = 0; k < at.size(); ++k) device += at[k] * digits[k].device_stride;
    result.push_back({loop.count, device, loop.host});
  }
  std::ranges::sort(result, [](const NestLoop& a, const NestLoop& b) {
    return a.device != b.device ? a.device < b.device : a.host < b.host;
  });
  merge(result);
  if (result.empty()) result.push_back({1, 1, 1});
  return result;
}

// Copies of expanded dimensions: the host's element goes into each of them.
void add_copies(const SpyreTensorLayout& layout, std::vector<NestLoop>& loops, bool one_per_dimension) {
  std::int64_t stride = 1;
  for (std::size_t j = layout.device_size.size(); j-- > 0;) {
    if (layout.stride_map[j] == 0 && layout.device_size[j] > 1) {
      const NestLoop copies{layout.device_size[j], stride, 0};
      if (one_per_dimension) {
        loops[layout.device_size.size() - 1 - j] = copies;
      } else {
        loops.push_back(copies);
      }
    }
    stride *= layout.device_size[j];
  }
}

StridedLoops nest_of(const SpyreTensorLayout& layout, const LayoutDigits& digits, const ViewPiece& piece,
                     TransferDirection direction) {
  auto loops = by_dimension(layout, digits, piece.loops);
  const bool one_per_dimension = loops.has_value();
  if (!loops) loops = by_stride(digits, piece.loops);
  const bool to_device = direction == TransferDirection::ToDevice;
  if (to_device) add_copies(layout, *loops, one_per_dimension);
  const std::int64_t device = digits.offset_of(piece.index).value();
  StridedLoops nest;
  for (const NestLoop& loop : *loops) {
    nest.size.push_back(loop.count);
    nest.src_stride.push_back(to_device ? loop.host : loop.device);
    nest.dst_stride.push_back(to_device ? loop.device : loop.host);
  }
  nest.src_offset = to_device ? piece.host : device;
  nest.dst_offset = to_device ? device : piece.host;
  return nest;
}

// ---- what is refused ------------------------------------------------------------------------------------------------

// Whether two tuples of indices have the same sum of i·stride: some difference of indices, not all zero, sums to zero.
// The largest stride first; the smaller ones must make up for it, which leaves few differences to try.
bool overlaps(const std::vector<std::pair<std::int64_t, std::int64_t>>& dims, std::size_t at, __int128 rest,
              bool differs) {
  if (at == dims.size()) return rest == 0 && differs;
  __int128 reach = 0;
  for (std::size_t d = at + 1; d < dims.size(); ++d) reach += static_cast<__int128>(dims[d].second - 1) * dims[d].first;
  const auto [stride, count] = dims[at];
  const __int128 lowest =
      std::max<__int128>(-(static_cast<__int128>(count) - 1), (-rest - reach - (stride - 1)) / stride);
  const __int128 highest = std::min<__int128>(count - 1, (-rest + reach + (stride - 1)) / stride);
  for (__int128 difference = lowest; difference <= highest; ++difference) {
    const __int128 next = rest + difference * stride;
    if (next > reach || -next > reach) continue;
    if (overlaps(dims, at + 1, next, differs || difference != 0)) return true;
  }
  return false;
}

}  // namespace

bool elements_overlap(const Dims& size, const Dims& stride) {
  std::vector<std::pair<std::int64_t, std::int64_t>> dims;
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (size[d] == 0) return false;
    if (size[d] == 1) continue;
    if (stride[d] == 0) return true;
    dims.emplace_back(stride[d], size[d]);
  }
  std::ranges::sort(dims, std::greater<>{});
  return overlaps(dims, 0, 0, false);
}

namespace {

void require_list(const char* field, const Dims& list, std::size_t length) {
  if (list.size() != length) {
    throw InvalidArgument(field,
                          std::string(field) + " " + text(list) + " has not " + std::to_string(length) + " entries",
                          "give one entry per dimension of the view");
  }
  if (std::ranges::any_of(list, [](std::int64_t entry) { return entry < 0 || entry >= kMostElements; })) {
    throw InvalidArgument(field,
                          std::string(field) + " " + text(list) + " has an entry that is negative or 2^62 or more",
                          "copy the view on the host first");
  }
}

// Dimensions of stride 0 reach nowhere, and count. No size is 0.
void require_few_elements(const Dims& size) {
  std::int64_t count = 1;
  for (const std::int64_t extent : size) {
    if (count <= (kMostElements - 1) / extent) {
      count *= extent;
      continue;
    }
    throw InvalidArgument("size", "the view has 2^62 elements or more: size " + text(size), "check the sizes");
  }
}

std::int64_t last_index(const char* field, const Dims& size, const Dims& stride, std::int64_t first) {
  std::int64_t last = first;
  for (std::size_t d = 0; d < size.size(); ++d) {
    const auto next = sum(last, size[d] - 1, stride[d]);
    if (!next) {
      throw InvalidArgument(field,
                            "the view spans 2^62 elements or more: size " + text(size) + ", stride " + text(stride),
                            "check sizes and strides");
    }
    last = *next;
  }
  return last;
}

void require_no_overlap(const char* field, const Dims& size, const Dims& stride) {
  if (!elements_overlap(size, stride)) return;
  throw InvalidArgument(field, "elements of the destination overlap: size " + text(size) + ", stride " + text(stride),
                        "write to a tensor in which every element has a place of its own");
}

// To the card, a dimension that goes through the same elements of both sides again and again is one step of it.
DeviceView without_repeats(const DeviceView& view, const Dims& host_stride) {
  DeviceView distinct = view;
  for (std::size_t d = 0; d < view.size.size(); ++d) {
    if (view.stride[d] == 0 && host_stride[d] == 0) distinct.size[d] = 1;
  }
  return distinct;
}

// The first and the last element of a piece are in the tensor, and its steps lead from element to element.
void require_inside(const LayoutDigits& digits, const ViewPiece& piece, const DeviceView& view) {
  std::int64_t last = piece.index;
  bool steps = true;
  for (const ViewLoop& loop : piece.loops) {
    last += (loop.count - 1) * loop.step;
    steps &= digits.expresses(loop.step);
  }
  if (steps && digits.offset_of(piece.index) && digits.offset_of(last)) return;
  throw InvalidArgument("view",
                        "the view is not inside of the tensor: size " + text(view.size) + ", stride " +
                            text(view.stride) + ", offset " + std::to_string(view.offset),
                        "check size, stride and storage offset");
}

}  // namespace

void require_strides(const char* field, const Dims& size, const Dims& stride) {
  require_list(field, stride, size.size());
  if (std::ranges::find(size, 0) != size.end()) return;
  last_index(field, size, stride, 0);
  Dims distinct = size;
  for (std::size_t d = 0; d < size.size(); ++d) {
    if (stride[d] == 0) distinct[d] = 1;
  }
  require_no_overlap(field, distinct, stride);
}

std::int64_t StridedLoops::element_count() const {
  return std::accumulate(size.begin(), size.end(), std::int64_t{1}, std::multiplies<>{});
}

std::optional<std::int64_t> device_offset_of(const SpyreTensorLayout& layout, std::int64_t host_index) {
  return LayoutDigits(layout).offset_of(host_index);
}

std::vector<StridedLoops> describe_transfer(const SpyreTensorLayout& layout, const DeviceView& view,
                                            const std::vector<std::int64_t>& host_stride, TransferDirection direction) {
  require_list("size", view.size, view.size.size());
  require_list("stride", view.stride, view.size.size());
  require_list("host stride", host_stride, view.size.size());
  require_list("offset", {view.offset}, 1);
  if (std::ranges::any_of(view.size, [](std::int64_t size) { return size == 0; })) return {};
  require_few_elements(view.size);
  last_index("stride", view.size, view.stride, view.offset);
  last_index("host stride", view.size, host_stride, 0);

  const bool to_device = direction == TransferDirection::ToDevice;
  const DeviceView distinct = to_device ? without_repeats(view, host_stride) : view;
  if (to_device) {
    require_no_overlap("stride", distinct.size, distinct.stride);
  } else {
    require_no_overlap("host stride", view.size, host_stride);
  }
  ViewPiece whole{.loops = {}, .index = view.offset, .host = 0};
  for (std::size_t d = 0; d < distinct.size.size(); ++d) {
    if (distinct.size[d] > 1) whole.loops.push_back({distinct.size[d], distinct.stride[d], host_stride[d]});
  }
  const LayoutDigits digits(layout);
  Splitter splitter(digits);
  if (!splitter.split(std::move(whole))) {
    throw CopyNeeded("view", "the view is in more than " + std::to_string(kMostNests) + " pieces on the card",
                     "copy the tensor, and take the view on the host");
  }
  std::vector<StridedLoops> nests;
  for (const ViewPiece& piece : splitter.take()) {
    require_inside(digits, piece, view);
    nests.push_back(nest_of(layout, digits, piece, direction));
  }
  return nests;
}

std::vector<StridedLoops> describe_copy(const SpyreTensorLayout& source_layout, const DeviceView& source,
                                        const SpyreTensorLayout& destination_layout, const DeviceView& destination) {
  // The destination is cut first, with the source's host indices on the other side; those are a view of the source.
  std::vector<StridedLoops> result;
  for (const StridedLoops& nest :
       describe_transfer(destination_layout, destination, source.stride, TransferDirection::ToDevice)) {
    DeviceView part{.size = {}, .stride = {}, .offset = source.offset + nest.src_offset};
    Dims step;
    for (std::size_t d = 0; d < nest.size.size(); ++d) {
      if (nest.size[d] == 1) continue;
      part.size.push_back(nest.size[d]);
      part.stride.push_back(nest.src_stride[d]);
      step.push_back(nest.dst_stride[d]);
    }
    for (StridedLoops& moved : describe_transfer(source_layout, part, step, TransferDirection::FromDevice)) {
      moved.dst_offset += nest.dst_offset;
      if (result.size() == kMostNests) {
        throw CopyNeeded("view", "the copy is in more than " + std::to_string(kMostNests) + " pieces on the card",
                         "copy it through the host");
      }
      result.push_back(std::move(moved));
    }
  }
  return result;
}

}  // namespace svp
