// SPDX-License-Identifier: Apache-2.0
#include "host_driver/spyrecode/hcm.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "host_driver/spyrecode/spyre_code.hpp"

namespace svp::spyrecode {
namespace {

using nlohmann::json;

const char* const kHcm = R"({"format": "1", "vdci": {"inputSym": ["0", "1"]}, "senConstants": [], "symbols": [
  {"kind": "address", "input": "0"}, {"kind": "stride", "input": "1", "axis": "1"},
  {"kind": "dimension", "input": "0", "axis": "0"}, {"kind": "partials", "input": "1"},
  {"kind": "pass", "input": "1"}]})";

std::string message_of(const json& hcm) {
  try {
    (void)parse_hcm(hcm.dump(), "hcm");
  } catch (const InvalidPlan& error) {
    return error.info().message;
  }
  return "accepted";
}

TEST(Hcm, SymbolsAreReadInOrderAndWrittenAgain) {
  const Hcm hcm = parse_hcm(kHcm, "hcm");
  EXPECT_EQ(hcm.inputs, (std::vector<std::uint32_t>{0, 1}));
  EXPECT_EQ(hcm.symbols, (std::vector<HcmSymbol>{{wire::SymbolKind::Address, 0, 0},
                                                 {wire::SymbolKind::Stride, 1, 1},
                                                 {wire::SymbolKind::Dimension, 0, 0},
                                                 {wire::SymbolKind::Partials, 1, 0},
                                                 {wire::SymbolKind::Pass, 1, 0}}));
  EXPECT_EQ(parse_hcm(to_json(hcm), "hcm"), hcm);
  EXPECT_EQ(json::parse(to_json(hcm)), json::parse(kHcm));
}

TEST(Hcm, EveryRefusalHasAMessageOfItsOwn) {
  const auto patched = [](const char* patch) { return message_of(json::parse(kHcm).patch(json::parse(patch))); };
  EXPECT_EQ(patched(R"([{"op":"remove","path":"/format"}])"), "spyrecode.json: hcm.format is missing");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/format","value":"2"}])"),
            "spyrecode.json: hcm.format is 2, this driver reads 1");
  EXPECT_EQ(patched(R"([{"op":"remove","path":"/vdci"}])"), "spyrecode.json: hcm.vdci is missing");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/vdci","value":"x"}])"), "spyrecode.json: hcm.vdci is not an object");
  EXPECT_EQ(patched(R"([{"op":"add","path":"/vdci/more","value":1}])"),
            "spyrecode.json: hcm.vdci has a member that is not known: 'more'");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/vdci/inputSym/1","value":1}])"),
            "spyrecode.json: hcm.vdci.inputSym[1] is not a text of decimal digits");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/vdci/inputSym/1","value":"124"}])"),
            "spyrecode.json: hcm.vdci.inputSym[1] is '124', more than 123");
  EXPECT_EQ(patched(R"([{"op":"remove","path":"/senConstants"}])"), "spyrecode.json: hcm.senConstants is missing");
  EXPECT_EQ(patched(R"([{"op":"add","path":"/senConstants/-","value":"1"}])"),
            "spyrecode.json: hcm.senConstants is not empty, and the corrections of this runtime have no constants");
  EXPECT_EQ(patched(R"([{"op":"remove","path":"/symbols"}])"), "spyrecode.json: hcm.symbols is missing");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/symbols/0/kind","value":"offset"}])"),
            "spyrecode.json: hcm.symbols[0].kind is none of address, stride, dimension, partials, pass");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/symbols/0/input","value":"2"}])"),
            "spyrecode.json: hcm.symbols[0].input is no index of vdci.inputSym");
  EXPECT_EQ(patched(R"([{"op":"remove","path":"/symbols/1/axis"}])"), "spyrecode.json: hcm.symbols[1].axis is missing");
  EXPECT_EQ(patched(R"([{"op":"replace","path":"/symbols/1/axis","value":"8"}])"),
            "spyrecode.json: hcm.symbols[1].axis is '8', more than 7");
  EXPECT_EQ(patched(R"([{"op":"add","path":"/symbols/0/axis","value":"0"}])"),
            "spyrecode.json: hcm.symbols[0] has a member that is not known: 'axis'");
  EXPECT_EQ(patched(R"([{"op":"add","path":"/more","value":1}])"),
            "spyrecode.json: hcm has a member that is not known: 'more'");
}

TEST(Hcm, CountsAreBounded) {
  json hcm = json::parse(kHcm);
  const json symbol = hcm["symbols"][0];
  for (std::uint32_t i = 0; i < wire::kMaxSymbols; ++i) hcm["symbols"].push_back(symbol);
  EXPECT_EQ(message_of(hcm), "spyrecode.json: hcm.symbols has more than 508 entries");
  hcm = json::parse(kHcm);
  for (std::size_t i = 0; i < kMostInputs; ++i) hcm["vdci"]["inputSym"].push_back("0");
  EXPECT_EQ(message_of(hcm), "spyrecode.json: hcm.vdci.inputSym has more than 124 entries");
}

}  // namespace
}  // namespace svp::spyrecode
