// SPDX-License-Identifier: Apache-2.0
// Bad texts of bundle.mlir, and bad command lines.
#include <gtest/gtest.h>

#include "host_driver/compiler/bundle_text.hpp"
#include "host_driver/compiler/command_line.hpp"
#include "tests/unit/host_driver/compiler/refusals.hpp"

namespace refusals {

namespace {

constexpr const char* kText = R"(#map_0 = affine_map<(d0, d1)[s0] -> (s0 + 4096*d0 + 16384*d1)>
module {
  func.func @sdsc_bundle(%arg_0_base_addr: !sdscbundle.input_arg<index>, %arg_1_base_addr: !sdscbundle.input_arg<index>) {
    %pool = sdscbundle.device_mem_allocate 8192 bytes : index
    %arg_0 = sdscbundle.input_arg_extract value from %arg_0_base_addr : !sdscbundle.input_arg<index> -> index
    %arg_1 = sdscbundle.input_arg_extract value from %arg_1_base_addr : !sdscbundle.input_arg<index> -> index
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %bound = arith.constant 2 : index
    %sum = arith.addi %arg_1, %bound : index
    scf.for %i_0 = %c0 to %bound step %c1 {
      scf.for %i_1 = %c0 to %bound step %c1 {
        %addr = affine.apply #map_0(%i_0, %i_1)[%sum]
        sdscbundle.sdsc_execute (%addr, %pool) {sdsc_filename="sdsc_0.json", "symbol_ids"=[-1, -2]}
      }
    }
    return
  }
}
)";

// One change of the text, and the line that the message names.
Row text_row(const std::string& old, const std::string& replacement, unsigned line, const std::string& what) {
  return {.name = old + " -> " + replacement,
          .compile = [=] { (void)svp::compiler::parse_bundle_text(replaced(kText, old, replacement)); },
          .place = "bundle.mlir:" + std::to_string(line),
          .what = what};
}

Row whole_row(const std::string& name, const std::string& text, const std::string& place, const std::string& what) {
  return {.name = name, .compile = [=] { (void)svp::compiler::parse_bundle_text(text); }, .place = place, .what = what};
}

std::string many(unsigned count, const std::function<std::string(unsigned)>& text_of) {
  std::string text;
  for (unsigned i = 0; i < count; ++i) text += text_of(i);
  return text;
}

void add_large(std::vector<Row>& rows) {
  const std::string begin = "module { func.func @sdsc_bundle(";
  const std::string constants = "%c0 = arith.constant 0 : index %c1 = arith.constant 1 : index\n";
  rows.push_back(
      whole_row("4097 parameters",
                begin + many(4097, [](unsigned i) { return (i == 0 ? "%p" : ", %p") + std::to_string(i) + ": index"; }),
                "bundle.mlir:1", "more than 4096 parameters"));
  rows.push_back(whole_row(
      "17 loops",
      begin + ") {" + constants +
          many(17, [](unsigned i) { return "scf.for %i_" + std::to_string(i) + " = %c0 to %c1 step %c1 {\n"; }),
      "bundle.mlir:18", "more than 16 loops in each other"));
  rows.push_back(whole_row("4097 executions",
                           begin + ") {\n" +
                               many(4097,
                                    [](unsigned) {
                                      return std::string(
                                          "sdscbundle.sdsc_execute () {sdsc_filename=\"a\", symbol_ids=[]}\n");
                                    }),
                           "bundle.mlir:4098", "more than 4096 executions"));
  rows.push_back(whole_row("a text of 4 MiB and a byte", std::string((4u << 20) + 1, ' '), "bundle.mlir",
                           "has 4194305 bytes, more than 4194304"));
  rows.push_back(whole_row(
      "a map of 100000 names",
      "#m = affine_map<(" + many(100'000, [](unsigned i) { return (i == 0 ? "d" : ", d") + std::to_string(i); }),
      "bundle.mlir:1", "a map of more than 32 names"));
}

Row command_row(const std::string& name, const std::vector<std::string>& arguments, const std::string& place,
                const std::string& what) {
  return {.name = name + " " + place,
          .compile = [=] { (void)svp::compiler::parse_call(name, arguments); },
          .place = place,
          .what = what,
          .next = "dxp_standalone [--bundle] -d DIR"};
}

}  // namespace

std::vector<Row> text_rows() {
  std::vector<Row> rows{
      // ---- tokens
      text_row("step %c1", "step ^", 11, "a character that no statement of a bundle has: '^'"),
      text_row("%bound = ", "% = ", 9, "'%' without a name"),
      text_row("constant 2", "constant 99999999999999999999", 9, "'99999999999999999999' does not fit 64 bits"),
      text_row("constant 2", "constant 0x2", 9, "'0x2' is no decimal number"),
      text_row("\"symbol_ids\"=", "\"symbol_ids=", 14, "a text without its closing quote"),
      text_row("module {", "module", 3, "'{' is expected, and 'func.func' stands there"),
      {.name = "more behind the module",
       .compile = [] { (void)svp::compiler::parse_bundle_text(std::string(kText) + "module"); },
       .place = "bundle.mlir:20",
       .what = "the end of the file is expected, and 'module' stands there"},
      // ---- maps
      text_row("(d0, d1)", "(d0, 7)", 1, "a name of the map is expected, and '7' stands there"),
      text_row("(d0, d1)", "(d0, d0)", 1, "'d0' is a name of this map twice"),
      text_row("[s0]", "[d1]", 1, "'d1' is a name of this map twice"),
      text_row("4096*d0", "d1*d0", 1, "a number is expected, and 'd0' stands there"),
      text_row("4096*d0", "%x*d0", 1, "a number or a name of the map is expected, and '%x' stands there"),
      text_row("4096*d0", "4096*d7", 1, "'d7' is no name of this map"),
      text_row("4096*d0", "9223372036854775807*d0 + d0", 1, "a factor of the map does not fit 64 bits"),
      text_row("module", "#map_0 = affine_map<()[s0] -> (s0)>\nmodule", 2, "'#map_0' is defined a second time"),
      text_row("apply #map_0", "apply #map_9", 13, "'#map_9' is used, and nothing defines it before"),
      text_row("apply #map_0", "apply 7", 13, "a map (#name) is expected, and '7' stands there"),
      text_row("(%i_0, %i_1)", "(7, %i_1)", 13, "a value (%name) is expected, and '7' stands there"),
      // ---- the function and its parameters
      text_row("@sdsc_bundle", "sdsc_bundle", 3, "@sdsc_bundle is expected, and 'sdsc_bundle' stands there"),
      text_row("@sdsc_bundle", "@main", 3, "the function is '@main'"),
      text_row("(%arg_0_base_addr:", "(7:", 3, "a parameter (%name) is expected, and '7' stands there"),
      text_row("!sdscbundle.input_arg<index>,", "i64,", 3, "a type is expected, and 'i64' stands there"),
      text_row("!sdscbundle.input_arg<index>,", "!mlir.type<index>,", 3, "type '!mlir.type' is not known"),
      text_row("from %arg_0_base_addr", "from 7", 5, "a parameter (%name) is expected, and '7' stands there"),
      text_row("from %arg_0_base_addr", "from %pool", 5, "'%pool' is no parameter of the function"),
      whole_row("a size without an end",
                "module {\n func.func @sdsc_bundle(%s: !sdscbundle.input_arg<index, max_value=5", "bundle.mlir:2",
                "'>' is expected, and the end of the file stands there"),
      // ---- values
      text_row("%sum = ", "%bound = ", 10, "'%bound' is defined a second time"),
      text_row("%arg_1, %bound", "%arg_7, %bound", 10, "'%arg_7' is used, and nothing defines it before"),
      text_row("%arg_1, %bound", "%arg_1_base_addr, %bound", 10,
               "'%arg_1_base_addr' is used before sdscbundle.input_arg_extract has taken its value"),
      text_row("%arg_1, %bound", "5, %bound", 10, "a value (%name) is expected, and '5' stands there"),
      text_row("%arg_1, %bound", "%arg_1, %arg_0", 10, "an address with two bases, or one that does not fit 64 bits"),
      text_row("(%i_0, %i_1)[%sum]", "(%pool, %i_1)[%c0]", 13, "an address with two bases"),
      text_row("arith.constant 2", "7", 9, "an operation is expected, and '7' stands there"),
      text_row("constant 2", "constant %c0", 9, "a number is expected, and '%c0' stands there"),
      text_row("arith.addi", "arith.muli", 10, "operation 'arith.muli' is not known"),
      text_row("allocate 8192", "allocate %c0", 4, "a number of bytes is expected, and '%c0' stands there"),
      text_row("allocate 8192", "allocate -1", 4, "a pool of '-1' bytes"),
      text_row("%c0 = arith.constant 0 :", "%p = sdscbundle.device_mem_allocate 1 bytes :", 7,
               "a second sdscbundle.device_mem_allocate"),
      // ---- statements
      text_row("return", "memref.dealloc", 17,
               "a statement of a bundle is expected, and 'memref.dealloc' stands there"),
      text_row("scf.for %i_0", "scf.for 7", 11, "a loop variable (%name) is expected, and '7' stands there"),
      text_row("%i_0 = %c0", "%i_0 = 0", 11, "a value (%name) is expected, and '0' stands there"),
      text_row("to %bound", "to 2", 11, "a value (%name) is expected, and '2' stands there"),
      text_row("step %c1", "step 1", 11, "a value (%name) is expected, and '1' stands there"),
      text_row("%i_0 = %c0", "%i_0 = %c1", 11, "a loop that does not begin at 0"),
      text_row("step %c1", "step %bound", 11, "a loop whose step is not 1"),
      text_row("to %bound", "to %arg_0", 11, "the loop's bound is '%arg_0', which is no constant"),
      text_row("to %bound", "to %c0", 11, "a loop of 0 iterations"),
      text_row("constant 2", "constant 4294967296", 11, "a loop of 4294967296 iterations"),
      text_row("[-1, -2]", "[-1, %c0]", 14, "a symbol id is expected, and '%c0' stands there"),
      text_row("[-1, -2]", "[-1]", 14, "2 values and 1 symbol_ids"),
      text_row("{sdsc_filename", "{7=1, sdsc_filename", 14, "an attribute is expected, and '7' stands there"),
      text_row("{sdsc_filename", "{priority=1, sdsc_filename", 14,
               "attribute 'priority' is not known, or stands twice"),
      text_row("sdsc_filename=\"sdsc_0.json\"", "symbol_ids=[]", 14,
               "attribute 'symbol_ids' is not known, or stands twice"),
      text_row("\"sdsc_0.json\"", "sdsc_0", 14, "the name of a file in quotes is expected, and 'sdsc_0' stands there"),
      text_row("sdsc_0.json", "../sdsc_0.json", 14, "'../sdsc_0.json' is no plain name of a file"),
      text_row("sdsc_0.json", "..", 14, "'..' is no plain name of a file"),
      text_row("sdsc_filename=\"sdsc_0.json\", ", "", 14, "no sdsc_filename"),
  };
  add_large(rows);
  return rows;
}

std::vector<Row> command_rows() {
  const std::string dxp = "dxp_standalone", dbo = "dbo-opt";
  return {command_row(dxp, {}, "-d", "is missing"),
          command_row(dxp, {"-d"}, "-d", "names no directory"),
          command_row(dxp, {"-d", "a", "-d", "b"}, "-d", "stands twice"),
          command_row(dxp, {"-x"}, "-x", "is not known"),
          command_row(dxp, {"--disable-pass=x"}, "--disable-pass=x", "names no pass"),
          command_row(dbo, {"-x"}, "-x", "is not known"),
          command_row(dbo, {"--from-ktir"}, "--from-ktir", "KTIR is not compiled, only bundles of SDSCs are"),
          command_row(dbo, {"b.txt"}, "b.txt", "is not the one bundle.mlir"),
          command_row(dbo, {"a/bundle.mlir", "b/bundle.mlir"}, "b/bundle.mlir", "is not the one bundle.mlir"),
          command_row(dbo, {"--export-dir=o", "b/bundle.mlir"}, "-kEmitSpyreCode",
                      "is missing, and nothing else can be made"),
          command_row(dbo, {"-kEmitSpyreCode", "b/bundle.mlir"}, "--export-dir=DIR", "is missing"),
          command_row(dbo, {"--export-dir=o", "-kEmitSpyreCode"}, "DIR/bundle.mlir", "is missing")};
}

TEST(Refusals, TheTextThatTheRowsChangeIsGood) { EXPECT_NO_THROW((void)svp::compiler::parse_bundle_text(kText)); }

TEST(Refusals, EachBadTextIsNamedByItsLine) { expect_refused(text_rows()); }

TEST(Refusals, EachBadCallIsNamedByItsArgument) { expect_refused(command_rows()); }

}  // namespace refusals
