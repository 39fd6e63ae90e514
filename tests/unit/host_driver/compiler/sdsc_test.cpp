// SPDX-License-Identifier: Apache-2.0
// SDSC files: what is read of them, and a refusal that names the member for what is missing, unknown or contradictory.
#include "host_driver/compiler/sdsc.hpp"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/support/bundle_builder.hpp"

namespace {

using namespace svp::compiler;
using nlohmann::json;

// A mean along the stick of [64, 100] on four cores, the input with a gap of 8 rows.
json mean() {
  test::BundleBuilder builder(2);
  builder.add({.op = "mean",
               .extents = {{"mb", 64}, {"out", 128}},
               .tensors = {{.order = {"mb", "out"}, .stick = "out", .base = "arg_0", .gap = {{"mb", 8}}},
                           {.order = {"mb", "out"}, .stick = "out", .scale = {{"out", -2}}, .base = "arg_1"}},
               .slices = {{"mb", 4}},
               .constants = {{"samv-maskvalue", 0xFFFF}, {"scaling_factor", 0x3E00}},
               .masks = {{"out", {100, 28}}}});
  return builder.file(0);
}

constexpr const char* kBody = "/0_mean/dscs_/0/mean";

// The refusal of `value` at the place, which begins at the outer object or, without a '/', in the body.
std::string refusal_with(const std::string& place, const json& value) {
  json file = mean();
  file[json::json_pointer(place.starts_with('/') ? "/0_mean" + place : kBody + ("/" + place))] = value;
  try {
    (void)parse_sdsc(file.dump(), "sdsc_0.json");
  } catch (const InvalidPlan& refused) {
    EXPECT_FALSE(refused.info().next_step.empty());
    return refused.info().message;
  }
  return "accepted";
}
std::string in_body(const std::string& text) { return "sdsc_0.json: 0_mean.dscs_[0].mean." + text; }

TEST(Sdsc, DimensionsTensorsConstantsMasksAndCoresAreRead) {
  const Sdsc sdsc = parse_sdsc(mean().dump(), "sdsc_0.json");
  EXPECT_EQ(sdsc.name, "0_mean");
  EXPECT_EQ(sdsc.op, OpFunc::Mean);
  ASSERT_EQ(sdsc.dimensions.size(), 2u);
  EXPECT_EQ(sdsc.dimensions[0].name, "mb");
  EXPECT_EQ(sdsc.dimensions[0].extent, 64u);
  EXPECT_EQ(sdsc.dimensions[0].slices, 4u);
  EXPECT_EQ(sdsc.dimensions[0].per_core, 16u);
  EXPECT_EQ(sdsc.cores, 4u);
  EXPECT_EQ(sdsc.slice[3][0], 3u);
  ASSERT_EQ(sdsc.tensors.size(), 2u);
  const SdscTensor &input = sdsc.tensors[0], &output = sdsc.tensors[1];
  EXPECT_EQ(input.order, (std::vector<std::uint8_t>{0, 1}));
  EXPECT_EQ(input.gap[0], 8u);
  EXPECT_TRUE(input.has(1));
  EXPECT_EQ(output.scale[1], Scale::AbsentStick);
  EXPECT_EQ(input.start, (std::vector<std::int64_t>{-1, -2, -3, -4}));
  EXPECT_EQ(sdsc.inputs, (std::vector<std::uint8_t>{0}));
  EXPECT_EQ(sdsc.output, 1);
  ASSERT_EQ(sdsc.masks.size(), 1u);
  EXPECT_EQ(sdsc.masks[0].start, 100u);
  EXPECT_EQ(sdsc.masks[0].count, 28u);
  EXPECT_EQ(sdsc.constants.at("samv-maskvalue"), -INFINITY) << "a code beyond the numbers of DL16";
  EXPECT_EQ(sdsc.constants.at("scaling_factor"), 1.0F);
}

TEST(Sdsc, WhatIsNoObjectOfThisFormIsRefused) {
  const auto refusal_of = [](const std::string& text) {
    try {
      (void)parse_sdsc(text, "sdsc_0.json");
    } catch (const InvalidPlan& refused) {
      return refused.info().message;
    }
    return std::string("accepted");
  };
  EXPECT_TRUE(refusal_of("{").starts_with("sdsc_0.json"));
  EXPECT_EQ(refusal_of("[]"), "sdsc_0.json: is not an object");
  EXPECT_EQ(refusal_of("{}"), "sdsc_0.json: has 0 members, not one");
  EXPECT_TRUE(refusal_of(R"({"0_add": 1, "0_add": 2})").contains("twice"));
  EXPECT_TRUE(refusal_of(std::string(100, '[') + std::string(100, ']')).contains("sdsc_0.json"));
}

TEST(Sdsc, UnknownMembersOperationsAndFormatsAreNamed) {
  EXPECT_EQ(refusal_with("more", 1),
            in_body("").substr(0, in_body("").size() - 1) + ": has a member that is not known: 'more'");
  EXPECT_EQ(refusal_with("/more", 1), "sdsc_0.json: 0_mean: has a member that is not known: 'more'");
  EXPECT_EQ(refusal_with("scheduleTree_/1/more", 1),
            in_body("scheduleTree_[1]: has a member that is not known: 'more'"));
  EXPECT_EQ(refusal_with("computeOp_/0/opFuncName", "batchnorm"),
            in_body("computeOp_[0].opFuncName: is an operation that this compiler does not know: \"batchnorm\""));
  EXPECT_EQ(refusal_with("computeOp_/0/opFuncName", "addnonstick"),
            in_body("computeOp_[0].opFuncName: is an operation that this compiler does not know: \"addnonstick\""));
  EXPECT_EQ(refusal_with("labeledDs_/0/dataFormat_", "SEN_BF16"),
            in_body("labeledDs_[0].dataFormat_: is no format that this compiler knows"));
  EXPECT_EQ(refusal_with("labeledDs_/0/wordLength", 4),
            in_body("labeledDs_[0].wordLength: is not that of SEN169_FP16"));
  EXPECT_EQ(refusal_with("scheduleTree_/0/component_", "ddr"),
            in_body("scheduleTree_[0].component_: is none of hbm, lx"));
  EXPECT_EQ(refusal_with("scheduleTree_/0/indirectAllocType_", "list"),
            in_body("scheduleTree_[0].indirectAllocType_: is none of no_indirection, index_tensor, value_tensor"));
}

TEST(Sdsc, TheDivisionOfTheWorkIsConsistent) {
  EXPECT_EQ(refusal_with("/numCoresUsed_", 5),
            "sdsc_0.json: 0_mean.numCoresUsed_: is 5, and the slices of all dimensions are 4");
  EXPECT_EQ(refusal_with("numCoresUsed_", 3), in_body("numCoresUsed_: is another number outside"));
  EXPECT_EQ(refusal_with("N_/mb_", 63),
            in_body("dataStageParam_.0.ss_.mb_: is 16, and 4 slices of it are not the 63 of N_"));
  EXPECT_EQ(refusal_with("N_/mb_", 0), in_body("N_.mb_: is 0"));
  EXPECT_EQ(refusal_with("/coreIdToWkSlice_/3/mb", 4), "sdsc_0.json: 0_mean.coreIdToWkSlice_.3: gives mb part 4 of 4");
  EXPECT_EQ(refusal_with("/coreIdToWkSlice_/3/in", 0),
            "sdsc_0.json: 0_mean.coreIdToWkSlice_.3.in: names a dimension that N_ does not have");
}

TEST(Sdsc, TheThreeListsOfTensorsAgree) {
  EXPECT_EQ(refusal_with("labeledDs_/0/ldsIdx_", 1), in_body("labeledDs_[0].ldsIdx_: is not its place in the list"));
  EXPECT_EQ(refusal_with("labeledDs_/0/dsType_", "OTHER"),
            in_body("labeledDs_[0].dsType_: is no entry of primaryDsInfo_"));
  EXPECT_EQ(refusal_with("labeledDs_/0/scale_", json{1}),
            in_body("labeledDs_[0].scale_: is not one number for each dimension"));
  EXPECT_EQ(refusal_with("labeledDs_/0/scale_/0", 2), in_body("labeledDs_[0].scale_[0]: is 2, none of 1, -1, -2"));
  EXPECT_EQ(refusal_with("labeledDs_/0/scale_/0", -2), in_body("labeledDs_[0].scale_: has -2 at no stick dimension"));
  EXPECT_EQ(refusal_with("primaryDsInfo_/CLASS0/stickSize_/0", 32),
            in_body("labeledDs_[0].dsType_: has sticks of another number of elements"));
  EXPECT_EQ(refusal_with("scheduleTree_/0/layoutDimOrder_", json{"mb"}),
            in_body("scheduleTree_[0].layoutDimOrder_: and primaryDsInfo_ differ in dimension out"));
  EXPECT_EQ(refusal_with("scheduleTree_/0/layoutDimOrder_/1", "mb"),
            in_body("scheduleTree_[0].layoutDimOrder_[1]: stands there twice"));
  EXPECT_EQ(refusal_with("computeOp_/0/inputLabeledDs/0", "Tensor9-idx9"),
            in_body("computeOp_[0].inputLabeledDs[0]: names no tensor"));
}

TEST(Sdsc, AddressesGapsMasksAndConstantsAreNumbersInTheirRange) {
  EXPECT_EQ(refusal_with("scheduleTree_/0/startAddressCoreCorelet_/data_/[0, 0, 0]", "x"),
            in_body("scheduleTree_[0].startAddressCoreCorelet_.data_.[0, 0, 0]: is not a text of decimal digits"));
  EXPECT_EQ(
      refusal_with("scheduleTree_/0/component_", "lx"),
      in_body("scheduleTree_[0].startAddressCoreCorelet_.data_.[0, 0, 0]: is no address of a stick in a scratchpad"));
  EXPECT_EQ(refusal_with("scheduleTree_/0/backGapCore_/mb/-1", "-8"),
            in_body("scheduleTree_[0].backGapCore_.mb.-1: is no number of elements"));
  EXPECT_EQ(refusal_with("coordinateMasking_/out/0", json{120, 9}),
            in_body("coordinateMasking_.out[0]: is no [start, count] inside of the dimension"));
  EXPECT_EQ(refusal_with("constantInfo_/0/data_/data_/[0, 0, 0]", json{-1}),
            in_body("constantInfo_.0.data_.data_.[0, 0, 0]: is not one number of 32 bits"));
  EXPECT_EQ(refusal_with("constantInfo_/1/name_", "samv-maskvalue"),
            in_body("constantInfo_.1.name_: is that of another constant, too"));
  EXPECT_EQ(
      refusal_with("dataStageParam_/0/ss_/symbolicDimInfo_", json{{"mb", 1}}),
      in_body("dataStageParam_.0.ss_.symbolicDimInfo_: the size of dimension mb is one that only the launch knows: "
              "dynamic sizes are not compiled"));
  EXPECT_EQ(refusal_with("dataStageParam_/0/ss_/paddingSizes_", json::array()),
            in_body("dataStageParam_.0.ss_.paddingSizes_: is no object"));
}

// A pool of [4, 5] windows of [2, 3] elements, of an image of [9, 7].
json pool() {
  test::BundleBuilder builder(2);
  builder.add({.op = "avgpoolfwd",
               .extents = {{"i", 4}, {"j", 5}, {"ki", 2}, {"kj", 3}, {"out", 64}},
               .tensors = {{.order = {"j", "i", "out"}, .stick = "out", .base = "arg_0", .windowed = {"i", "j"}},
                           {.order = {"j", "i", "out"}, .stick = "out", .base = "arg_1"}},
               .constants = {{"nmap", 0x3000}},
               .windows = {{"i", {.taps = "ki", .elements = 9, .stride = 2}}, {"j", {.taps = "kj", .elements = 7}}}});
  return builder.file(0);
}

constexpr const char* kPoolBody = "/0_avgpoolfwd/dscs_/0/avgpoolfwd";

std::string pool_refusal_with(const std::string& place, const json& value) {
  json file = pool();
  file[json::json_pointer(kPoolBody + ("/" + place))] = value;
  try {
    (void)parse_sdsc(file.dump(), "sdsc_0.json");
  } catch (const InvalidPlan& refused) {
    EXPECT_FALSE(refused.info().next_step.empty());
    std::string message = refused.info().message;
    const std::string begin = "sdsc_0.json: 0_avgpoolfwd.dscs_[0].avgpoolfwd.";
    EXPECT_TRUE(message.starts_with(begin)) << message;
    return message.substr(begin.size());
  }
  return "accepted";
}

TEST(Sdsc, WindowsAreReadWithTheDimensionOfTheirTaps) {
  const Sdsc sdsc = parse_sdsc(pool().dump(), "sdsc_0.json");
  ASSERT_EQ(sdsc.windows.size(), 2u);
  const Window& window = sdsc.windows[0];
  EXPECT_EQ(sdsc.dimensions[window.dimension].name, "i");
  EXPECT_EQ(sdsc.dimensions[window.taps].name, "ki");
  EXPECT_EQ(window.elements, 9u);
  EXPECT_EQ(window.stride, 2u);
  EXPECT_EQ(sdsc.tensors[0].windowed.size(), 2u);
  EXPECT_TRUE(sdsc.tensors[1].windowed.empty());
  // A window along a dimension of one element, which N_ does not have.
  const json one{{"padFront_", 0}, {"padBack_", 0},  {"totalSize_", 1},
                 {"stride_", 1},   {"dilation_", 1}, {"windowDim_", "kj"}};
  EXPECT_EQ(pool_refusal_with("N_/paddingSizes_/y", one), "accepted");
  json more = one;
  more["totalSize_"] = 2;
  EXPECT_EQ(pool_refusal_with("N_/paddingSizes_/y", more),
            "N_.paddingSizes_.y: is of a dimension that N_ does not have, with more than one element");
}

TEST(Sdsc, WindowsThatContradictThemselvesAreRefused) {
  const std::string i = "N_/paddingSizes_/i", at = "N_.paddingSizes_.i.";
  EXPECT_EQ(pool_refusal_with(i + "/padFront_", 1),
            at + "padFront_: puts elements around the tensor, and this compiler takes windows inside of it only");
  EXPECT_EQ(pool_refusal_with(i + "/stride_", 0), at + "stride_: is 0");
  EXPECT_EQ(pool_refusal_with(i + "/stride_", 3), at + "totalSize_: is 9, and the windows reach over 11 elements");
  EXPECT_EQ(pool_refusal_with(i + "/dilation_", 2147483647),
            at + "totalSize_: is 9, and the windows reach over 2147483654 elements");
  EXPECT_EQ(pool_refusal_with(i + "/windowDim_", "i"), at + "windowDim_: is the dimension itself");
  EXPECT_EQ(pool_refusal_with(i + "/windowDim_", "z"), at + "windowDim_: names a dimension that N_ does not have");
  EXPECT_EQ(pool_refusal_with("N_/paddingSizes_/j/windowDim_", "ki"),
            "N_.paddingSizes_.j.windowDim_: is of another window, too");
  EXPECT_EQ(pool_refusal_with(i + "/other", 1), "N_.paddingSizes_.i: has a member that is not known: 'other'");
  const std::string padding = "scheduleTree_/0/padding_", node = "scheduleTree_[0].padding_.";
  EXPECT_EQ(pool_refusal_with(padding + "/i", "padded_nozeropad"), node + "i: is not padded_fullspan_wunneeded");
  EXPECT_EQ(pool_refusal_with(padding + "/ki", "padded_fullspan_wunneeded"),
            node + "ki: is a dimension that counts no windows");
  EXPECT_EQ(pool_refusal_with(padding + "/y", "padded_fullspan_wunneeded"), "accepted");
}

}  // namespace
