// SPDX-License-Identifier: Apache-2.0
// `spyre fault`: the exit code says what became of a script.
#include <gmock/gmock.h>

#include <fstream>
#include <set>

#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using test::Finished;
using testing::HasSubstr;

class Fault : public test::Cli {
 protected:
  Finished run_script(const std::string& text, std::vector<std::string> more = {}) {
    const auto file = runtime().parent_path() / "script.json";
    std::ofstream(file) << text;
    std::vector<std::string> words = {"fault", "run", file.string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_spyre(words);
  }
};

TEST_F(Fault, TheListHasEveryLayer) {
  const auto listed = run_spyre({"fault", "list", "--json"});
  ASSERT_EQ(listed.code, 0) << listed.output;
  const auto json = nlohmann::json::parse(listed.output);
  std::set<std::string> layers;
  for (const auto& point : json["points"]) layers.insert(point["layer"].get<std::string>());
  EXPECT_EQ(layers, (std::set<std::string>{"driver", "transport", "firmware", "core", "memory", "emulator"}));
}

TEST_F(Fault, AScriptThatFiresAndIsContainedIsZero) {
  const auto ran = run_script(R"({"seed": 5, "faults": [
    {"layer": "firmware", "point": "dma-step", "action": "abort", "trigger": {"first": 20, "function": "VF1"}},
    {"layer": "driver", "point": "allocation", "action": "fail", "trigger": {"first": 7}},
    {"layer": "transport", "point": "bell-to-card", "action": "delay", "argument": 300, "trigger": {"every": 4, "shots": 0}}
  ]})",
                              {"--json"});
  ASSERT_EQ(ran.code, 0) << ran.output;
  const auto json = nlohmann::json::parse(ran.output);
  EXPECT_EQ(json["verdict"], "OK");
  EXPECT_EQ(json["seed"], 5);
  ASSERT_EQ(json["evidence"].size(), 3u);
  for (const auto& evidence : json["evidence"]) EXPECT_GE(evidence["fired"], 1) << evidence;
  EXPECT_EQ(json["workloads"][0]["outcomes"]["FAULT: transfer aborted by the DMA engine"], 1) << ran.output;
  EXPECT_EQ(json["workloads"][1]["outcomes"].size(), 1u) << "the neighbour saw nothing of it\n" << ran.output;
}

TEST_F(Fault, AScriptThatDoesNotFireIsInvalidAndFour) {
  const auto ran = run_script(R"({"faults": [
    {"layer": "firmware", "point": "dma-step", "action": "abort", "trigger": {"first": 1000000000}}]})",
                              {"--seconds", "1"});
  EXPECT_EQ(ran.code, 4) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("INVALID"));
  EXPECT_THAT(ran.output, HasSubstr("did not fire"));
}

TEST_F(Fault, AScriptThatIsRefusedIsTwoAndNamesTheLine) {
  const auto ran =
      run_script("{\"faults\": [\n\n{\"layer\": \"firmware\", \"point\": \"dma-stop\", \"action\": \"abort\"}]}");
  EXPECT_EQ(ran.code, 2) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("line 3"));
  EXPECT_THAT(ran.output, HasSubstr("dma-stop"));
  EXPECT_EQ(run_spyre({"fault", "run", "/nowhere.json"}).code, 2);
}

TEST_F(Fault, AResultThatIsWrongAndWasNotNoticedIsOne) {
  const auto ran = run_script(R"({"faults": [
    {"layer": "core", "point": "kernel-result", "action": "corrupt", "argument": 200,
     "trigger": {"first": 3, "function": "VF1"}}]})");
  EXPECT_EQ(ran.code, 1) << ran.output;
  EXPECT_THAT(ran.output, HasSubstr("FAILED"));
}

}  // namespace
}  // namespace svp
