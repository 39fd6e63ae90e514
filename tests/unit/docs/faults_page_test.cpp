// SPDX-License-Identifier: Apache-2.0
// docs/faults.md: its example is a script that loads, and every host-side point stands in its table.
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "host_driver/faults/script_json.hpp"

namespace svp::fault {
namespace {

std::string page() {
  std::ifstream in(SPYRE_SOURCE_DIR "/docs/faults.md");
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST(FaultsPage, ItsExampleIsAScriptThatLoads) {
  const std::string text = page();
  const std::string fence = "```json\n";
  const std::size_t begin = text.find(fence);
  ASSERT_NE(begin, std::string::npos);
  const std::size_t from = begin + fence.size();
  const auto script = parse_script(text.substr(from, text.find("```", from) - from));
  ASSERT_TRUE(script.has_value()) << describe(script.error());
  EXPECT_GE(script->faults().size(), 5u);
}

TEST(FaultsPage, EveryHostSidePointHasARow) {
  const std::string text = page();
  for (const PointRule& rule : catalogue()) {
    if (home_of(rule.point) == Home::Card) continue;
    const std::string layer = "| " + std::string(svp::name(rule.layer)) + " | ";
    bool found = false;
    for (std::size_t at = text.find(layer); at != std::string::npos; at = text.find(layer, at + 1)) {
      const std::string row = text.substr(at, text.find('\n', at) - at);
      found = found || row.find("`" + std::string(rule.name) + "`") != std::string::npos;
    }
    EXPECT_TRUE(found) << rule.name;
  }
}

}  // namespace
}  // namespace svp::fault
