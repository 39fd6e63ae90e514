// SPDX-License-Identifier: Apache-2.0
// Reductions and normalisations, and what all families of operations share.
#include <algorithm>

#include "host_driver/compiler/lowering.hpp"

namespace svp::compiler {

using wire::program::Format;
using wire::program::Opcode;

namespace {

Opcode opcode_of_reduction(OpFunc op) {
  switch (op) {
    case OpFunc::Sum: return Opcode::Sum;
    case OpFunc::Mean: return Opcode::Mean;
    case OpFunc::Max: return Opcode::Max;
    case OpFunc::Min: return Opcode::Min;
    default: return Opcode::Prod;
  }
}

}  // namespace

void ExecutionLowering::lower_reduction() {
  expect_inputs(1);
  const std::vector<unsigned> reduced = only_in(input(0), output());
  if (reduced.empty()) return copy_or_scale();
  if (reduced.size() > 1) return lower_several_reductions(reduced);
  TensorOp op{.opcode = opcode_of_reduction(sdsc_.op),
              .extent = extents(),
              .operands = all_uses(),
              .reduced = reduced[0],
              .masks = masks()};
  if (op.opcode == Opcode::Mean) op.constants = {constant("scaling_factor")};
  emit(std::move(op));
}

// A dimension of one element leaves no trace: nothing is reduced.
void ExecutionLowering::copy_or_scale() {
  const float factor = sdsc_.op == OpFunc::Mean ? constant("scaling_factor") : 1;
  if (factor == 1) return emit(Opcode::Copy, all_uses());
  std::vector<TensorUse> operands = all_uses();
  operands.insert(operands.begin() + 1, builder_.number(input(0).format, factor));
  emit(Opcode::Mul, std::move(operands));
}

// One after the other, the stick dimension first; sums of DL16 in FP32, so that they are rounded once.
void ExecutionLowering::lower_several_reductions(const std::vector<unsigned>& reduced) {
  if (sdsc_.op == OpFunc::Prod) refuse_here("is a product along several dimensions");
  const std::vector<std::uint32_t> all = extents();
  const bool sums = sdsc_.op == OpFunc::Sum || sdsc_.op == OpFunc::Mean;
  TensorUse current = use(input(0));
  const TensorUse output_use = use(output());
  const auto extent_of = [&](const std::array<bool, kMaxRank>& present) {
    std::vector<std::uint32_t> extent = all;
    for (unsigned d = 0; d < extent.size(); ++d) {
      if (!present[d]) extent[d] = 1;
    }
    return extent;
  };
  const bool wide = sums && current.format == Format::Dl16;
  if (wide) {
    const TensorUse copy = builder_.temporary(Format::Fp32, all, current.present, current.stick);
    emit({.opcode = Opcode::Copy, .extent = extent_of(current.present), .operands = {current, copy}});
    current = copy;
  }
  std::vector<unsigned> order = reduced;
  if (const auto stick = std::ranges::find(order, current.stick); stick != order.end()) {
    std::rotate(order.begin(), stick, stick + 1);
  }
  for (const unsigned place : order) {
    const bool last = place == order.back();
    TensorUse result = output_use;
    if (!last || wide) {
      auto present = current.present;
      present[place] = false;
      const unsigned stick = place == current.stick ? kNoStick : current.stick;
      result = builder_.temporary(current.format, all, present, stick);
    }
    TensorOp op{.opcode = opcode_of_reduction(sdsc_.op),
                .extent = extent_of(current.present),
                .operands = {current, result},
                .reduced = place,
                .masks = masks()};
    std::erase_if(op.masks, [&](const TensorMask& mask) { return mask.dimension != place; });
    if (op.opcode == Opcode::Mean && !last) op.opcode = Opcode::Sum;
    if (op.opcode == Opcode::Mean) op.constants = {constant("scaling_factor")};
    emit(std::move(op));
    current = result;
  }
  if (wide) emit({.opcode = Opcode::Copy, .extent = extent_of(output_use.present), .operands = {current, output_use}});
}

void ExecutionLowering::lower_normalisation() {
  TensorOp op{.opcode = Opcode::LayerNormNorm, .extent = extents(), .operands = all_uses()};
  if (sdsc_.op == OpFunc::LayerNormNorm) expect_inputs(5);
  if (sdsc_.op == OpFunc::LayerNormScale) {
    expect_inputs(1);
    op.opcode = Opcode::LayerNormScale;
    op.constants = {constant("eps", 0)};
  }
  if (sdsc_.op == OpFunc::Exx2) {
    expect_inputs(1);
    op.opcode = Opcode::Exx2;
    op.constants = {constant("exx2scale")};
    op.reduced = one(only_in(input(0), output()), "reduces");
    op.masks = masks();
  }
  emit(std::move(op));
}

// ---- what all share -------------------------------------------------------------------------------------------------

ExecutionLowering::ExecutionLowering(ProgramBuilder& builder, const Sdsc& sdsc, const Execution& execution)
    : builder_(builder), sdsc_(sdsc), execution_(execution) {
  // There is one: the reader has seen that each part of the work has a core.
  const auto zero = std::ranges::find_if(sdsc.slice, [](const auto& slices) {
    return std::ranges::all_of(slices, [](std::uint32_t slice) { return slice == 0; });
  });
  first_core_ = static_cast<std::uint32_t>(zero - sdsc.slice.begin());
  // Dimensions of a scratchpad's copies, too.
  const bool scratchpads =
      std::ranges::any_of(sdsc.tensors, [](const SdscTensor& t) { return t.memory == Memory::Lx; });
  for (unsigned d = 0; d < sdsc.dimensions.size(); ++d) {
    const bool in_a_tensor = std::ranges::any_of(sdsc.tensors, [&](const SdscTensor& t) { return t.has(d); }) ||
                             std::ranges::any_of(sdsc.windows, [&](const Window& w) { return w.taps == d; });
    if (in_a_tensor || (scratchpads && sdsc.dimensions[d].slices > 1)) space_.push_back(static_cast<std::uint8_t>(d));
  }
  if (space_.empty()) space_.push_back(0);
  if (space_.size() > kMaxRank) refuse_here("has more than 8 dimensions");
}

void ExecutionLowering::emit(TensorOp op) {
  op.line = execution_.line;
  builder_.emit(std::move(op));
}

void ExecutionLowering::emit(Opcode opcode, std::vector<TensorUse> operands) {
  emit({.opcode = opcode, .extent = extents(), .operands = std::move(operands)});
}

std::vector<TensorUse> ExecutionLowering::all_uses() const {
  std::vector<TensorUse> uses;
  uses.reserve(sdsc_.inputs.size() + 1);
  for (unsigned i = 0; i < sdsc_.inputs.size(); ++i) uses.push_back(use(input(i)));
  uses.push_back(use(output()));
  return uses;
}

void ExecutionLowering::expect_inputs(std::size_t count) const {
  if (sdsc_.inputs.size() == count) return;
  refuse_here(std::string(name_of(sdsc_.op)) + " has " + std::to_string(sdsc_.inputs.size()) + " inputs, not " +
              std::to_string(count));
}

float ExecutionLowering::constant(const char* name, std::optional<float> otherwise) const {
  const auto found = sdsc_.constants.find(name);
  if (found != sdsc_.constants.end()) return found->second;
  if (!otherwise) refuse_here(std::string("has no constant ") + name);
  return *otherwise;
}

std::vector<TensorMask> ExecutionLowering::masks() const {
  std::vector<TensorMask> result;
  result.reserve(sdsc_.masks.size());
  for (const MaskRange& mask : sdsc_.masks) result.push_back({place_of(mask.dimension), mask.start, mask.count});
  return result;
}

// kNoStick: none of the operation's.
unsigned ExecutionLowering::place_of(std::uint8_t dimension) const {
  const auto found = std::ranges::find(space_, dimension);
  return found == space_.end() ? kNoStick : static_cast<unsigned>(found - space_.begin());
}

std::vector<std::uint32_t> ExecutionLowering::extents() const {
  std::vector<std::uint32_t> result;
  result.reserve(space_.size());
  for (const std::uint8_t d : space_) result.push_back(sdsc_.dimensions[d].extent);
  return result;
}

std::vector<unsigned> ExecutionLowering::only_in(const SdscTensor& first, const SdscTensor& second) const {
  std::vector<unsigned> places;
  for (unsigned place = 0; place < space_.size(); ++place) {
    if (first.has(space_[place]) && !second.has(space_[place])) places.push_back(place);
  }
  return places;
}

unsigned ExecutionLowering::one(const std::vector<unsigned>& places, const char* what) const {
  if (places.size() == 1) return places[0];
  refuse_here(std::string(name_of(sdsc_.op)) + " " + what + " " + std::to_string(places.size()) +
              " dimensions, not one");
}

void ExecutionLowering::refuse_here(const std::string& what) const {
  refuse({.file = kBundleFileName, .line = execution_.line, .path = {}}, sdsc_.file + ": " + sdsc_.name + " " + what);
}

// ---- a bundle -------------------------------------------------------------------------------------------------------

namespace {

void lower_statements(ProgramBuilder& builder, const Bundle& bundle, const std::vector<Statement>& body) {
  for (const Statement& statement : body) {
    if (const auto* execution = std::get_if<Execution>(&statement.what)) {
      builder.at_line(execution->line);
      ExecutionLowering(builder, bundle.of(*execution), *execution).lower();
      continue;
    }
    const auto& loop = std::get<Loop>(statement.what);
    if (builder.loops() == kMaxLoops) {
      refuse({.file = kBundleFileName, .line = loop.line, .path = {}}, "more than 4 loops in each other");
    }
    builder.begin_loop(loop.count, loop.line);
    lower_statements(builder, bundle, loop.body);
    builder.end_loop(loop.line);
  }
}

}  // namespace

// Operations of a bundle may reach behind the pool that it declares: then once more, with temporaries behind all that.
TensorProgram lower(const Bundle& bundle, const std::vector<std::uint64_t>& lengths) {
  const auto program_of = [&](std::uint64_t pool_bytes) {
    ProgramBuilder builder(bundle, lengths, pool_bytes);
    lower_statements(builder, bundle, bundle.text.body);
    return builder.program();
  };
  const std::uint64_t declared = wire::align_up(bundle.text.pool_bytes, wire::kStickBytes);
  TensorProgram program = program_of(declared);
  const std::uint64_t reached = wire::align_up(reach_in_pool(program, declared), wire::kStickBytes);
  return reached <= declared ? program : program_of(reached);
}

}  // namespace svp::compiler
