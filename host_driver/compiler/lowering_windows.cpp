// SPDX-License-Identifier: Apache-2.0
// Operations over windows. A tensor that is read through them has two dimensions of the operation that step along one
// of its own: the one that counts windows, and the one that counts their taps.
//
// conv2d copies windows into memory, where taps and channels are one dimension, and is a product then. The others
// compute in FP32, which holds each product of two DL16 exactly, and round once.
#include <algorithm>

#include "host_driver/compiler/lowering.hpp"
#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

using wire::program::Base;
using wire::program::Format;
using wire::program::Opcode;

namespace {

// Of what is made for windows at a time.
constexpr std::uint64_t kWindowBytes = std::uint64_t{4} << 20;
constexpr std::uint64_t kMostParts = 256;

// Elements of a tensor along a dimension that counts windows. A pool says with a gap how many there are behind the last
// window: in strides, when the allocation is whole strides, else in elements. A gap that gives another number of
// windows is one of another dimension.
std::uint32_t elements_of(const Sdsc& sdsc, const SdscTensor& tensor, const Window& window) {
  if (sdsc.op != OpFunc::AveragePool) return window.elements;
  const std::uint64_t gapped = std::uint64_t{sdsc.dimensions[window.dimension].extent} + tensor.gap[window.dimension];
  for (const std::uint64_t whole : {gapped * window.stride, gapped}) {
    if (whole >= window.elements && whole - window.elements < window.stride) return static_cast<std::uint32_t>(whole);
  }
  return window.elements;
}

// Dimensions that the use lacks have one position.
std::vector<std::uint32_t> extent_of(std::vector<std::uint32_t> extent, const TensorUse& use) {
  for (unsigned place = 0; place < extent.size(); ++place) {
    if (!use.present[place]) extent[place] = 1;
  }
  return extent;
}

// Of the copies that scratchpads have of an input, the first one.
TensorUse first_copy(TensorUse use) {
  for (unsigned place = 0; place < kMaxRank; ++place) {
    if (use.present[place]) continue;
    use.split[place] = 1;
    use.split_stride[place] = 0;
  }
  return use;
}

TensorUse from_position(TensorUse use, unsigned place, std::uint32_t first) {
  if (place < kMaxRank && use.present[place]) use.offset += use.stride[place] * first;
  return use;
}

// `use` has `width` positions of each tap one behind the other along `along`: as a dimension for each tap, the last one
// the fastest, and one for the positions.
TensorUse by_taps(TensorUse use, unsigned along, std::uint32_t width, const std::vector<unsigned>& taps,
                  const std::vector<std::uint32_t>& extent) {
  const std::uint32_t lanes = along == use.stick ? wire::program::lanes_of(use.format) : 1;
  std::int64_t step = use.stride[along] * (width / lanes);
  for (auto tap = taps.rbegin(); tap != taps.rend(); ++tap) {
    use.present[*tap] = true;
    use.stride[*tap] = step;
    if (__builtin_mul_overflow(step, extent[*tap], &step)) step = INT64_MAX;  // of a weight that is no such matrix
  }
  return use;
}

// Parts of the dimension at `place`, so that what is made for each has kWindowBytes at most; one part, of all, at
// kNoStick.
struct WindowPart {
  std::uint32_t first, count;
};
std::vector<WindowPart> window_parts(unsigned place, const std::vector<std::uint32_t>& extent, const TensorUse& shape) {
  if (place == kNoStick) return {{0, 0}};
  std::uint64_t bytes = wire::kStickBytes;
  for (unsigned d = 0; d < extent.size(); ++d) {
    if (!shape.present[d]) continue;
    const std::uint32_t lanes = d == shape.stick ? wire::program::lanes_of(shape.format) : 1;
    if (__builtin_mul_overflow(bytes, (std::uint64_t{extent[d]} + lanes - 1) / lanes, &bytes)) bytes = UINT64_MAX;
  }
  const std::uint64_t all = extent[place];
  const std::uint64_t wanted = std::min({bytes / kWindowBytes + 1, all, kMostParts});
  const auto count = static_cast<std::uint32_t>((all + wanted - 1) / wanted);
  std::vector<WindowPart> parts;
  for (std::uint64_t first = 0; first < all; first += count) {
    const auto begin = static_cast<std::uint32_t>(first);
    parts.push_back({begin, std::min(count, extent[place] - begin)});
  }
  return parts;
}

}  // namespace

void ExecutionLowering::lower_windows() {
  expect_inputs(sdsc_.op == OpFunc::AveragePool ? 1 : 2);
  const SdscTensor& read = input(0);
  if (read.windowed.empty() || read.windowed.size() != sdsc_.windows.size()) {
    refuse_here("is an operation over windows, and its input is not read through each of them");
  }
  for (const SdscTensor& tensor : sdsc_.tensors) {
    if (&tensor != &read && !tensor.windowed.empty()) refuse(sdsc_.place(tensor), "is read through windows");
    if (tensor.format != read.format) refuse(sdsc_.place(tensor), "has another format than the input");
  }
  for (const Window& window : sdsc_.windows) {
    const Dimension &dimension = sdsc_.dimensions[window.dimension], &taps = sdsc_.dimensions[window.taps];
    if (taps.slices != 1) refuse_here("divides the taps of a window, " + taps.name + ", among cores");
    if (read.memory == Memory::Lx && dimension.slices != 1) {
      refuse_here("has windows along " + dimension.name + ", and its input is divided there among scratchpads");
    }
  }
  if (sdsc_.op == OpFunc::AveragePool) return lower_average_pool();
  if (sdsc_.op == OpFunc::Conv2d) return lower_convolution();
  lower_depthwise_convolution();
}

// ---- what is read through windows -----------------------------------------------------------------------------------

// The input element by element. The addresses that cores other than the first are given are not those of their windows.
TensorUse ExecutionLowering::windowed_elements() const {
  const SdscTensor& tensor = input(0);
  UseRules rules;
  bool behind = false;
  for (std::size_t i = 0; i < tensor.order.size(); ++i) {
    const std::uint8_t d = tensor.order[i];
    const bool windowed = contains(tensor.windowed, d);
    if (windowed) rules.layout.allocated[d] = elements_of(sdsc_, tensor, *sdsc_.window_of(d));
    if (behind && !windowed && tensor.gap[d] != 0 && i + 1 != tensor.order.size()) {
      refuse(sdsc_.place(tensor), "has a gap in dimension " + sdsc_.dimensions[d].name +
                                      ", behind one that is read through windows: it cannot be told what it counts");
    }
    behind = behind || windowed;
  }
  return first_copy(use(tensor, rules));
}

// Positions of the input that windows reach.
std::vector<std::uint32_t> ExecutionLowering::windowed_extents() const {
  std::vector<std::uint32_t> extent = extents();
  for (const Window& window : sdsc_.windows) {
    const unsigned place = place_of(window.dimension), taps = place_of(window.taps);
    extent[place] = static_cast<std::uint32_t>(window.span(extent[place], extent[taps]));
    extent[taps] = 1;
  }
  return extent;
}

TensorUse ExecutionLowering::through_window(TensorUse elements, const Window& window) const {
  const unsigned place = place_of(window.dimension), taps = place_of(window.taps);
  elements.present[taps] = true;
  // Of more than one, the steps are inside of the tensor.
  elements.stride[taps] = elements.stride[place] * (sdsc_.dimensions[window.taps].extent > 1 ? window.dilation : 1);
  elements.stride[place] *= sdsc_.dimensions[window.dimension].extent > 1 ? window.stride : 1;
  return elements;
}

TensorUse ExecutionLowering::through_windows(TensorUse elements) const {
  for (const Window& window : sdsc_.windows) elements = through_window(elements, window);
  return elements;
}

TensorUse ExecutionLowering::as_fp32(const TensorUse& from, const std::vector<std::uint32_t>& extent) {
  if (from.format == Format::Fp32) return from;
  const TensorUse copy = builder_.temporary(Format::Fp32, extent, from.present, from.stick);
  emit({.opcode = Opcode::Copy, .extent = extent_of(extent, from), .operands = {from, copy}});
  return copy;
}

// Dimensions of the weight that neither the input nor the output has.
std::vector<unsigned> ExecutionLowering::taps_of_weight() const {
  std::vector<unsigned> taps;
  for (unsigned place = 0; place < space_.size(); ++place) {
    const std::uint8_t d = space_[place];
    if (input(1).has(d) && !input(0).has(d) && !output().has(d)) taps.push_back(place);
  }
  for (const Window& window : sdsc_.windows) {
    if (std::ranges::find(taps, place_of(window.taps)) == taps.end())
      refuse_here("has a window whose taps the weight does not have");
  }
  return taps;
}

// Of the output, for operations that make something large of windows first. kNoStick: all at once, because the output
// lies over an input, or in scratchpads.
unsigned ExecutionLowering::divided_place(const TensorUse& output_use) const {
  for (unsigned i = 0; i < 2; ++i) {
    const TensorUse read = i == 0 ? through_windows(windowed_elements()) : use(input(1));
    if (read.base == Base::Scratchpad || output_use.base == Base::Scratchpad) return kNoStick;
    if (builder_.overlap(read, output_use, extents())) return kNoStick;
  }
  unsigned found = kNoStick;
  const std::vector<std::uint32_t> extent = extents();
  for (unsigned place = 0; place < space_.size(); ++place) {
    if (!input(0).has(space_[place]) || !output_use.present[place] || place == output_use.stick) continue;
    if (found == kNoStick || extent[place] > extent[found]) found = place;
  }
  return found;
}

// ---- the operations -------------------------------------------------------------------------------------------------

// A sum along the taps of one window after the other, the last one a mean.
void ExecutionLowering::lower_average_pool() {
  std::vector<std::uint32_t> extent = windowed_extents();
  TensorUse current = as_fp32(windowed_elements(), extent);
  const std::vector<std::uint32_t> all = extents();
  for (std::size_t i = sdsc_.windows.size(); i-- > 0;) {
    const Window& window = sdsc_.windows[i];
    const unsigned place = place_of(window.dimension), taps = place_of(window.taps);
    extent[place] = all[place];
    const bool last = i == 0, to_output = last && output().format == Format::Fp32;
    const TensorUse result =
        to_output ? use(output()) : builder_.temporary(Format::Fp32, extent, current.present, current.stick);
    extent[taps] = all[taps];
    TensorOp op{.opcode = last ? Opcode::Mean : Opcode::Sum,
                .extent = extent,
                .operands = {through_window(current, window), result},
                .reduced = taps};
    if (last) op.constants = {constant("nmap")};
    emit(std::move(op));
    extent[taps] = 1;
    current = result;
  }
  if (output().format != Format::Fp32) {
    emit({.opcode = Opcode::Copy, .extent = extent, .operands = {current, use(output())}});
  }
}

// [taps · channels, results]: where the weight is not such a matrix already, a copy.
TensorUse ExecutionLowering::weight_matrix(unsigned channels, const std::vector<unsigned>& taps,
                                           const std::vector<std::uint32_t>& product) {
  const TensorUse weight = first_copy(use(input(1)));
  const std::vector<std::uint32_t> all = extents();
  TensorUse matrix = weight;
  for (const unsigned tap : taps) {
    matrix.present[tap] = false;
    matrix.stride[tap] = 0;
  }
  if (weight.base != Base::Scratchpad && by_taps(matrix, channels, all[channels], taps, all) == weight) return matrix;
  matrix = builder_.temporary(weight.format, product, matrix.present, weight.stick);
  emit({.opcode = Opcode::Copy,
        .extent = extent_of(all, weight),
        .operands = {weight, by_taps(matrix, channels, all[channels], taps, all)}});
  return matrix;
}

void ExecutionLowering::lower_convolution() {
  std::vector<unsigned> contracted;
  for (unsigned place = 0; place < space_.size(); ++place) {
    const std::uint8_t d = space_[place];
    if (input(0).has(d) && input(1).has(d) && !output().has(d)) contracted.push_back(place);
  }
  const unsigned channels = one(contracted, "contracts");
  const std::vector<unsigned> taps = taps_of_weight();
  const std::vector<std::uint32_t> all = extents();
  const TensorUse windows = through_windows(windowed_elements()), output_use = use(output());
  if (windows.stick != channels || all[channels] % wire::program::lanes_of(windows.format) != 0) {
    refuse_here("contracts channels that are no whole sticks of its input");
  }
  std::vector<std::uint32_t> product = all;  // of the matrix product
  for (const unsigned tap : taps) {
    const std::uint64_t width = std::uint64_t{product[channels]} * all[tap];
    if (width > kMostExtent) refuse_here("has too many taps");
    product[channels] = static_cast<std::uint32_t>(width);
    product[tap] = 1;
  }
  const TensorUse weights = weight_matrix(channels, taps, product);
  TensorUse shape = windows;
  for (const unsigned tap : taps) shape.present[tap] = false;
  const unsigned divided = divided_place(output_use);
  const std::vector<WindowPart> parts = window_parts(divided, product, shape);
  if (divided != kNoStick) product[divided] = parts[0].count;
  const TensorUse matrix = builder_.temporary(windows.format, product, shape.present, channels);
  for (const WindowPart& part : parts) {
    std::vector<std::uint32_t> copied = extent_of(all, windows);
    if (divided != kNoStick) copied[divided] = product[divided] = part.count;
    emit({.opcode = Opcode::Copy,
          .extent = copied,
          .operands = {from_position(windows, divided, part.first),
                       by_taps(matrix, channels, all[channels], taps, all)}});
    emit({.opcode = Opcode::MatMul,
          .extent = product,
          .operands = {matrix, weights, from_position(output_use, divided, part.first)},
          .reduced = channels});
  }
}

// Products of each tap, and their sum along all taps as one dimension.
void ExecutionLowering::lower_depthwise_convolution() {
  const std::vector<unsigned> taps = taps_of_weight();
  const std::vector<std::uint32_t> all = extents();
  const TensorUse output_use = use(output());
  const unsigned divided = divided_place(output_use);
  const TensorUse windows = through_windows(as_fp32(windowed_elements(), windowed_extents()));
  const TensorUse weight = as_fp32(first_copy(use(input(1))), all);
  std::vector<std::uint32_t> summed = all;
  for (std::size_t i = 1; i < taps.size(); ++i) {
    const std::uint64_t count = std::uint64_t{summed[taps[0]]} * all[taps[i]];
    if (count > kMostExtent) refuse_here("has too many taps");
    summed[taps[0]] = static_cast<std::uint32_t>(count);
    summed[taps[i]] = 1;
  }
  TensorUse shape = output_use;
  shape.format = Format::Fp32;
  std::vector<std::uint32_t> sum_extent = extent_of(summed, shape);
  shape.present[taps[0]] = true;
  const std::vector<WindowPart> parts = window_parts(divided, summed, shape);
  if (divided != kNoStick) summed[divided] = sum_extent[divided] = parts[0].count;
  const TensorUse products = builder_.temporary(Format::Fp32, summed, shape.present, output_use.stick);
  const TensorUse sums = builder_.temporary(Format::Fp32, sum_extent, output_use.present, output_use.stick);
  std::vector<std::uint32_t> multiplied = all;
  for (const WindowPart& part : parts) {
    if (divided != kNoStick) multiplied[divided] = summed[divided] = sum_extent[divided] = part.count;
    const TensorUse result = from_position(output_use, divided, part.first);
    const bool to_output = result.format == Format::Fp32;
    emit({.opcode = Opcode::Mul,
          .extent = multiplied,
          .operands = {from_position(windows, divided, part.first), weight,
                       by_taps(products, taps[0], 1, {taps}, all)}});
    emit({.opcode = Opcode::Sum,
          .extent = summed,
          .operands = {products, to_output ? result : sums},
          .reduced = taps[0]});
    if (!to_output) emit({.opcode = Opcode::Copy, .extent = sum_extent, .operands = {sums, result}});
  }
}

}  // namespace svp::compiler
