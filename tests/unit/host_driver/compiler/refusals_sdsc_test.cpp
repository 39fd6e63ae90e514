// SPDX-License-Identifier: Apache-2.0
// Bad SDSC files: one member changed, and the member named.
#include <gtest/gtest.h>

#include "host_driver/compiler/sdsc.hpp"
#include "tests/unit/host_driver/compiler/refusals.hpp"

namespace refusals {

namespace {

using nlohmann::json;

// A mean along the stick on four cores, the input with a gap of 8 rows.
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

Row file_row(const std::string& name, const std::string& text, const std::string& path, const std::string& what) {
  return {.name = name,
          .compile = [=] { (void)svp::compiler::parse_sdsc(text, "sdsc_0.json"); },
          .place = path.empty() ? "sdsc_0.json" : "sdsc_0.json: " + path,
          .what = what};
}

// `path`: of the member that is named, below the body; with a '.' at the begin below the file's only member.
Row edited(const json& good, const Edits& edits, const std::string& path, const std::string& what) {
  json file = good;
  edit(file, edits);
  const std::string& outer = good.begin().key();
  const std::string body = outer + ".dscs_[0]." + good.begin().value()["dscs_"][0].begin().key();
  const std::string place = path.starts_with('.') ? outer + path : body + (path.empty() ? "" : "." + path);
  return file_row(edits[0].first + " = " + edits[0].second.dump(), file.dump(), place, what);
}
Row mean_row(const std::string& place, const json& value, const std::string& path, const std::string& what) {
  return edited(mean(), {{place, value}}, path, what);
}
Row pool_row(const std::string& place, const json& value, const std::string& path, const std::string& what) {
  return edited(pool(), {{place, value}}, path, what);
}
Row dynamic_row(const std::string& place, const json& value, const std::string& path, const std::string& what) {
  Row row = mean_row(place, value, path, what + ": dynamic sizes are not compiled");
  row.next = kStatic;
  return row;
}

void add(std::vector<Row>& rows, std::vector<Row> more) {
  rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

std::vector<Row> form_rows() {
  json many = mean(), none = mean(), missing = mean();
  edit(many, {{"N_", json::object()}});
  json& extents = many["0_mean"]["dscs_"][0]["mean"]["N_"];
  for (int i = 0; i < 17; ++i) extents["d" + std::to_string(i) + "_"] = 1;
  edit(none, {{"N_", {{"name_", "n"}}}});
  missing["0_mean"]["dscs_"][0]["mean"].erase("labeledDs_");
  const std::string body = "0_mean.dscs_[0].mean";
  return {file_row("truncated", mean().dump().substr(0, 1000), "", "is not JSON"),
          file_row("empty", "", "", "is not JSON"),
          file_row("nested without end", std::string(100'000, '['), "", "is nested deeper than 16 levels"),
          file_row("a key twice", R"({"0_add": {"a": 1, "a": 2}})", "", "has the key 'a' twice in an object"),
          file_row("too long", std::string((1u << 20) + 1, ' '), "", "is longer than 1048576 bytes"),
          file_row("a list", "[]", "", "is not an object"),
          file_row("no operation", "{}", "", "has 0 members, not one"),
          file_row("17 dimensions", many.dump(), body + ".N_.d9_", "is one dimension too many"),
          file_row("no dimension", none.dump(), body + ".N_", "has no dimension"),
          file_row("a member missing", missing.dump(), body + ".labeledDs_", "is missing"),
          mean_row("more", 1, "", "has a member that is not known: 'more'"),
          mean_row("/dscs_", json::array(), ".dscs_", "is not one operation"),
          mean_row("N_/mb", 1, "N_.mb", "is no name of a dimension"),
          mean_row("N_/mb_", 0, "N_.mb_", "is 0"),
          mean_row("maskingConstId_", -2, "maskingConstId_", "is -2, no integer from -1 to 64"),
          mean_row("dataStageParam_/0/ss_/mb_", 15, "dataStageParam_.0.ss_.mb_",
                   "is 15, and 4 slices of it are not the 64 of N_"),
          mean_row("dataStageParam_/0/ss_/paddingSizes_", 1, "dataStageParam_.0.ss_.paddingSizes_", "is no object"),
          mean_row("dataStageParam_/0/ss_/symbolicDimInfo_", 1, "dataStageParam_.0.ss_.symbolicDimInfo_",
                   "is no object of sizes"),
          dynamic_row("dataStageParam_/0/ss_/symbolicDimInfo_", {{"mb", 1}}, "dataStageParam_.0.ss_.symbolicDimInfo_",
                      "the size of dimension mb is one that only the launch knows"),
          dynamic_row("dimToSymbolMapping_", {{"mb", {-1}}, {"out", {-2}}}, "dimToSymbolMapping_",
                      "the size of dimension mb, out is one that only the launch knows"),
          dynamic_row("/inputSymbolsAndTags_", {{"-1", "s0"}}, ".inputSymbolsAndTags_",
                      "has sizes that only the launch knows")};
}

std::vector<Row> division_rows() {
  return {
      mean_row("/numCoresUsed_", 5, ".numCoresUsed_", "is 5, and the slices of all dimensions are 4"),
      mean_row("numCoresUsed_", 3, "numCoresUsed_", "is another number outside"),
      mean_row("/coreIdToWkSlice_/3/mb", 4, ".coreIdToWkSlice_.3", "gives mb part 4 of 4"),
      mean_row("/coreIdToWkSlice_/3/mb", 1, ".coreIdToWkSlice_", "gives core 3 the part of the work that core 1 has"),
      mean_row("/coreIdToWkSlice_/3/in", 0, ".coreIdToWkSlice_.3.in", "names a dimension that N_ does not have")};
}

std::vector<Row> operation_rows() {
  const std::string compute = "computeOp_[0].", constant = "constantInfo_.0.";
  return {
      mean_row("computeOp_", json::array(), "computeOp_", "is not one operation"),
      mean_row("computeOp_/0/opFuncName", "batchnorm", compute + "opFuncName",
               "is an operation that this compiler does not know: \"batchnorm\""),
      mean_row("computeOp_/0/outputLabeledDs", json::array(), compute + "outputLabeledDs", "is not one tensor"),
      mean_row("computeOp_/0/inputLabeledDs/0", "Tensor9-idx9", compute + "inputLabeledDs[0]", "names no tensor"),
      mean_row("coordinateMasking_/out", 1, "coordinateMasking_.out", "is no list"),
      mean_row("coordinateMasking_/out/0", json{120, 9}, "coordinateMasking_.out[0]",
               "is no [start, count] inside of the dimension"),
      mean_row("constantInfo_/0/dataFormat_", "SENINT8", constant + "dataFormat_", "is none of IEEE_FP32, SEN169_FP16"),
      mean_row("constantInfo_/0/data_/data_/[0, 0, 0]", json{-1}, constant + "data_.data_.[0, 0, 0]",
               "is not one number of 32 bits"),
      mean_row("constantInfo_/1/name_", "samv-maskvalue", "constantInfo_.1.name_", "is that of another constant, too")};
}

std::vector<Row> label_rows() {
  const std::string label = "labeledDs_[0].", size = "primaryDsInfo_.CLASS0.stickSize_";
  return {
      mean_row("labeledDs_", json::array(), "labeledDs_", "is not one entry for each of scheduleTree_"),
      mean_row("labeledDs_/0/dataFormat_", "SEN_BF16", label + "dataFormat_", "is no format that this compiler knows"),
      mean_row("labeledDs_/0/wordLength", 4, label + "wordLength", "is not that of SEN169_FP16"),
      mean_row("labeledDs_/0/ldsIdx_", 1, label + "ldsIdx_", "is not its place in the list"),
      mean_row("labeledDs_/0/dsType_", "OTHER", label + "dsType_", "is no entry of primaryDsInfo_"),
      mean_row("primaryDsInfo_/CLASS0/stickSize_/0", 32, label + "dsType_", "has sticks of another number of elements"),
      mean_row("primaryDsInfo_/CLASS0/stickSize_/0", 0, size + "[0]", "is no number of elements of a stick"),
      mean_row("primaryDsInfo_/CLASS0/stickSize_", json{32, 2}, size,
               "is not one size for each of one or two stick dimensions"),
      mean_row("labeledDs_/0/scale_", json{1}, label + "scale_", "is not one number for each dimension"),
      mean_row("labeledDs_/0/scale_/0", 2, label + "scale_[0]", "is 2, none of 1, -1, -2"),
      mean_row("labeledDs_/0/scale_/0", -2, label + "scale_", "has -2 at no stick dimension")};
}

std::vector<Row> node_rows() {
  const std::string node = "scheduleTree_[0].", gap = node + "backGapCore_.mb";
  const std::string start = "scheduleTree_/0/startAddressCoreCorelet_/data_/[0, 0, 0]";
  const std::string folds = "scheduleTree_/0/coordinates_/coordInfo/mb/folds/dim_prop_attr";
  return {mean_row("scheduleTree_/0/nodeType_", "free", node + "nodeType_", "is not allocate"),
          mean_row("scheduleTree_/0/ldsIdx_", 1, node + "ldsIdx_", "is not its place in the list"),
          mean_row("scheduleTree_/0/component_", "ddr", node + "component_", "is none of hbm, lx"),
          mean_row("scheduleTree_/0/component_", "lx", node + "startAddressCoreCorelet_.data_.[0, 0, 0]",
                   "is no address of a stick in a scratchpad"),
          mean_row("scheduleTree_/0/layoutDimOrder_", json{"mb"}, node + "layoutDimOrder_",
                   "and primaryDsInfo_ differ in dimension out"),
          mean_row("scheduleTree_/0/layoutDimOrder_/1", "mb", node + "layoutDimOrder_[1]", "stands there twice"),
          mean_row("scheduleTree_/0/layoutDimOrder_/1", 7, node + "layoutDimOrder_[1]", "is not a text"),
          mean_row("scheduleTree_/0/indirectAllocType_", "list", node + "indirectAllocType_",
                   "is none of no_indirection, index_tensor, value_tensor"),
          mean_row(start, "x", node + "startAddressCoreCorelet_.data_.[0, 0, 0]", "is not a text of decimal digits"),
          mean_row(start, -1, node + "startAddressCoreCorelet_.data_.[0, 0, 0]", "is not a text of decimal digits"),
          mean_row("scheduleTree_/0/backGapCore_/mb", json::object(), gap, "is not one number, or one for each core"),
          mean_row("scheduleTree_/0/backGapCore_/mb/-1", "-8", gap + ".-1", "is no number of elements"),
          mean_row("scheduleTree_/0/backGapCore_/mb", {{"0", "8"}, {"1", "9"}}, gap + ".1",
                   "differs from that of another core"),
          mean_row(folds, json::array(), node + "coordinates_.coordInfo.mb.folds.dim_prop_attr", "has no core_fold"),
          mean_row(folds + "/0/factor_", 33, node + "coordinates_.coordInfo.mb.folds",
                   "divides it among more than 32 cores")};
}

std::vector<Row> window_members() {
  const std::string i = "N_/paddingSizes_/i", at = "N_.paddingSizes_.i.", padding = "scheduleTree_/0/padding_";
  const std::string node = "scheduleTree_[0].padding_.", kind = "padded_fullspan_wunneeded";
  json nine = pool()["0_avgpoolfwd"]["dscs_"][0]["avgpoolfwd"]["N_"]["paddingSizes_"], nine_kinds;
  for (int n = 0; n < 9; ++n) {
    nine["x" + std::to_string(n)] = nine["i"];
    nine_kinds["x" + std::to_string(n)] = kind;
  }
  json more = nine["i"];
  return {pool_row(i + "/padFront_", 1, at + "padFront_", "puts elements around the tensor"),
          pool_row(i + "/stride_", 0, at + "stride_", "is 0"),
          pool_row(i + "/stride_", 3, at + "totalSize_", "is 9, and the windows reach over 11 elements"),
          pool_row("N_/paddingSizes_/y", more, "N_.paddingSizes_.y",
                   "is of a dimension that N_ does not have, with more than one element"),
          pool_row(i + "/windowDim_", "i", at + "windowDim_", "is the dimension itself"),
          pool_row("N_/paddingSizes_/j/windowDim_", "ki", "N_.paddingSizes_.j.windowDim_", "is of another window, too"),
          pool_row("N_/paddingSizes_", nine, "N_.paddingSizes_", "has too many entries"),
          pool_row(padding, nine_kinds, "scheduleTree_[0].padding_", "has too many entries"),
          pool_row(padding + "/i", "nopad", node + "i", "is not padded_fullspan_wunneeded"),
          pool_row(padding + "/ki", kind, node + "ki", "is a dimension that counts no windows"),
          edited(pool(), {{"labeledDs_/0/scale_/1", -1}}, node + "i", "is a dimension that the tensor does not have"),
          edited(pool(),
                 {{"scheduleTree_/0/layoutDimOrder_", {"j", "i", "ki", "out"}},
                  {"primaryDsInfo_/CLASS0/layoutDimOrder_", {"j", "i", "ki", "out"}},
                  {"labeledDs_/0/scale_", {1, 1, 1, 1}}},
                 node + "i", "has its taps in the tensor, too"),
          pool_row("primaryDsInfo_/CLASS0/stickDimOrder_/0", "i", node + "i", "is the tensor's stick dimension")};
}

// What a message quotes of a hostile file: bounded, and nothing that a terminal acts on.
std::vector<Row> quoting_rows() {
  json escapes = {{"\x1b[2J", mean()["0_mean"]}}, unknown = mean();
  edit(unknown, {{"maskingConstId_", std::string(500'000, 'x')}});
  escapes["\x1b[2J"]["numCoresUsed_"] = 5;
  return {file_row("escapes", escapes.dump(), "?[2J.numCoresUsed_", "is 5"),
          file_row("a value of 500 kB", unknown.dump(), "0_mean.dscs_[0].mean.maskingConstId_", "xxx...")};
}

}  // namespace

std::vector<Row> sdsc_rows() {
  std::vector<Row> rows = form_rows();
  for (auto* const more : {division_rows, operation_rows, label_rows, node_rows, window_members, quoting_rows}) {
    add(rows, more());
  }
  return rows;
}

TEST(Refusals, TheSdscsThatTheRowsChangeAreGood) {
  EXPECT_NO_THROW((void)svp::compiler::parse_sdsc(mean().dump(), "sdsc_0.json"));
  EXPECT_NO_THROW((void)svp::compiler::parse_sdsc(pool().dump(), "sdsc_0.json"));
}

TEST(Refusals, EachBadMemberOfAnSdscIsNamedByItsPath) { expect_refused(sdsc_rows()); }

TEST(Refusals, AMessageIsBounded) {
  for (const Row& row : quoting_rows()) EXPECT_LT(said(row).size(), 1500u) << row.name;
}

}  // namespace refusals
