// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/pass_forward_copies.hpp"

#include <algorithm>
#include <optional>
#include <utility>

#include "host_driver/compiler/footprint.hpp"

namespace svp::compiler {

using wire::program::Base;
using wire::program::Opcode;

namespace {

// Inputs may be one number for all positions along the output's sticks.
bool takes_numbers(Opcode opcode) { return opcode == Opcode::Copy || (opcode >= Opcode::Add && opcode < Opcode::Sum); }
bool is_reduction(Opcode opcode) { return opcode >= Opcode::Sum && opcode <= Opcode::Prod; }
// Two dimensions share a stick.
bool has_other_sticks(Opcode opcode) { return opcode == Opcode::Dl16ToFp8Weight || opcode == Opcode::MatMulFp8; }

// What makes one stick of the output lies in several scratchpads.
bool divides_sticks(const TensorUse& use, const TensorOp& op) {
  const TensorUse& output = op.operands.back();
  if (output.stick == kNoStick || use.split[output.stick] == 1) return false;
  return op.extent[output.stick] / use.split[output.stick] % wire::program::lanes_of(output.format) != 0;
}

// How one copy is read through.
class ForwardedCopy {
 public:
  // Empty: it is none whose readers can read the source.
  static std::optional<ForwardedCopy> of(const TensorOp& copy) {
    if (copy.opcode != Opcode::Copy || !copy.masks.empty() || copy.operands.size() != 2) return std::nullopt;
    const TensorUse &from = copy.operands[0], &to = copy.operands[1];
    if (from.format != to.format || (to.base != Base::Pool && to.base != Base::Scratchpad)) return std::nullopt;
    const bool number = from.stick == kNoStick && to.stick != kNoStick;
    if (!number && from.stick != to.stick) return std::nullopt;
    const auto read = walks_of(from, copy.extent), written = walks_of(to, copy.extent);
    if (!read || !written || !are_apart(*written)) return std::nullopt;
    return ForwardedCopy(copy, *written, number);
  }

  // The reader, reading the source with its operand `input`; empty: it cannot.
  std::optional<TensorOp> reader(const TensorOp& op, std::size_t input) const {
    const TensorUse& use = op.operands[input];
    const auto walks = walks_of(use, op.extent);
    if (!walks || use.base != to_.base || use.offset != to_.offset || walks->size() != written_.size() ||
        has_other_sticks(op.opcode)) {
      return std::nullopt;
    }
    TensorOp result = op;
    TensorUse& changed = result.operands[input];
    changed.base = from_.base;
    changed.argument = from_.argument;
    changed.offset = from_.offset;
    for (const Walk& walk : *walks) {
      const auto same = std::ranges::find_if(written_, [&](const Walk& each) { return walk.same_way(each); });
      if (same == written_.end()) return std::nullopt;
      const unsigned d = walk.dimension, of_copy = same->dimension;
      changed.present[d] = from_.present[of_copy];
      changed.stride[d] = from_.stride[of_copy];
      changed.split[d] = from_.split[of_copy];
      changed.split_stride[d] = from_.split_stride[of_copy];
    }
    if (divides_sticks(changed, op)) return std::nullopt;
    if (number_) return with_number(std::move(result), input);
    const bool repeats_sticks = use.stick != kNoStick && !changed.present[use.stick];
    return repeats_sticks ? std::nullopt : std::optional(std::move(result));
  }

 private:
  ForwardedCopy(const TensorOp& copy, std::vector<Walk> written, bool number)
      : from_(copy.operands[0]), to_(copy.operands[1]), written_(std::move(written)), number_(number) {}

  // All lanes of a stick of the copy are one number: lane 0 of the source's stick.
  std::optional<TensorOp> with_number(TensorOp op, std::size_t input) const {
    TensorUse& use = op.operands[input];
    if (use.format != from_.format || !op.masks.empty()) return std::nullopt;
    const bool reads_lane_0 = takes_numbers(op.opcode) || is_reduction(op.opcode);
    if (use.stick == kNoStick) return reads_lane_0 ? std::optional(std::move(op)) : std::nullopt;
    // Along several sticks only when they are one in the source.
    const bool one = op.extent[use.stick] == wire::program::lanes_of(use.format) || !use.present[use.stick];
    if (!one) return std::nullopt;
    if (!takes_numbers(op.opcode)) return std::nullopt;
    use.present[use.stick] = false;
    use.stride[use.stick] = 0;
    use.stick = kNoStick;
    return op;
  }

  TensorUse from_, to_;
  std::vector<Walk> written_;
  bool number_;
};

// Readers with their changes, when the copy at `place` can go.
class Readers {
 public:
  Readers(const TensorProgram& program, std::size_t place)
      : operations_(program.operations), copy_(operations_[place]), place_(place) {}

  using Changes = std::vector<std::pair<std::size_t, TensorOp>>;
  std::optional<Changes> find() {
    const auto forwarded = ForwardedCopy::of(copy_);
    if (!forwarded) return std::nullopt;
    for (std::size_t i = place_ + 1; i < operations_.size() && !overwritten_; ++i) {
      if (!follow(*forwarded, i)) return std::nullopt;
    }
    const bool ends_here = overwritten_ || copied().base == Base::Pool;
    return ends_here ? std::optional(std::move(changes_)) : std::nullopt;
  }

 private:
  const TensorUse& source() const { return copy_.operands[0]; }
  const TensorUse& copied() const { return copy_.operands[1]; }

  bool follow(const ForwardedCopy& forwarded, std::size_t place) {
    const TensorOp& op = operations_[place];
    const TensorUse& written = op.operands.back();
    const bool changes_source = may_touch(written, op.extent, source(), copy_.extent);
    std::optional<TensorOp> changed;
    for (std::size_t input = 0; input + 1 < op.operands.size(); ++input) {
      if (!may_touch(op.operands[input], op.extent, copied(), copy_.extent)) continue;
      // What is written beside it may be the source, also when both are arguments of one storage.
      if (is_stale_ || changes_source || both_arguments(written)) return false;
      changed = forwarded.reader(changed ? *changed : op, input);
      if (!changed) return false;
    }
    if (changed) changes_.emplace_back(place, std::move(*changed));
    is_stale_ = is_stale_ || changes_source;
    if (may_touch(written, op.extent, copied(), copy_.extent)) {
      overwritten_ = covers(written, op.extent, copied(), copy_.extent);
      is_stale_ = true;
    }
    return true;
  }
  bool both_arguments(const TensorUse& written) const {
    return written.base == Base::Argument && source().base == Base::Argument;
  }

  const std::vector<TensorOp>& operations_;
  const TensorOp& copy_;
  std::size_t place_;
  Changes changes_;
  bool is_stale_ = false;     // source and copy may differ: no further reader can be changed
  bool overwritten_ = false;  // nobody reads the copy from here on
};

bool is_left_alone(Opcode opcode) {
  return opcode == Opcode::LoopBegin || opcode == Opcode::LoopEnd || opcode == Opcode::Gather ||
         opcode == Opcode::Scatter;
}

}  // namespace

void forward_copies(TensorProgram& program) {
  if (std::ranges::any_of(program.operations, is_left_alone, &TensorOp::opcode)) return;
  for (std::size_t i = 0; i < program.operations.size();) {
    auto changes = Readers(program, i).find();
    if (!changes) {
      ++i;
      continue;
    }
    for (auto& [place, op] : *changes) program.operations[place] = std::move(op);
    program.operations.erase(program.operations.begin() + static_cast<std::ptrdiff_t>(i));
  }
}

}  // namespace svp::compiler
