// SPDX-License-Identifier: Apache-2.0
// Families of operations but reductions: movement, element-wise, functions, products, conversions, top-k, indexed.
#include <algorithm>
#include <cmath>
#include <limits>

#include "host_driver/compiler/lowering.hpp"
#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

using wire::program::Format;
using wire::program::Opcode;

namespace {

constexpr float kNoBound = std::numeric_limits<float>::infinity();

struct OpcodeOf {
  OpFunc op;
  std::uint8_t inputs;
  Opcode opcode;
};
constexpr OpcodeOf kPointwise[] = {
    {OpFunc::Add, 2, Opcode::Add},         {OpFunc::Sub, 2, Opcode::Sub},
    {OpFunc::Mul, 2, Opcode::Mul},         {OpFunc::Div, 2, Opcode::Div},
    {OpFunc::Maximum, 2, Opcode::Maximum}, {OpFunc::Minimum, 2, Opcode::Minimum},
    {OpFunc::Equal, 2, Opcode::Equal},     {OpFunc::NotEqual, 2, Opcode::NotEqual},
    {OpFunc::Greater, 2, Opcode::Greater}, {OpFunc::GreaterEqual, 2, Opcode::GreaterEqual},
    {OpFunc::Less, 2, Opcode::Less},       {OpFunc::LessEqual, 2, Opcode::LessEqual},
    {OpFunc::Where, 3, Opcode::Where},     {OpFunc::Abs, 1, Opcode::Abs},
    {OpFunc::Neg, 1, Opcode::Neg},         {OpFunc::Relu, 1, Opcode::Relu},
    {OpFunc::Floor, 1, Opcode::Floor},     {OpFunc::Clip, 1, Opcode::Clip},
};
constexpr OpcodeOf kFunctions[] = {
    {OpFunc::Exp, 1, Opcode::Exp},
    {OpFunc::Log, 1, Opcode::Log},
    {OpFunc::Sqrt, 1, Opcode::Sqrt},
    {OpFunc::Rsqrt, 1, Opcode::Rsqrt},
    {OpFunc::Reciprocal, 1, Opcode::Reciprocal},
    {OpFunc::Sigmoid, 1, Opcode::Sigmoid},
    {OpFunc::Tanh, 1, Opcode::Tanh},
    {OpFunc::Silu, 1, Opcode::Silu},
    {OpFunc::Gelu, 1, Opcode::Gelu},
    {OpFunc::Softplus, 1, Opcode::Softplus},
};
constexpr OpcodeOf kConversions[] = {
    {OpFunc::Dl16ToFp32, 1, Opcode::Dl16ToFp32},
    {OpFunc::Fp32ToDl16, 1, Opcode::Fp32ToDl16},
    {OpFunc::Dl16ToFp8, 1, Opcode::Dl16ToFp8},
    {OpFunc::Fp8ToDl16, 1, Opcode::Fp8ToDl16},
    {OpFunc::Dl16ToFp8Weight, 1, Opcode::Dl16ToFp8Weight},
};

template <std::size_t kCount>
const OpcodeOf* find_op(const OpcodeOf (&table)[kCount], OpFunc op) {
  const auto* const found = std::ranges::find(table, op, &OpcodeOf::op);
  return found == std::end(table) ? nullptr : found;
}

}  // namespace

void ExecutionLowering::lower() {
  if (sdsc_.inputs.empty()) refuse_here("has no input");
  if (!sdsc_.windows.empty() && !is_windowed(sdsc_.op)) refuse_here("has windows, and is no operation over windows");
  check_masks();
  if (!sdsc_.indices.empty()) return lower_indexed();
  if (const OpcodeOf* found = find_op(kPointwise, sdsc_.op)) {
    expect_inputs(found->inputs);
    return lower_pointwise(found->opcode);
  }
  if (const OpcodeOf* found = find_op(kFunctions, sdsc_.op)) return lower_function(found->opcode);
  if (const OpcodeOf* found = find_op(kConversions, sdsc_.op)) return lower_conversion(found->opcode);
  if (is_reduction(sdsc_.op)) return lower_reduction();
  switch (sdsc_.op) {
    case OpFunc::Identity: return lower_copy();
    case OpFunc::Restickify: return lower_restickify();
    case OpFunc::Shuffle: return lower_shuffle();
    case OpFunc::MatMul: return lower_product(Opcode::MatMul);
    case OpFunc::MatMulFp8: return lower_product(Opcode::MatMulFp8);
    case OpFunc::TopKValue: return lower_top_k(Opcode::TopKValue);
    case OpFunc::TopKIndex: return lower_top_k(Opcode::TopKIndex);
    case OpFunc::Exx2:
    case OpFunc::LayerNormScale:
    case OpFunc::LayerNormNorm: return lower_normalisation();
    case OpFunc::AveragePool:
    case OpFunc::Conv2d:
    case OpFunc::DepthwiseConv2d: return lower_windows();
    default: refuse_here("operation " + std::string(name_of(sdsc_.op)) + " is not made yet");
  }
}

// A mask is left out nowhere: operations that do not know what it means are refused with one.
void ExecutionLowering::check_masks() const {
  if (sdsc_.masks.empty() || sdsc_.op == OpFunc::Exp) return;
  if (!is_reduction(sdsc_.op) && sdsc_.op != OpFunc::Exx2) {
    refuse_here("has a mask, and only reductions and exp know what it means");
  }
  for (const MaskRange& mask : sdsc_.masks) {
    if (input(0).has(mask.dimension) && !output().has(mask.dimension)) continue;
    refuse_here("has a mask on dimension " + sdsc_.dimensions[mask.dimension].name + ", which it does not reduce");
  }
}

// ---- element by element ---------------------------------------------------------------------------------------------

void ExecutionLowering::lower_pointwise(Opcode opcode) {
  TensorOp op{.opcode = opcode, .extent = extents(), .operands = all_uses()};
  if (opcode == Opcode::Clip) op.constants = {constant("clipMin", -kNoBound), constant("clipMax", kNoBound)};
  emit(std::move(op));
}

void ExecutionLowering::lower_function(Opcode opcode) {
  expect_inputs(1);
  TensorOp op{.opcode = opcode, .extent = extents(), .operands = all_uses()};
  if (opcode == Opcode::Softplus) op.constants = {constant("softplusBeta", 1), constant("softplusThresh", 20)};
  if (input(0).format == Format::Dl16) op.operands.insert(op.operands.end() - 1, builder_.table(opcode, op.constants));
  if (!sdsc_.masks.empty()) {
    op.masks = masks();
    op.mask_value = std::exp(constant("samv-maskvalue"));
  }
  emit(std::move(op));
}

// ---- movement -------------------------------------------------------------------------------------------------------

// The sticks of both run along the same dimension, or along none.
void ExecutionLowering::lower_copy() {
  expect_inputs(1);
  const std::uint8_t stick_in = input(0).sticks.back().dimension, stick_out = output().sticks.back().dimension;
  const bool changes_stick = input(0).has(stick_in) && input(0).has(stick_out) != output().has(stick_out);
  if (changes_stick) return emit(Opcode::Restickify, all_uses());
  emit(clipped(Opcode::Copy));
}

// Sizes that are no whole sticks: N_ is padded, and each tensor may have its other dimension unpadded. The pad lanes of
// the output become zero.
void ExecutionLowering::lower_restickify() {
  expect_inputs(1);
  std::vector<std::uint32_t> extent = extents();
  const SdscTensor* const both[] = {&input(0), &output()};
  std::array<UseRules, 2> rules;
  for (unsigned t = 0; t < 2; ++t) {
    for (const std::uint8_t d : both[t]->order) {
      if (!may_be_unpadded(sdsc_, *both[t], *both[1 - t], d)) continue;
      const PaddedExtent padded = padded_extent(*both[t], d);
      rules[t].layout.allocated[d] = padded.allocated;
      rules[t].is_guess = lacks_length(*both[t]);
      if (const unsigned place = place_of(d); place < extent.size()) {
        extent[place] = std::min(extent[place], padded.whole);
      }
    }
  }
  emit({.opcode = Opcode::Restickify,
        .extent = std::move(extent),
        .operands = {use(*both[0], rules[0]), use(*both[1], rules[1])}});
}

// From one division among the cores to another.
void ExecutionLowering::lower_shuffle() {
  expect_inputs(1);
  const auto shuffled = [&](const SdscTensor& tensor) {
    UseRules rules;
    rules.layout.parts = tensor.parts;
    if (!tensor.owned.empty()) rules.owners = &tensor.owned;
    return use(tensor, rules);
  };
  emit(Opcode::Copy, {shuffled(input(0)), shuffled(output())});
}

// A gather takes index and value, a scatter index and input, and one of two tensors is reached through the index.
void ExecutionLowering::lower_indexed() {
  if (sdsc_.op != OpFunc::Identity) refuse_here("is reached through an index, and only a copy can be");
  if (sdsc_.indices.size() != 1) refuse_here("is reached through several indices");
  expect_inputs(1);
  const SdscTensor& index = sdsc_.tensors[sdsc_.indices[0]];
  const SdscTensor& moved = input(0);
  const bool scatters = output().indirection == Indirection::Value;
  if (!scatters && moved.indirection != Indirection::Value) refuse_here("has no tensor that the index selects from");
  const SdscTensor& value = scatters ? output() : moved;
  UseRules rules;
  for (const std::uint8_t d : index.order) {
    if (value.has(d)) rules.layout.without.push_back(d);
  }
  TensorOp op{.opcode = scatters ? Opcode::Scatter : Opcode::Gather, .extent = extents(), .operands = {}};
  op.page = static_cast<std::uint64_t>(steps_of(sdsc_, value, rules.layout).bytes);
  take_rows(value, op.page);
  if (scatters) {
    op.operands = {use(index), use(moved), use(value, rules)};
  } else {
    op.operands = {use(index), use(value, rules), use(output())};
  }
  check_index(index, op.operands[0], op.operands[scatters ? 1 : 2].stick);
  emit(std::move(op));
}

// Along `stick` is where what moves has its sticks.
void ExecutionLowering::check_index(const SdscTensor& index, const TensorUse& read, unsigned stick) const {
  if (stick == kNoStick || !read.present[stick]) return;
  refuse({.file = sdsc_.file, .line = 0, .path = index.path},
         index.name + " has an index for each element along " + sdsc_.dimensions[space_[stick]].name +
             ", and what moves are whole sticks of it",
         "give one index for each row (index_select, index_copy, embedding), along another dimension");
}

// ---- products, conversions, top-k -----------------------------------------------------------------------------------

void ExecutionLowering::lower_product(Opcode opcode) {
  expect_inputs(2);
  std::vector<unsigned> contracted;
  for (unsigned place = 0; place < space_.size(); ++place) {
    const std::uint8_t d = space_[place];
    if (input(0).has(d) && input(1).has(d) && !output().has(d)) contracted.push_back(place);
  }
  const unsigned reduced = one(contracted, "contracts");
  emit({.opcode = opcode, .extent = extents(), .operands = all_uses(), .reduced = reduced});
}

void ExecutionLowering::lower_conversion(Opcode opcode) {
  expect_inputs(1);
  TensorOp op = clipped(opcode);
  if (opcode == Opcode::Dl16ToFp8Weight) op.reduced = place_of(output().sticks.front().dimension);
  emit(std::move(op));
}

void ExecutionLowering::lower_top_k(Opcode opcode) {
  expect_inputs(1);
  const unsigned searched = one(only_in(input(0), output()), "searches along");
  emit({.opcode = opcode, .extent = extents(), .operands = all_uses(), .reduced = searched});
}

}  // namespace svp::compiler
