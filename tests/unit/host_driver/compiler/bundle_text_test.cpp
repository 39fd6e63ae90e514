// SPDX-License-Identifier: Apache-2.0
// bundle.mlir: what is read of it, and one refusal for each thing that can be wrong, by line.
#include "host_driver/compiler/bundle_text.hpp"

#include <gtest/gtest.h>

#include <string>

#include "host_driver/compiler/source_place.hpp"

namespace {

using namespace svp::compiler;

constexpr const char* kLoops = R"(#map_0 = affine_map<(d0, d1)[s0] -> (s0 + 4096*d0 + 16384*d1)>
// a comment
module {
	func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_2_base_addr: !sdscbundle.input_arg<index>) {
		%pool = sdscbundle.device_mem_allocate 8192 bytes : index
		%arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
		%arg_2 = sdscbundle.input_arg_extract value from %arg_2_base_addr : !sdscbundle.input_arg<index> -> index
		%c0 = arith.constant 0 : index
		%c1 = arith.constant 1 : index
		%loop_bound_0 = arith.constant 2 : index
		%loop_bound_1 = arith.constant 4 : index
		%core_offset = arith.constant 2048 : index
		%arg_2_core = arith.addi %arg_2, %core_offset : index
		scf.for %i_0 = %c0 to %loop_bound_0 step %c1 {
			scf.for %i_1 = %c0 to %loop_bound_1 step %c1 {
				%addr_0 = affine.apply #map_0(%i_0, %i_1)[%arg_2_core]
				sdscbundle.sdsc_execute (%addr_0, %pool) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -3]}
			}
		}
		sdscbundle.sdsc_execute () {"symbol_ids"=[], sdsc_filename="sdsc_1.json"}
		return
	}
}
)";

std::string refusal_of(const std::string& text) {
  try {
    (void)parse_bundle_text(text);
  } catch (const InvalidPlan& refused) {
    EXPECT_FALSE(refused.info().next_step.empty());
    return refused.info().message;
  }
  return "accepted";
}

std::string with(std::string text, const std::string& old, const std::string& replacement) {
  const auto at = text.find(old);
  EXPECT_NE(at, std::string::npos) << old;
  return text.replace(at, old.size(), replacement);
}
std::string refusal_with(const std::string& old, const std::string& replacement) {
  return refusal_of(with(kLoops, old, replacement));
}

TEST(BundleText, ParametersPoolLoopsAndAddressesAreRead) {
  const BundleText text = parse_bundle_text(kLoops);
  EXPECT_EQ(text.parameters, (std::vector<std::string>{"%arg_0_base_addr", "%arg_2_base_addr"}));
  EXPECT_EQ(text.pool_bytes, 8192u);
  ASSERT_EQ(text.body.size(), 2u);
  const auto& outer = std::get<Loop>(text.body[0].what);
  EXPECT_EQ(outer.count, 2u);
  const auto& inner = std::get<Loop>(outer.body.at(0).what);
  EXPECT_EQ(inner.count, 4u);
  const auto& first = std::get<Execution>(inner.body.at(0).what);
  EXPECT_EQ(first.sdsc_file, "sdsc_0.json");
  EXPECT_EQ(first.line, 17u);
  ASSERT_EQ(first.bindings.size(), 2u);
  EXPECT_EQ(first.bindings[0].id, -1);
  EXPECT_EQ(
      first.bindings[0].address,
      (SymbolicAddress{
          .base = SymbolicAddress::Base::Argument, .argument = 1, .offset = 2048, .loops = {{0, 4096}, {1, 16384}}}));
  EXPECT_EQ(first.bindings[1].id, -3);
  EXPECT_EQ(first.bindings[1].address.base, SymbolicAddress::Base::Pool);
  EXPECT_TRUE(std::get<Execution>(text.body[1].what).bindings.empty());
}

TEST(BundleText, BlanksAndTheOrderOfAttributesMeanNothing) {
  std::string text = kLoops;
  for (char& c : text) {
    if (c == '\t') c = ' ';
  }
  EXPECT_EQ(refusal_of(text), "accepted");
  EXPECT_EQ(refusal_with("(s0 + 4096*d0 + 16384*d1)", "(4096 * d0 + s0 + d1*16384 + 128)"), "accepted");
  EXPECT_EQ(refusal_with(", \"symbol_ids\"=[-1, -3]", ", symbol_ids = [ -1,-3 ]"), "accepted");
}

TEST(BundleText, AFunctionWithoutParametersIsOne) {
  const BundleText text = parse_bundle_text(
      "module { func.func @sdsc_bundle() { sdscbundle.sdsc_execute () {sdsc_filename=\"a\", symbol_ids=[]} return } }");
  EXPECT_TRUE(text.parameters.empty());
}

TEST(BundleText, WhatIsNoTextOfTheSubsetIsNamedByLine) {
  EXPECT_EQ(refusal_of(""), "bundle.mlir:1: 'module' is expected, and the end of the file stands there");
  EXPECT_EQ(refusal_of("module {"), "bundle.mlir:1: 'func.func' is expected, and the end of the file stands there");
  EXPECT_EQ(refusal_with("@sdsc_bundle", "@main"), "bundle.mlir:4: the function is '@main'");
  EXPECT_EQ(refusal_with("arith.addi", "arith.muli"), "bundle.mlir:13: operation 'arith.muli' is not known");
  EXPECT_EQ(refusal_with("return", "memref.dealloc"),
            "bundle.mlir:21: a statement of a bundle is expected, and 'memref.dealloc' stands there");
  EXPECT_EQ(refusal_with("8192 bytes : index", "8192 bytes : i64"),
            "bundle.mlir:5: a type is expected, and 'i64' stands there");
  EXPECT_EQ(refusal_with("!sdscbundle.input_arg<index>,", "!mlir.type<index>,"),
            "bundle.mlir:4: type '!mlir.type' is not known");
  EXPECT_EQ(refusal_of(std::string(kLoops) + "module"),
            "bundle.mlir:24: the end of the file is expected, and 'module' stands there");
  EXPECT_EQ(refusal_with("step %c1", "step ^"), "bundle.mlir:14: a character that no statement of a bundle has: '^'");
  EXPECT_EQ(refusal_with("constant 2048", "constant 0x800"), "bundle.mlir:12: '0x800' is no decimal number");
  EXPECT_EQ(refusal_with("constant 2048", "constant 99999999999999999999"),
            "bundle.mlir:12: '99999999999999999999' does not fit 64 bits");
  EXPECT_EQ(refusal_with("\"sdsc_1.json\"", "\"sdsc_1.json"),
            "bundle.mlir:20: a text without its closing quote: 'sdsc_1.json}'");
  EXPECT_EQ(refusal_with("%core_offset = ", "% = "), "bundle.mlir:12: '%' without a name");
}

TEST(BundleText, NamesAreDefinedOnceAndBeforeTheyAreUsed) {
  EXPECT_EQ(refusal_with("%arg_2, %core_offset", "%arg_3, %core_offset"),
            "bundle.mlir:13: '%arg_3' is used, and nothing defines it before");
  EXPECT_EQ(refusal_with("%loop_bound_1 = ", "%loop_bound_0 = "),
            "bundle.mlir:11: '%loop_bound_0' is defined a second time");
  EXPECT_EQ(refusal_with("affine.apply #map_0", "affine.apply #map_9"),
            "bundle.mlir:16: '#map_9' is used, and nothing defines it before");
  EXPECT_EQ(refusal_with("execute () {\"symbol_ids\"=[]", "execute (%addr_0) {\"symbol_ids\"=[-1]"),
            "bundle.mlir:20: '%addr_0' is used, and nothing defines it before")
      << "names of a loop's body end with it";
  EXPECT_EQ(refusal_with("value from %arg_0_base_addr", "value from %pool"),
            "bundle.mlir:6: '%pool' is no parameter of the function");
  EXPECT_EQ(refusal_with("%arg_2, %core_offset", "%arg_2_base_addr, %core_offset"),
            "bundle.mlir:13: '%arg_2_base_addr' is used before sdscbundle.input_arg_extract has taken its value");
  EXPECT_EQ(refusal_with("module", "#map_0 = affine_map<()[s0] -> (s0)>\nmodule"),
            "bundle.mlir:3: '#map_0' is defined a second time");
}

TEST(BundleText, LoopsBeginAtZeroAndHaveConstantBounds) {
  EXPECT_EQ(refusal_with("%i_0 = %c0", "%i_0 = %c1"), "bundle.mlir:14: a loop that does not begin at 0");
  EXPECT_EQ(refusal_with("step %c1", "step %loop_bound_0"), "bundle.mlir:14: a loop whose step is not 1");
  EXPECT_EQ(refusal_with("to %loop_bound_0", "to %arg_0"),
            "bundle.mlir:14: the loop's bound is '%arg_0', which is no constant");
  EXPECT_EQ(refusal_with("arith.constant 2 :", "arith.constant 0 :"), "bundle.mlir:14: a loop of 0 iterations");
  EXPECT_EQ(refusal_with("arith.constant 2 :", "arith.constant 4294967296 :"),
            "bundle.mlir:14: a loop of 4294967296 iterations");
}

TEST(BundleText, AddressesHaveOneBaseAndFit64Bits) {
  EXPECT_EQ(refusal_with("%arg_2, %core_offset", "%arg_2, %arg_0"),
            "bundle.mlir:13: an address with two bases, or one that does not fit 64 bits");
  EXPECT_EQ(refusal_with("(%i_0, %i_1)[%arg_2_core]", "(%arg_0, %i_1)[%c0]"),
            "bundle.mlir:16: an address with two bases, or one that does not fit 64 bits");
  EXPECT_EQ(refusal_with("4096*d0", "9223372036854775807*d0 + d0"),
            "bundle.mlir:1: a factor of the map does not fit 64 bits");
  EXPECT_EQ(refusal_with("4096*d0", "4096*d7"), "bundle.mlir:1: 'd7' is no name of this map");
}

TEST(BundleText, ExecutionsNameAPlainFileAndAValueForEachId) {
  EXPECT_EQ(refusal_with("[-1, -3]", "[-1]"), "bundle.mlir:17: 2 values and 1 symbol_ids");
  EXPECT_EQ(refusal_with("sdsc_filename=\"sdsc_0.json\", ", ""), "bundle.mlir:17: no sdsc_filename");
  for (const char* name : {"../a", "a/b", ".", "..", ""}) {
    EXPECT_TRUE(refusal_with("sdsc_0.json", name).ends_with("is no plain name of a file")) << name;
  }
  EXPECT_EQ(refusal_with("sdsc_filename=\"sdsc_0.json\"", "priority=1"),
            "bundle.mlir:17: attribute 'priority' is not known, or stands twice");
}

TEST(BundleText, WhatIsTooLargeIsRefused) {
  EXPECT_EQ(refusal_with("allocate 8192", "allocate -1"), "bundle.mlir:5: a pool of '-1' bytes");
  EXPECT_EQ(refusal_with("%c0 = arith.constant 0 : index", "%p = sdscbundle.device_mem_allocate 1 bytes : index"),
            "bundle.mlir:8: a second sdscbundle.device_mem_allocate");
  std::string nested =
      "module { func.func @sdsc_bundle() { %c0 = arith.constant 0 : index %c1 = arith.constant 1 : index\n";
  for (unsigned i = 0; i <= kMostNestedLoops; ++i) {
    nested += "scf.for %i_" + std::to_string(i) + " = %c0 to %c1 step %c1 {\n";
  }
  EXPECT_EQ(refusal_of(nested), "bundle.mlir:18: more than 16 loops in each other");
  std::string many = "module { func.func @sdsc_bundle() {\n";
  for (unsigned i = 0; i <= kMostExecutions; ++i)
    many += "sdscbundle.sdsc_execute () {sdsc_filename=\"a\", symbol_ids=[]}\n";
  EXPECT_EQ(refusal_of(many), "bundle.mlir:4098: more than 4096 executions");
  EXPECT_TRUE(
      refusal_of(std::string(kMostBundleBytes + 1, ' ')).contains("more than " + std::to_string(kMostBundleBytes)));
}

// An SDSC names the dimension: read_bundle() refuses it.
TEST(BundleText, ASizeThatOnlyTheLaunchKnowsIsReadWithItsBounds) {
  const BundleText text =
      parse_bundle_text(with(kLoops, "input_arg<index>,", "input_arg<index, granularity=16, max_value=128>,"));
  ASSERT_TRUE(text.dynamic_size);
  EXPECT_EQ(text.dynamic_size->parameter, "%arg_0_base_addr");
  EXPECT_EQ(text.dynamic_size->bounds, "granularity=16, max_value=128");
  EXPECT_EQ(text.dynamic_size->line, 4u);
  EXPECT_FALSE(parse_bundle_text(kLoops).dynamic_size);
}

}  // namespace
