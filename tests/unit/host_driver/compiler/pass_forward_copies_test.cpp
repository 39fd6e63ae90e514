// SPDX-License-Identifier: Apache-2.0
// Which copies go, and which have to stay. That no byte changes: bundles_test.cpp.
#include "host_driver/compiler/pass_forward_copies.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "host_driver/compiler/bundle.hpp"
#include "host_driver/compiler/compile.hpp"
#include "host_driver/compiler/lowering.hpp"
#include "tests/support/bundle_builder.hpp"

namespace {

using namespace svp::compiler;
using test::BundleBuilder;
using test::BundleTensor;
using wire::program::Opcode;

constexpr std::int64_t kBytes = std::int64_t{32} * 128 * 2;  // of a tensor [32, 128]
using Extents = std::vector<std::pair<std::string, std::uint32_t>>;
const Extents kExtents{{"mb", 32}, {"out", 128}}, kOneStick{{"mb", 32}, {"out", 64}};

BundleTensor tensor(const std::string& base, std::int64_t offset = 0) {
  return {.order = {"mb", "out"}, .stick = "out", .base = base, .offset = offset};
}
BundleTensor scratchpad(std::int64_t offset) { return tensor("", offset); }
// One number for all elements.
BundleTensor number(const std::string& base) {
  return {.order = {"out", "mb"}, .stick = "out", .scale = {{"out", -2}, {"mb", -1}}, .base = base};
}
// One for each row.
BundleTensor column(const std::string& base, std::int64_t offset = 0) {
  return {.order = {"mb", "out"}, .stick = "out", .scale = {{"out", -2}}, .base = base, .offset = offset};
}

class ForwardCopies : public testing::Test {
 protected:
  void add(const std::string& op, const std::vector<BundleTensor>& tensors, const Extents& extents = kExtents,
           const std::map<std::string, std::uint32_t>& slices = {}) {
    builder_.add({.op = op, .extents = extents, .tensors = tensors, .slices = slices});
  }
  // What is left, without copies that were there anyway: the operations in order.
  std::vector<Opcode> left() {
    const Bundle bundle = read_bundle([&](const std::string& name) { return builder_.read(name); });
    program_ = lower(bundle);
    forward_copies(program_);
    (void)compile(bundle);  // the program is a good one
    std::vector<Opcode> opcodes;
    std::ranges::transform(program_.operations, std::back_inserter(opcodes), &TensorOp::opcode);
    return opcodes;
  }
  const TensorUse& operand(std::size_t operation, std::size_t number) const {
    return program_.operations[operation].operands[number];
  }

  BundleBuilder builder_{6, 16 * kBytes};
  TensorProgram program_;
};

using Left = std::vector<Opcode>;

TEST_F(ForwardCopies, ReadersOfThePoolReadTheSource) {
  add("identity", {tensor("arg_0", 256), tensor("pool")});
  add("exp", {tensor("pool"), tensor("pool", kBytes)});
  add("add", {tensor("pool"), tensor("pool", kBytes), tensor("pool", 2 * kBytes)});
  add("neg", {tensor("pool", 2 * kBytes), tensor("arg_1")});
  EXPECT_EQ(left(), (Left{Opcode::Exp, Opcode::Add, Opcode::Neg}));
  EXPECT_EQ(operand(0, 0).base, wire::program::Base::Argument);
  EXPECT_EQ(operand(1, 0).offset, 256);
}

TEST_F(ForwardCopies, OneCopyBehindTheOtherGoes) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("identity", {tensor("pool"), tensor("pool", kBytes)});
  add("neg", {tensor("pool", kBytes), scratchpad(0)});
  EXPECT_EQ(left(), Left{Opcode::Neg});
}

TEST_F(ForwardCopies, AnotherOrderOfDimensionsInTheSourceIsFollowed) {
  BundleTensor turned = tensor("arg_0");
  std::ranges::reverse(turned.order);
  add("identity", {turned, tensor("pool")});
  add("neg", {tensor("pool"), scratchpad(0)});
  EXPECT_EQ(left(), Left{Opcode::Neg});
  EXPECT_EQ(operand(0, 0).stride[0], 256);
}

// ---- the scratchpads stay for later bundles -------------------------------------------------------------------------

TEST_F(ForwardCopies, WhatIsLastInAScratchpadStays) {
  add("identity", {tensor("arg_0"), scratchpad(0)});
  add("neg", {scratchpad(0), scratchpad(kBytes)});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Neg}));
}

TEST_F(ForwardCopies, WhatIsOverwrittenInAScratchpadGoes) {
  add("identity", {tensor("arg_0"), scratchpad(0)});
  add("neg", {scratchpad(0), scratchpad(kBytes)});
  add("exp", {scratchpad(kBytes), scratchpad(0)});
  EXPECT_EQ(left(), (Left{Opcode::Neg, Opcode::Exp}));
}

TEST_F(ForwardCopies, WhatIsOverwrittenInPartStays) {
  add("identity", {tensor("arg_0"), scratchpad(0)});
  add("neg", {scratchpad(0), scratchpad(2 * kBytes)});
  add("exp", {scratchpad(2 * kBytes), scratchpad(128)});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Neg, Opcode::Exp}));
}

TEST_F(ForwardCopies, WhatFewerCoresOverwriteStays) {
  add("identity", {tensor("arg_0"), scratchpad(0)}, kExtents, {{"mb", 4}});
  add("neg", {scratchpad(0), scratchpad(kBytes)}, kExtents, {{"mb", 4}});
  add("exp", {tensor("arg_1"), scratchpad(0)}, kExtents, {{"mb", 2}});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Neg, Opcode::Exp}));
}

// ---- the source -----------------------------------------------------------------------------------------------------

TEST_F(ForwardCopies, ASourceThatIsWrittenBeforeAReaderKeepsItsCopy) {
  add("exp", {tensor("arg_0"), tensor("pool", kBytes)});
  add("identity", {tensor("pool", kBytes), tensor("pool")});
  add("neg", {tensor("arg_0"), tensor("pool", kBytes + 128)});
  add("add", {tensor("pool"), tensor("pool", kBytes + 128), scratchpad(0)});
  EXPECT_EQ(left(), (Left{Opcode::Exp, Opcode::Copy, Opcode::Neg, Opcode::Add}));
}

TEST_F(ForwardCopies, ASourceThatItsReaderWritesKeepsItsCopy) {
  add("exp", {tensor("arg_0"), scratchpad(0)});
  add("identity", {scratchpad(0), tensor("pool")});
  add("neg", {tensor("pool"), scratchpad(0)});
  EXPECT_EQ(left(), (Left{Opcode::Exp, Opcode::Copy, Opcode::Neg}));
}

// Arguments may be one storage.
TEST_F(ForwardCopies, AnyArgumentThatIsWrittenMayBeTheSource) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("exp", {tensor("arg_1"), tensor("arg_2")});
  add("neg", {tensor("pool"), scratchpad(0)});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Exp, Opcode::Neg}));
}

TEST_F(ForwardCopies, AReaderThatWritesAnArgumentKeepsTheCopyOfAnArgument) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("neg", {tensor("pool"), tensor("arg_1")});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Neg}));
}

// ---- the readers ----------------------------------------------------------------------------------------------------

TEST_F(ForwardCopies, AReaderOfOtherPlacesKeepsTheCopy) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("neg", {tensor("pool", 128), scratchpad(0)});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Neg}));
}

TEST_F(ForwardCopies, AReaderBehindAWriteOfAPartKeepsTheCopy) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("exp", {tensor("arg_1"), tensor("pool", 128)});
  add("neg", {tensor("pool"), scratchpad(0)});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Exp, Opcode::Neg}));
}

TEST_F(ForwardCopies, OneReaderThatCannotKeepsTheCopyForAll) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("exp", {tensor("pool"), scratchpad(0)});
  add("neg", {tensor("pool", 128), scratchpad(kBytes)});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Exp, Opcode::Neg}));
}

TEST_F(ForwardCopies, AConversionIsNoCopy) {
  BundleTensor single = tensor("pool");
  single.format = "IEEE_FP32";
  add("identity", {tensor("arg_0"), single});
  BundleTensor back = single;
  back.base = "";
  add("neg", {single, back});
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Neg}));
}

// Rows of the source lie in different scratchpads, and the output has rows along its sticks.
TEST_F(ForwardCopies, SticksAreNotMadeOfSeveralScratchpads) {
  const Extents square{{"mb", 64}, {"out", 64}};
  add("exp", {tensor("arg_0"), scratchpad(0)}, square, {{"mb", 4}});
  add("identity", {scratchpad(0), tensor("pool")}, square, {{"mb", 4}});
  BundleTensor turned{.order = {"out", "mb"}, .stick = "mb", .base = "arg_1"};
  add("ReStickifyOpHBM", {tensor("pool"), turned}, square);
  EXPECT_EQ(left(), (Left{Opcode::Exp, Opcode::Copy, Opcode::Restickify}));
}

// ---- one number for all ---------------------------------------------------------------------------------------------

TEST_F(ForwardCopies, ANumberIsReadWhereItIs) {
  add("identity", {number("arg_0"), tensor("pool")});
  add("mul", {tensor("arg_1"), tensor("pool"), scratchpad(0)});
  EXPECT_EQ(left(), Left{Opcode::Mul});
  EXPECT_EQ(operand(0, 1).stick, kNoStick);
}

TEST_F(ForwardCopies, AReductionOfANumberNeedsAllOfThem) {
  add("identity", {number("arg_0"), tensor("pool")}, kOneStick);
  add("sum", {tensor("pool"), column("", 0)}, kOneStick);
  EXPECT_EQ(left(), (Left{Opcode::Copy, Opcode::Sum}));
}

// ---- what is left alone ---------------------------------------------------------------------------------------------

TEST_F(ForwardCopies, LoopsStayAsTheyAre) {
  builder_.begin_loop("%i_0", 2);
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("neg", {tensor("pool"), scratchpad(0)});
  builder_.end_loop();
  EXPECT_EQ(left(), (Left{Opcode::LoopBegin, Opcode::Copy, Opcode::Neg, Opcode::LoopEnd}));
}

TEST_F(ForwardCopies, TheSwitchKeepsAllCopies) {
  add("identity", {tensor("arg_0"), tensor("pool")});
  add("neg", {tensor("pool"), scratchpad(0)});
  const Bundle bundle = read_bundle([&](const std::string& name) { return builder_.read(name); });
  EXPECT_EQ(compile(bundle).header().operation_count, 1u);
  EXPECT_EQ(compile(bundle, {.lengths = {}, .passes = {.forward_copies = false}}).header().operation_count, 2u);
}

}  // namespace
