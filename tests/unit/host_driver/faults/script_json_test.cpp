// SPDX-License-Identifier: Apache-2.0
// What is refused, in which line, and why. Every refusal of a script is one row.
#include "host_driver/faults/script_json.hpp"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace svp::fault {
namespace {

struct BadScript {
  const char* name;
  const char* text;
  unsigned line;
  const char* reason;  // part of the message
};

// The lines are counted from the line that begins with {, which is the first.
const BadScript kBadScripts[] = {
    {"Empty", "", 1, "not JSON"},
    {"NotJson", "{\n  \"seed\": 1,\n  oops\n}", 3, "not JSON"},
    {"Unfinished", "{\n  \"seed\": 1,\n", 2, "not JSON"},
    {"TrailingComma", "{\"seed\": 1,\n\"faults\": [\n],\n}", 4, "not JSON"},
    {"SecondValue", "{\"faults\": []}\n{}", 2, "not JSON"},
    {"NotAnObject", "\n[]", 2, "is not an object"},
    {"NoFaults", "{\"seed\": 1}", 1, "\"faults\" is missing"},
    {"FaultsNoList", "{\"seed\": 1,\n\"faults\": {}}", 2, "\"faults\" is not a list"},
    {"FaultsEmpty", "{\"seed\": 1,\n\"faults\": []}", 2, "is empty"},
    {"UnknownKey", "{\"seed\": 1,\n\"speed\": 2}", 2, "\"speed\" is not known"},
    {"KeyTwice", "{\"seed\": 1,\n\n\"seed\": 2}", 3, "second time"},
    {"SeedNegative", "{\"seed\":\n -1,\n\"faults\": []}", 2, "\"seed\" is not a whole number"},
    {"SeedFraction", "{\"seed\": 1.5\n}", 1, "\"seed\" is not a whole number"},
    {"SeedText", "{\"seed\": \"1\"}", 1, "\"seed\" is not a whole number"},
    {"SeedNull", "{\n\"seed\": null\n}", 2, "\"seed\" is not a whole number"},
    {"SeedTooLarge", "{\"seed\": 18446744073709551616}", 1, "\"seed\" is not a whole number"},
    {"TooDeep", "[[[[[[[[[[[[[[[[[[[[[[", 1, "nested too deep"},
    {"FaultNoObject", "{\"faults\": [\n1\n]}", 2, "is not an object"},
    {"LayerMissing", "{\"faults\": [\n{\"point\": \"kill\", \"action\": \"kill\"}]}", 2, "\"layer\" is missing"},
    {"LayerUnknown", "{\"faults\": [{\n\"layer\": \"kernel\", \"point\": \"kill\", \"action\": \"kill\"}]}", 2,
     "\"kernel\" is no layer"},
    {"PointUnknown", "{\"faults\": [{\"layer\": \"emulator\",\n\"point\": \"kil\", \"action\": \"kill\"}]}", 2,
     "\"kil\" is no point of the layer \"emulator\""},
    {"PointOfAnotherLayer", "{\"faults\": [{\"layer\": \"driver\",\n\"point\": \"kill\", \"action\": \"kill\"}]}", 2,
     "no point of the layer \"driver\""},
    {"ActionUnknown", "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\",\n\"action\": \"murder\"}]}", 2,
     "\"murder\" is no action"},
    {"PairWithoutSense", "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\",\n\"action\": \"corrupt\"}]}", 2,
     "makes no sense at the point \"kill\""},
    {"ArgumentNotTaken",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\",\n\n\"argument\": 3}]}", 3,
     "\"argument\" is not taken"},
    {"ArgumentOutOfRange",
     "{\"faults\": [{\"layer\": \"driver\", \"point\": \"system-call\", \"action\": \"fail\",\n\"argument\": 5000\n}]}",
     2, "\"argument\" must be from 1 to 4095 (errno)"},
    {"ArgumentNeeded", "{\"faults\": [\n{\"layer\": \"driver\", \"point\": \"system-call\", \"action\": \"fail\"}]}", 2,
     "\"argument\" must be from 1 to 4095"},
    {"TriggerNoObject",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\",\n\"trigger\": 5}]}", 2,
     "\"trigger\" is not an object"},
    {"TriggerUnknownKey",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\",\n\"trigger\": {\n\"nth\": "
     "1}}]}",
     3, "\"nth\" is not known"},
    {"FirstZero",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\",\n\"trigger\": {\n\"first\": "
     "0\n}}]}",
     3, "\"first\" must be at least 1"},
    {"ShotsWithoutEvery",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"stop\", \"action\": \"stall\",\n\"trigger\": {\"first\": "
     "1,\n\"shots\": 2}}]}",
     3, "fires once"},
    {"ConditionUnknownThere",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\", \"trigger\":\n{\"stream\":\n "
     "1}}]}",
     3, "\"stream\" is not known at the point \"kill\""},
    {"ConditionNeeded",
     "{\"faults\": [\n\n{\"layer\": \"memory\", \"point\": \"memory\", \"action\": \"corrected\",\n\"offset\": 1, "
     "\"trigger\": {\"function\": \"VF1\"}}]}",
     3, "\"region\" is needed"},
    {"FunctionUnknown",
     "{\"faults\": [{\"layer\": \"firmware\", \"point\": \"bell\", \"action\": \"suppress\",\n\"trigger\": "
     "{\"function\": \"VF17\"}}]}",
     2, "\"function\" is no function"},
    {"FunctionNumber",
     "{\"faults\": [{\"layer\": \"firmware\", \"point\": \"bell\", \"action\": \"suppress\",\n\"trigger\": "
     "{\"function\": 1}}]}",
     2, "\"function\" is not a text"},
    {"OpcodeOfTheOtherKind",
     "{\"faults\": [{\"layer\": \"firmware\", \"point\": \"dma-step\", \"action\": \"abort\",\n\"trigger\": "
     "{\"opcode\": \"STREAM_OPEN\"}}]}",
     2, "\"opcode\" is no opcode"},
    {"CommandOfTheOtherKind",
     "{\"faults\": [{\"layer\": \"driver\", \"point\": \"admin-reply\", \"action\": \"suppress\",\n\"trigger\": "
     "{\"opcode\": \"DMA\"}}]}",
     2, "\"opcode\" is no admin command"},
    {"StreamTooLarge",
     "{\"faults\": [{\"layer\": \"transport\", \"point\": \"completion\", \"action\": \"suppress\",\n\"trigger\": "
     "{\"stream\": 4294967296}}]}",
     2, "\"stream\" is too large"},
    {"RangeBackwards",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\", \"trigger\":\n{\"first\": "
     "{\"random\": [9, 2]}}}]}",
     2, "ends before it begins"},
    {"RangeOfThree",
     "{\"faults\": [{\"layer\": \"emulator\", \"point\": \"kill\", \"action\": \"kill\", \"trigger\":\n{\"first\": "
     "{\"random\": [1, 2, 3]}}}]}",
     2, "is not [low, high]"},
    {"CoreUnknownThere",
     "{\"faults\": [{\"layer\": \"firmware\", \"point\": \"dma-step\", \"action\": \"abort\",\n\"trigger\": {\"core\": "
     "0}}]}",
     2, "\"core\" is not known at the point \"dma-step\""},
    {"ProgressUnknownThere",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel-result\", \"action\": \"corrupt\",\n\"trigger\": "
     "{\"progress\": 2}}]}",
     2, "\"progress\" is not known at the point \"kernel-result\""},
    {"WaitingUnknownThere",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel-result\", \"action\": \"corrupt\",\n\"trigger\": "
     "{\"waiting\": 1}}]}",
     2, "\"waiting\" is not known at the point \"kernel-result\""},
    {"CoreTooLarge",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"hang\", \"trigger\": {\n\"core\": "
     "64}}]}",
     2, "\"core\" must be from 0 to 63"},
    {"ProgressText",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"hang\", \"trigger\": {\n\"progress\": "
     "\"any\"}}]}",
     2, "\"progress\" is neither a number nor \"some\""},
    {"ProgressTooLarge",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"hang\", \"trigger\": {\n\"progress\": "
     "4294967294}}]}",
     2, "\"progress\" is too large"},
    {"WaitingForNone",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"hang\", \"trigger\": {\n\"waiting\": "
     "0}}]}",
     2, "\"waiting\" must be from 1 to 63"},
    {"SegmentNeeded",
     "{\"faults\": [\n{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"flip-segment\", \"argument\": 1}]}", 2,
     "\"segment\" is needed by the action \"flip-segment\""},
    {"SegmentNotTaken",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"hang\",\n\"segment\": 1}]}", 2,
     "\"segment\" is not taken by the action \"hang\""},
    {"SegmentTooLarge",
     "{\"faults\": [{\"layer\": \"core\", \"point\": \"kernel\", \"action\": \"flip-segment\",\n\"segment\": 8}]}", 2,
     "\"segment\" must be from 0 to 7"},
};

class RefusedScript : public testing::TestWithParam<BadScript> {};

TEST_P(RefusedScript, NamesTheLineAndTheReason) {
  const BadScript& bad = GetParam();
  const auto script = parse_script(bad.text, "bad.json");
  ASSERT_FALSE(script.has_value());
  const ErrorInfo& error = script.error();
  EXPECT_EQ(error.source, "bad.json:" + std::to_string(bad.line)) << describe(error);
  EXPECT_NE(error.message.find(bad.reason), std::string::npos) << describe(error);
  EXPECT_EQ(error.outcome, wire::Outcome::Rejected);
  EXPECT_FALSE(error.next_step.empty());
}

INSTANTIATE_TEST_SUITE_P(Table, RefusedScript, testing::ValuesIn(kBadScripts),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(ScriptJson, ReadsTheConditionsOfASlice) {
  const auto script = parse_script(R"({"faults": [
    {"layer": "core", "point": "kernel", "action": "flip-segment", "segment": 4, "argument": 9,
     "trigger": {"core": 1, "progress": 2, "waiting": 1}},
    {"layer": "core", "point": "kernel", "action": "hang", "trigger": {"progress": "some"}}]})")
                          .value();
  const Fault& flip = script.faults().at(0);
  EXPECT_EQ(flip.segment, 4u);
  const wire::FaultTrigger trigger = carried_out(flip.trigger, 0);
  EXPECT_EQ(trigger.core, 1u);
  EXPECT_EQ(trigger.progress, 2u);
  EXPECT_EQ(trigger.waiting, 1u);
  EXPECT_EQ(carried_out(script.faults().at(1).trigger, 0).progress, wire::kSomeProgress);
  EXPECT_EQ(carried_out({}, 0).progress, wire::kAnyProgress);
}

TEST(ScriptJson, TakesWhatHasADefaultAsLeftOut) {
  const auto script = parse_script(R"({"faults": [{"layer": "emulator", "point": "kill", "action": "kill"}]})").value();
  ASSERT_EQ(script.faults().size(), 1u);
  EXPECT_EQ(script.seed(), 1u);
  EXPECT_EQ(script.faults()[0], (Fault{.point = Point::Kill, .action = Action::Kill}));
}

TEST(ScriptJson, RefusesAFileThatIsNotThereByItsName) {
  const auto script = load_script("/nowhere/script.json");
  ASSERT_FALSE(script.has_value());
  EXPECT_NE(script.error().message.find("/nowhere/script.json"), std::string::npos);
}

TEST(ScriptJson, RefusesWhatIsTooLongInsteadOfReadingABitOfIt) {
  std::string text = R"({"faults": [{"layer": "emulator", "point": "kill", "action": "kill"}]})";
  text.append(std::size_t{1} << 20, ' ');
  const auto script = parse_script(text);
  ASSERT_FALSE(script.has_value());
  EXPECT_NE(script.error().message.find("longer than"), std::string::npos);
}

}  // namespace
}  // namespace svp::fault
