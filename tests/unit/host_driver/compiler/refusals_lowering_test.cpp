// SPDX-License-Identifier: Apache-2.0
// Bad operations: what each file says is well-formed, and the compiler cannot make a program of it.
#include <gtest/gtest.h>

#include <functional>

#include "tests/unit/host_driver/compiler/refusals.hpp"

namespace refusals {

namespace {

using test::BundleBuilder;
using test::BundleOperation;
using test::BundleTensor;
using Extents = std::vector<std::pair<std::string, std::uint32_t>>;
using Lengths = std::vector<std::uint64_t>;

// The last line of the function's body is the only operation.
std::string place_of(const BundleBuilder& builder) {
  const std::string text = builder.text();
  const std::string before = text.substr(0, text.find("sdsc_execute"));
  return "bundle.mlir:" + std::to_string(1 + std::ranges::count(before, '\n'));
}

Row builder_row(const std::string& what, const BundleBuilder& builder, const Lengths& lengths = {}) {
  return {.name = what, .compile = [=] { compile_bundle(builder, lengths); }, .place = place_of(builder), .what = what};
}
Row operation_row(const BundleOperation& operation, const std::string& what, std::uint64_t pool = 0) {
  BundleBuilder builder(4, pool);
  builder.add(operation);
  return builder_row("sdsc_0.json: 0_" + operation.op + " " + what, builder);
}
// The message names a tensor of the file.
Row tensor_row(const BundleOperation& operation, const Edits& edits, unsigned number, const std::string& what) {
  BundleBuilder builder(4);
  builder.add(operation);
  edit(builder.file(0), edits);
  Row row = builder_row(what, builder);
  row.place =
      "sdsc_0.json: 0_" + operation.op + ".dscs_[0]." + operation.op + ".scheduleTree_[" + std::to_string(number) + "]";
  return row;
}
Row edited_row(const BundleOperation& operation, const Edits& edits, const std::string& what) {
  BundleBuilder builder(4);
  builder.add(operation);
  edit(builder.file(0), edits);
  return builder_row("sdsc_0.json: 0_" + operation.op + " " + what, builder);
}
Row text_of_row(const BundleOperation& operation, const std::string& old, const std::string& replacement,
                const std::string& what) {
  BundleBuilder builder(4);
  builder.add(operation);
  Row row = builder_row(what, builder);
  row.compile = [=] { compile_bundle(builder, replaced(builder.text(), old, replacement)); };
  return row;
}
Row with_next(Row row, const std::string& next) {
  row.next = next;
  return row;
}
Row at(Row row, const std::string& place) {
  row.place = place;
  return row;
}

BundleOperation add(std::vector<BundleTensor> tensors, std::map<std::string, std::uint32_t> slices = {}) {
  return {
      .op = "add", .extents = {{"mb", 64}, {"out", 128}}, .tensors = std::move(tensors), .slices = std::move(slices)};
}
BundleOperation good_add() { return add({tensor("arg_0"), tensor("arg_1"), tensor("arg_2")}); }
BundleOperation one_input(const std::string& op, const Extents& extents = {{"mb", 64}, {"out", 128}}) {
  return {.op = op, .extents = extents, .tensors = {tensor("arg_0"), tensor("arg_1")}};
}
BundleOperation gather() {
  BundleTensor index{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true};
  BundleTensor value = tensor("arg_1");
  value.order = {"out", "mb"};
  value.indirect = true;
  return {.op = "identity", .extents = {{"mb", 32}, {"out", 128}}, .tensors = {index, value, tensor("arg_2")}};
}
constexpr const char* kRows = "give one index for each row";
BundleOperation index_inside() {
  BundleOperation operation = gather();
  operation.tensors[0].order = {"out"};
  operation.tensors[0].stick = "out";
  return operation;
}
BundleOperation scattered(BundleOperation operation) {
  operation.tensors[1] = tensor("arg_1");
  operation.tensors[2].indirect = true;
  return operation;
}
template <typename Change>
BundleOperation changed(BundleOperation operation, const Change& change) {
  change(operation);
  return operation;
}

std::vector<Row> address_rows() {
  const BundleOperation divided = add({tensor("arg_0"), tensor("arg_1"), tensor("arg_2")}, {{"mb", 2}});
  BundleBuilder loop(2);
  loop.begin_loop("%i_0", 2);
  BundleTensor back = tensor("arg_0");
  back.loops = {{"%i_0", -4096}};
  loop.add({.op = "abs", .extents = {{"mb", 4}, {"out", 64}}, .tensors = {back, tensor("arg_1")}});
  loop.end_loop();
  const auto moved = [](const std::string& base, std::int64_t offset) {
    return changed(one_input("abs"), [&](BundleOperation& o) {
      o.tensors[0].base = base;
      o.tensors[0].offset = offset;
    });
  };
  BundleBuilder inside(4);
  inside.add(moved("arg_0", 64));
  return {
      edited_row(divided, {{"scheduleTree_/0/layoutDimOrder_", {"out", "mb"}}},
                 "Tensor0 of core 1 is given argument 0 + 4096, and the layout says argument 0 + 8192"),
      text_of_row(good_add(), "(%arg_0, ", "(%c0, ", "sdsc_0.json: 0_add Tensor0 is given a number for its address"),
      operation_row(moved("pool", 1024), "Tensor0 begins at byte 1024 of the pool, which has 1024", 1024),
      operation_row(moved("arg_0", -128), "Tensor0 begins at byte -128 of its memory, which is none from 0 to "),
      operation_row(moved("arg_0", 9'223'372'036'854'775'680), "Tensor0 begins at byte 9223372036854775680 of its"),
      builder_row("a step of a loop of -4096 bytes goes backwards", loop),
      builder_row("an address of 64 bytes is no whole number of sticks", inside)};
}

std::vector<Row> scratchpad_rows() {
  const std::map<std::string, std::uint32_t> four{{"mb", 4}};
  const BundleOperation in_scratchpads = add({scratchpad(0), tensor("arg_0"), tensor("arg_1")}, four);
  BundleOperation shuffle = one_input("shuffle");
  shuffle.tensors = {scratchpad(0), scratchpad(65536)};
  shuffle.slices = four;
  return {tensor_row(in_scratchpads, {{"scheduleTree_/0/startAddressCoreCorelet_/data_/[1, 0, 0]", "128"}}, 0,
                     "lies at another address in the scratchpad of another core"),
          tensor_row(shuffle, {{"scheduleTree_/0/coordinates_/coordInfo/mb/folds/dim_prop_attr/0/factor_", 3}}, 0,
                     "dimension mb has no 3 equal parts"),
          tensor_row(add({scratchpad(0), scratchpad(65536), scratchpad(131072)}, four),
                     {{"/coreIdToWkSlice_/1/mb", 2}, {"/coreIdToWkSlice_/2/mb", 1}}, 0,
                     "its parts are not given to cores in a regular order")};
}

std::vector<Row> meaning_rows() {
  const auto masked = [](BundleOperation operation) {
    operation.masks = {{"out", {100, 28}}};
    return operation;
  };
  BundleOperation product{
      .op = "batchmatmul",
      .extents = {{"mb", 32}, {"in", 64}, {"out", 64}},
      .tensors = {{.order = {"mb"}, .stick = "in", .base = "arg_0"}, tensor("arg_1"), tensor("arg_2")}};
  product.tensors[0].order = {"mb", "out"};
  product.tensors[0].stick = "out";
  BundleOperation prod = one_input("prod");
  prod.tensors[1].scale = {{"mb", -1}, {"out", -2}};
  BundleOperation mean = one_input("mean");
  mean.tensors[1].scale = {{"out", -2}};
  return {
      edited_row(good_add(), {{"computeOp_/0/inputLabeledDs", nlohmann::json::array()}}, "has no input"),
      operation_row(add({tensor("arg_0"), tensor("arg_1")}), "add has 1 inputs, not 2"),
      operation_row(masked(good_add()), "has a mask, and only reductions and exp know what it means"),
      operation_row(masked(one_input("sum")), "has a mask on dimension out, which it does not reduce"),
      operation_row(mean, "has no constant scaling_factor"),
      operation_row(prod, "is a product along several dimensions"),
      operation_row(product, "batchmatmul contracts 0 dimensions, not one"),
      operation_row(changed(gather(), [](BundleOperation& o) { o.op = "abs"; }),
                    "is reached through an index, and only a copy can be"),
      operation_row(changed(gather(), [](BundleOperation& o) { o.tensors.insert(o.tensors.begin(), o.tensors[0]); }),
                    "is reached through several indices"),
      operation_row(changed(gather(), [](BundleOperation& o) { o.tensors[1].indirect = false; }),
                    "has no tensor that the index selects from"),
      with_next(tensor_row(index_inside(), {}, 0, "has an index for each element along out, and what moves"), kRows),
      with_next(tensor_row(scattered(index_inside()), {}, 0, "has an index for each element along out"), kRows)};
}

std::vector<Row> size_rows() {
  BundleOperation nine = one_input("abs", {});
  for (int i = 0; i < 9; ++i) {
    nine.extents.emplace_back("d" + std::to_string(i), i == 0 ? 64 : 2);
    for (BundleTensor& of : nine.tensors) of.order = i == 0 ? std::vector<std::string>{"d0"} : of.order;
    if (i != 0) {
      for (BundleTensor& of : nine.tensors) of.order.push_back("d" + std::to_string(i));
    }
  }
  for (BundleTensor& of : nine.tensors) of.stick = "d0";
  BundleOperation eight = nine;  // without a stick dimension: pairs of exx2
  eight.op = "identity";
  for (BundleTensor& of : eight.tensors) of.scale = {{"d0", -2}};
  BundleOperation masks = one_input("exp");
  masks.constants = {{"samv-maskvalue", 0}};
  nlohmann::json five = nlohmann::json::array();
  for (int i = 0; i < 5; ++i) five.push_back({i, 1});
  BundleOperation sum = one_input("sum", {{"mb", 1u << 20}, {"out", 1u << 13}});
  sum.tensors[1].scale = {{"mb", -1}, {"out", -2}};
  BundleBuilder loops(2), tensors(121), often(2);
  for (int i = 0; i < 5; ++i) loops.begin_loop("%i_" + std::to_string(i), 2);
  loops.add(one_input("abs"));
  for (int i = 0; i < 5; ++i) loops.end_loop();
  tensors.add(one_input("abs"));
  BundleOperation maximum = one_input("max");
  maximum.tensors[1] = tensor("arg_0");
  maximum.tensors[1].scale = {{"out", -2}};
  often.add(maximum);
  Row many = with_next(builder_row("more than 4096 operations in a program", often), "compile smaller graphs");
  std::string text = often.text();
  const std::size_t line = text.find("\t\tsdscbundle.sdsc_execute"), end = text.find('\n', line) + 1;
  std::string lines;
  for (int i = 0; i < 4096; ++i) lines += text.substr(line, end - line);
  text.replace(line, end - line, lines);
  many.compile = [=] { compile_bundle(often, text); };
  many.place = "bundle.mlir:" + std::to_string(1 + std::ranges::count(text.substr(0, line), '\n') + 2048);
  std::vector<Row> rows{
      operation_row(nine, "has more than 8 dimensions"),
      operation_row(eight, ""),
      tensor_row(one_input("abs", {{"mb", 2'147'483'647}, {"out", 1u << 20}}), {}, 0,
                 "a tensor of more than 17592186044416 bytes"),
      with_next(operation_row(sum, ""), "compile smaller tensors"),
      at(builder_row("more than 4 loops in each other", loops), ""),
      with_next(at(builder_row("121 tensors, and a launch takes at most 120", tensors), "bundle.mlir"),
                "compile smaller graphs"),
      many};
  rows[1].what = "a copy between tensors with one element in each stick, along 8 dimensions";
  rows[3].what = "an intermediate result that is larger than a pool";
  const std::string looped = loops.text();
  std::size_t fifth = 0;
  for (int i = 0; i < 5; ++i) fifth = looped.find("scf.for", fifth + 1);
  rows[4].place = "bundle.mlir:" + std::to_string(1 + std::ranges::count(looped.substr(0, fifth), '\n'));
  BundleBuilder five_masks(4);
  five_masks.add(masks);
  edit(five_masks.file(0), {{"coordinateMasking_/out", five}});
  rows.push_back(builder_row("more than 4 masks", five_masks));
  return rows;
}

std::vector<Row> length_rows() {
  constexpr const char* kOther = "launch with the tensors that the bundle was compiled for";
  BundleBuilder padded(2), small(2), narrow(2), table(3), two(2);
  padded.add({.op = "ReStickifyOpHBM",
              .extents = {{"mb", 128}, {"out", 192}},
              .tensors = {{.order = {"mb", "out"}, .stick = "out", .base = "arg_0", .gap = {{"mb", 28}}},
                          {.order = {"out", "mb"}, .stick = "mb", .base = "arg_1"}}});
  small.add({.op = "ReStickifyOpHBM",
             .extents = {{"mb", 8}, {"out", 64}},
             .tensors = {{.order = {"mb", "out"}, .stick = "out", .base = "arg_0", .gap = {{"mb", 9}}},
                         {.order = {"out", "mb"}, .stick = "mb", .base = "arg_1"}}});
  narrow.add(
      {.op = "fp32todl16",
       .extents = {{"mb", 4}, {"out", 192}},
       .tensors = {{.order = {"mb", "out"}, .stick = "out", .base = "arg_0", .format = "IEEE_FP32"}, tensor("arg_1")}});
  table.add(gather());
  two.add(one_input("abs"));
  std::vector<Row> rows{
      with_next(builder_row("0_ReStickifyOpHBM Tensor0 is in argument 0, which has 38528 bytes: no whole number of "
                            "dimension mb, and an extent of 128 with a gap of 28 is 100, or 128 to 156",
                            padded, {38528, 0}),
                kOther),
      with_next(builder_row("8 of dimension mb, and an extent of 8 with a gap of 9 is 10 to 17", small, {8 * 128, 0}),
                kOther),
      with_next(builder_row("Tensor0 is in argument 0, which has 128 bytes, and needs 3072", narrow, {128, 0}), kOther),
      with_next(builder_row("Tensor1 is in argument 1, which has 128 bytes, and one row of it 256", table, {0, 128, 0}),
                kOther),
      builder_row("1 are given, and the bundle has 2 parameters", two, {128}),
      builder_row("argument 1 has 100 bytes, which is no multiple of 128 up to 16 GiB", two, {16384, 100})};
  for (std::size_t i = 4; i < 6; ++i) rows[i] = with_next(at(rows[i], "lengths"), "give the bytes of each argument");
  return rows;
}

}  // namespace

std::vector<Row> lowering_rows() {
  std::vector<Row> rows = address_rows();
  for (auto* const more : {scratchpad_rows, meaning_rows, size_rows, length_rows}) {
    for (Row& row : more()) rows.push_back(std::move(row));
  }
  return rows;
}

// ---- rules of device programs that only the checker knows ----------------------------------------------------------

std::vector<Row> program_rows() {
  BundleOperation formats = good_add(), sticks = good_add(), lost = one_input("abs");
  formats.tensors[1].format = "IEEE_FP32";
  sticks.tensors[1] = {.order = {"out", "mb"}, .stick = "mb", .base = "arg_1"};
  lost.tensors[1].scale = {{"mb", -1}};
  BundleOperation cut = add({scratchpad(0), scratchpad(65536), scratchpad(131072)}, {{"out", 4}});
  BundleOperation over = scattered(gather());
  over.tensors[1].base = over.tensors[2].base;
  over.tensors[2].order = {"out", "mb"};
  BundleOperation clip = one_input("clip");
  for (BundleTensor& of : clip.tensors) of.format = "IEEE_FP32";
  clip.constants = {{"clipMin", 0x7FC00000}};
  Row nan = edited_row(clip, {{"constantInfo_/0/dataFormat_", "IEEE_FP32"}}, "");
  nan.what = "Clip: breaks the rule 'constant' of device programs";
  BundleBuilder loop(2), pool(2, std::uint64_t{20} << 30), slices(2), slice(2), bytes(2);
  loop.begin_loop("%i_0", 4'294'967'295);
  loop.add(one_input("abs"));
  loop.end_loop();
  pool.add(one_input("abs"));
  BundleOperation large = one_input("abs");
  large.tensors[1] = scratchpad(2 * 1024 * 1024 - 128);
  slices.add(large);
  large.extents = {{"mb", 1u << 25}, {"out", 64}};  // 4 GiB
  large.tensors[1] = scratchpad(0);
  slice.add(large);
  bytes.add(one_input("abs", {{"mb", 1u << 21}, {"out", 1u << 13}}));
  const auto whole = [](const std::string& what, const BundleBuilder& builder) {
    return with_next(at(builder_row(what, builder), "bundle.mlir"), "compile smaller graphs or tensors");
  };
  std::vector<Row> rows{
      operation_row(formats, ""),
      operation_row(sticks, ""),
      operation_row(lost, ""),
      operation_row(cut, ""),
      operation_row(over, ""),
      nan,
      builder_row("is executed too often: a launch executes at most 4194304 operations, loops counted", loop)};
  const char* const what[] = {
      "sdsc_0.json: 0_add: Add, operand 1: has a format that the operation does not take",
      "sdsc_0.json: 0_add: Add, operand 1: has its sticks along another dimension than the operation takes",
      "sdsc_0.json: 0_abs: Abs, operand 0: has a dimension that the result does not have",
      "0_add: Add, operand 0: is divided among scratchpads inside of a stick",
      "0_identity: Scatter, operand 1: overlaps the result, and other elements of it are still to be read"};
  for (std::size_t i = 0; i < std::size(what); ++i) rows[i].what = what[i];
  for (Row& row : rows) row.next = kReport;
  rows.push_back(whole("the pool would have more than 14 GiB", pool));
  rows.push_back(whole("a scratchpad would need more than 2 MiB", slices));
  rows.push_back(whole("a scratchpad would need more than 2 MiB", slice));
  rows.push_back(whole("parameter %arg_0_base_addr: a launch takes at most 16 GiB for one tensor", bytes));
  return rows;
}

// ---- windows -------------------------------------------------------------------------------------------------------

namespace {

// [4, 4] windows of [3, 3] of an image of [6, 6].
BundleOperation windows(const std::string& op) {
  const auto image = [](const std::string& base) {
    return BundleTensor{.order = {"j", "i", "out"}, .stick = "out", .base = base};
  };
  BundleOperation operation{
      .op = op,
      .extents = {{"i", 4}, {"j", 4}, {"ki", 3}, {"kj", 3}, {"out", 64}},
      .tensors = {image("arg_0"), {.order = {"ki", "kj", "out"}, .stick = "out", .base = "arg_1"}, image("arg_2")},
      .windows = {{"i", {.taps = "ki", .elements = 6}}, {"j", {.taps = "kj", .elements = 6}}}};
  operation.tensors[0].windowed = {"i", "j"};
  return operation;
}
BundleOperation convolution(std::uint32_t channels) {
  BundleOperation operation = windows("conv2d");
  operation.extents.emplace_back("in", channels);
  operation.tensors[0].order = {"j", "i", "in"};
  operation.tensors[0].stick = "in";
  operation.tensors[1].order = {"in", "ki", "kj", "out"};
  return operation;
}
// One window, of so many taps along each of two dimensions.
void widen(BundleOperation& operation, std::uint32_t taps) {
  for (auto& [name, size] : operation.extents) {
    if (name == "i" || name == "j") size = 1;
    if (name == "ki" || name == "kj") size = taps;
  }
  for (auto& [name, window] : operation.windows) window.elements = taps;
}

}  // namespace

std::vector<Row> window_rows() {
  const std::string op = "depthwiseconv2dnative";
  const auto row = [&](const std::function<void(BundleOperation&)>& change, const std::string& what) {
    BundleOperation operation = windows(op);
    change(operation);
    return operation_row(operation, what);
  };
  BundleOperation second = windows(op), format = windows(op), gap = windows(op), taps = convolution(64),
                  deep = windows(op);
  second.tensors[2].windowed = {"i"};
  format.tensors[1].format = "IEEE_FP32";
  format.tensors[1].order = {"ki", "kj", "out"};
  gap.tensors[0].order = {"j", "out", "i"};
  gap.tensors[0].gap = {{"out", 64}};
  widen(taps, 1u << 13);
  widen(deep, 1u << 16);
  for (auto& [name, size] : deep.extents) {
    if (name == "out") size = 32;
  }
  for (BundleTensor& of : deep.tensors) of.format = "IEEE_FP32";
  return {row([](auto& o) { o.op = "add"; }, ""),
          row([](auto& o) { o.slices = {{"ki", 3}}; }, "divides the taps of a window, ki, among cores"),
          row([](auto& o) { o.tensors[0].base = "", o.slices = {{"i", 2}}; },
              "has windows along i, and its input is divided there among scratchpads"),
          row([](auto& o) { o.tensors[0].windowed = {"i"}; },
              "is an operation over windows, and its input is not read through each of them"),
          row([](auto& o) { o.tensors[1].order = {"ki", "out"}; }, "has a window whose taps the weight does not have"),
          tensor_row(second, {}, 2, "is read through windows"),
          tensor_row(format, {}, 1, "has another format than the input"),
          tensor_row(gap, {}, 0, "has a gap in dimension out, behind one that is read through windows"),
          operation_row(convolution(48), "contracts channels that are no whole sticks of its input"),
          operation_row(taps, "has too many taps"),
          operation_row(deep, "has too many taps")};
}

TEST(Refusals, EachBadAddressMeaningSizeAndLengthIsNamed) { expect_refused(lowering_rows()); }

TEST(Refusals, EachBadWindowIsNamed) { expect_refused(window_rows()); }

TEST(Refusals, EachRuleOfDeviceProgramsIsNamedByTheLineOfTheBundle) { expect_refused(program_rows()); }

TEST(Refusals, TheBundlesThatTheRowsChangeAreGood) {
  for (const BundleOperation& operation :
       {good_add(), one_input("abs"), gather(), windows("depthwiseconv2dnative"), convolution(64)}) {
    SCOPED_TRACE(operation.op);
    BundleBuilder builder(4);
    builder.add(operation);
    EXPECT_NO_THROW(compile_bundle(builder));
  }
}

}  // namespace refusals
