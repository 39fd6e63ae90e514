// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/golden/view.hpp"

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "host_driver/program/stored_tables.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

constexpr std::byte kUndefined{0xA5};  // what a workspace holds when a launch begins

// One copy for all launches: nothing writes to it.
std::span<std::byte> all_tables() {
  static std::vector<std::byte> tables = [] {
    const auto stored = std::as_bytes(svp::program::stored_tables());
    return std::vector<std::byte>(stored.begin(), stored.end());
  }();
  return tables;
}

}  // namespace

std::span<std::byte> Scratchpads::of(unsigned slice, std::size_t bytes) {
  std::vector<std::byte>& scratchpad = slice_.at(slice);
  if (scratchpad.size() < bytes) scratchpad.resize(bytes);
  return std::span(scratchpad).first(bytes);
}

Memory::Memory(std::span<const std::byte> program, const Header& header,
               std::span<const std::span<std::byte>> arguments, Scratchpads* scratchpads)
    : arguments_(arguments.begin(), arguments.end()),
      pool_(header.pool_bytes, kUndefined),
      scratchpads_(scratchpads != nullptr ? *scratchpads : of_this_launch_),
      scratchpad_bytes_(header.scratchpad_bytes) {
  for (unsigned slice = 0; scratchpads == nullptr && slice < header.slices; ++slice) {
    std::ranges::fill(of_this_launch_.of(slice, scratchpad_bytes_), kUndefined);
  }
  const auto data = program.subspan(header.data_offset, header.data_bytes);
  data_.assign(data.begin(), data.end());
}

std::span<std::byte> Memory::of(const Operand& operand, unsigned slice) {
  switch (operand.base) {
    case Base::Argument: return arguments_.at(operand.argument);
    case Base::Data: return data_;
    case Base::Pool: return pool_;
    case Base::Scratchpad: return scratchpads_.of(slice, scratchpad_bytes_);
    case Base::Tables: return all_tables();
    case Base::None: break;
  }
  throw std::logic_error("golden model: an operand without a base");
}

View::View(const Step& step, unsigned operand)
    : step_(step),
      operand_(step.operation.operand[operand]),
      is_fp8_weight_(operand == 1 &&
                     (step.operation.opcode == Opcode::Dl16ToFp8Weight || step.operation.opcode == Opcode::MatMulFp8)),
      is_fp8_product_input_(operand == 0 && step.operation.opcode == Opcode::MatMulFp8) {}

std::uint32_t View::positions_per_step(unsigned dimension) const {
  constexpr std::uint32_t kWeightColumns = 64;
  constexpr std::uint32_t kWeightRows = 2;
  if (is_fp8_weight_ && step_.operation.reduced == 1u << dimension) return kWeightRows;
  if (dimension != operand_.stick_dim) return 1;
  return is_fp8_weight_ ? kWeightColumns : lanes_of(operand_.format);
}

// `position` counts within one step.
std::uint32_t View::lane_of(unsigned dimension, std::uint32_t position) const {
  if (is_fp8_weight_ && dimension == operand_.stick_dim) return 2 * position;
  if (!is_fp8_product_input_ || dimension != operand_.stick_dim) return position;
  const std::uint32_t stick = position / 64, lane = position % 64;  // of DL16
  return lane / 8 * 16 + stick * 8 + lane % 8;
}

std::uint32_t View::padded_extent(unsigned dimension) const {
  return wire::align_up(step_.operation.extent[dimension], positions_per_step(dimension));
}

bool View::has_lane(const Index& n) const {
  return operand_.stick_dim == kNoDimension || n[operand_.stick_dim] < padded_extent(operand_.stick_dim);
}

View::Place View::place(const Index& n) const {
  Place place{0, operand_.offset, 0};
  for (unsigned l = 0; l < kMaxLoops; ++l) place.offset += operand_.loop_stride[l] * step_.iteration[l];
  for (unsigned d = 0; d < step_.operation.rank; ++d) {
    std::uint32_t local = n[d];
    if (operand_.split[d] > 1) {
      const std::uint32_t part = step_.operation.extent[d] / operand_.split[d];
      place.slice += n[d] / part * operand_.split_stride[d];
      local = n[d] % part;
    }
    if (!has_dimension(d)) continue;
    const std::uint32_t per_step = positions_per_step(d);
    place.offset += operand_.stride[d] * (local / per_step);
    place.lane += lane_of(d, local % per_step);
  }
  return place;
}

std::span<std::byte> View::stick_at(unsigned slice, std::uint64_t offset) const {
  const auto base = step_.memory.of(operand_, slice);
  if (!wire::range_inside(offset, wire::kStickBytes, base.size())) {
    throw std::logic_error("golden model: a stick outside of its base");
  }
  return base.subspan(offset, wire::kStickBytes);
}

// The checker has seen to it that the slices of an output differ, so there are no more than kMaxSlices.
View::Slices View::slices_of_copies(unsigned first) const {
  Slices slices{{first}, 1};
  for (unsigned d = 0; d < step_.operation.rank; ++d) {
    if (has_dimension(d)) continue;
    const unsigned known = slices.count;
    for (unsigned part = 1; part < operand_.split[d]; ++part) {
      for (unsigned i = 0; i < known; ++i)
        slices.of.at(slices.count++) = slices.of[i] + part * operand_.split_stride[d];
    }
  }
  return slices;
}

// Position 0 of the dimensions that the operand has not: the first of its copies.
View::Place View::first_copy(Index n) const {
  for (unsigned d = 0; d < step_.operation.rank; ++d) {
    if (!has_dimension(d)) n.at(d) = 0;
  }
  return place(n);
}

// All slices have the same bytes.
bool View::reaches(const Index& n, std::uint64_t beyond) const {
  const Place at = first_copy(n);
  const std::uint64_t size = step_.memory.of(operand_, at.slice).size();
  return beyond <= size && wire::range_inside(at.offset + beyond, wire::kStickBytes, size);
}

std::uint32_t View::bits(const Index& n, std::uint64_t beyond) const {
  const Place at = place(n);
  const unsigned bytes = item_bytes(operand_.format);
  std::uint32_t bits = 0;
  std::memcpy(&bits, &stick_at(at.slice, at.offset + beyond)[at.lane * bytes], bytes);
  return bits;
}

// Copies are those of dimensions that the operand has not; an output is written for position 0 of them.
void View::set(const Index& n, std::uint32_t bits, std::uint64_t beyond) const {
  const Place at = first_copy(n);
  const unsigned bytes = item_bytes(operand_.format);
  const Slices slices = slices_of_copies(at.slice);
  for (const unsigned slice : slices.all()) {
    const auto stick = stick_at(slice, at.offset + beyond);
    if (operand_.stick_dim != kNoDimension) {
      std::memcpy(&stick[at.lane * bytes], &bits, bytes);
      continue;
    }
    for (unsigned lane = 0; lane < lanes_of(operand_.format); ++lane) std::memcpy(&stick[lane * bytes], &bits, bytes);
  }
}

std::array<std::byte, wire::kStickBytes> View::stick(const Index& n) const {
  const Place at = place(n);
  std::array<std::byte, wire::kStickBytes> stick;
  std::ranges::copy(stick_at(at.slice, at.offset), stick.begin());
  return stick;
}

void View::set_stick(const Index& n, std::span<const std::byte, wire::kStickBytes> stick) const {
  const Place at = first_copy(n);
  const Slices slices = slices_of_copies(at.slice);
  for (const unsigned slice : slices.all()) std::ranges::copy(stick, stick_at(slice, at.offset).begin());
}

Index counts(const Step& step, const View& view, std::uint8_t dimensions, bool padded) {
  Index count;
  for (unsigned d = 0; d < kMaxRank; ++d) {
    const bool moves = d < step.operation.rank && (dimensions >> d & 1) != 0;
    count[d] = !moves ? 1 : padded ? view.padded_extent(d) : step.operation.extent[d];
  }
  return count;
}

void zero_pad_lanes(const Step& step, const View& output) {
  const std::uint8_t stick_dim = output.operand().stick_dim;
  if (stick_dim == kNoDimension) return;
  for_each_index(step.order, counts(step, output, output.operand().present, true), [&](const Index& n) {
    if (n[stick_dim] >= step.operation.extent[stick_dim]) output.set(n, 0);
  });
}

bool is_masked(const Operation& operation, const Index& n) {
  return std::ranges::any_of(std::span(operation.mask, operation.mask_count), [&](const Mask& mask) {
    const std::uint32_t position = n[mask.dimension];
    return position >= mask.start && position - mask.start < mask.count;
  });
}

}  // namespace svp::program::golden
