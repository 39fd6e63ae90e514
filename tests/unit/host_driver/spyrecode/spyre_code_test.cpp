// SPDX-License-Identifier: Apache-2.0
// spyrecode.json: what is read, what is written, and the message of every refusal, word for word.
#include "host_driver/spyrecode/spyre_code.hpp"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

namespace svp::spyrecode {
namespace {

using nlohmann::json;

// As a compiler for the card of the original writes it, with symbolic arguments.
const char* const kSymbolic = R"({"JobPreparationPlan":[
  {"command":"Allocate","properties":{"size":"16384"}},
  {"command":"InitTransfer","properties":{"init_bin_file":"init_binary.bin","dev_ptr":"120259084416","size":"4096"}}],
 "JobExecPlan":[
  {"command":"ComputeOnHost","properties":{"ihandle":"","ishape":["3"],"ohandle":"corr","size":"128",
    "hcm":{"vdci":{"inputSym":["0","1","2"]},"senConstants":[]}}},
  {"command":"DataTransfer","properties":{"dirn":"false","host_handle":"corr","dev_ptr":"120259084288","size":"128"}},
  {"command":"ComputeOnDevice","properties":{"job_bin_ptr":"120259084416","name":"0_add"}}]})";

std::string message_of(const std::string& text) {
  try {
    (void)parse(text);
  } catch (const InvalidPlan& error) {
    EXPECT_FALSE(error.field().empty());
    EXPECT_FALSE(error.info().next_step.empty());
    return error.info().message;
  }
  return "accepted";
}

TEST(SpyreCode, TheFormOfTheOriginalIsRead) {
  const SpyreCode code = parse(kSymbolic);
  EXPECT_EQ(code.allocate_bytes, 16384u);
  ASSERT_EQ(code.init.size(), 1u);
  EXPECT_EQ(code.init[0].file, "init_binary.bin");
  EXPECT_EQ(code.init[0].dev_ptr, kProgramBase + 128);
  EXPECT_EQ(code.init[0].size, 4096u);
  ASSERT_EQ(code.exec.size(), 3u);
  const auto& host = std::get<ComputeOnHost>(code.exec[0]);
  EXPECT_EQ(host.ohandle, "corr");
  EXPECT_EQ(host.size, 128u);
  EXPECT_EQ(address_count(host), 3u);
  EXPECT_EQ(json::parse(host.hcm)["vdci"]["inputSym"].size(), 3u);
  const auto& transfer = std::get<DataTransfer>(code.exec[1]);
  EXPECT_EQ(transfer.direction, TransferDirection::ToDevice);
  EXPECT_EQ(transfer.dev_ptr, kProgramBase);
  EXPECT_EQ(std::get<ComputeOnDevice>(code.exec[2]).name, "0_add");
}

TEST(SpyreCode, WithoutSymbolicArgumentsThereIsOnlyTheComputation) {
  json file = json::parse(kSymbolic);
  file["JobExecPlan"] = json::parse(R"([{"command":"ComputeOnDevice","properties":{"job_bin_ptr":"120259084416"}}])");
  const SpyreCode code = parse(file.dump());
  ASSERT_EQ(code.exec.size(), 1u);
  EXPECT_TRUE(std::get<ComputeOnDevice>(code.exec[0]).name.empty());
}

TEST(SpyreCode, OtherMembersAreIgnored) {
  json file = json::parse(kSymbolic);
  file["Version"] = 7;
  file["JobExecPlan"][2]["comment"] = "x";
  file["JobExecPlan"][2]["properties"]["priority"] = json::array();
  EXPECT_EQ(message_of(file.dump()), "accepted");
}

TEST(SpyreCode, WhatIsWrittenIsReadAgain) {
  const SpyreCode code = parse(kSymbolic);
  const std::string text = to_json(code);
  EXPECT_EQ(to_json(parse(text)), text);
  EXPECT_EQ(json::parse(text), json::parse(kSymbolic));
}

struct Refusal {
  const char* patch;  // JSON patch of kSymbolic
  const char* message;
};

class SpyreCodeRefusals : public testing::TestWithParam<Refusal> {};

TEST_P(SpyreCodeRefusals, HaveAMessageOfTheirOwn) {
  EXPECT_EQ(message_of(json::parse(kSymbolic).patch(json::parse(GetParam().patch)).dump()), GetParam().message);
}

#define PREPARATION "spyrecode.json: JobPreparationPlan"
#define EXECUTION "spyrecode.json: JobExecPlan"
#define REMOVE(path) R"([{"op":"remove","path":")" path R"("}])"
#define REPLACE(path, value) R"([{"op":"replace","path":")" path R"(","value":)" value R"(}])"
#define ADD(path, value) R"([{"op":"add","path":")" path R"(","value":)" value R"(}])"

const Refusal kFileRefusals[] = {
    {REPLACE("", "[]"), "spyrecode.json is not an object"},
    {REMOVE("/JobPreparationPlan"), PREPARATION " is missing"},
    {REMOVE("/JobExecPlan"), EXECUTION " is missing"},
    {REPLACE("/JobExecPlan", "7"), EXECUTION " is not a list"},
    {REPLACE("/JobExecPlan", "[]"), EXECUTION " has no ComputeOnDevice"},
    {REPLACE("/JobExecPlan/0", "\"ComputeOnHost\""), EXECUTION "[0] is not an object"},
    {REMOVE("/JobExecPlan/0/command"), EXECUTION "[0].command is missing"},
    {REPLACE("/JobExecPlan/0/command", "3"), EXECUTION "[0].command is not a text"},
    {REMOVE("/JobExecPlan/0/properties"), EXECUTION "[0].properties is missing"},
    {REPLACE("/JobExecPlan/0/properties", "[]"), EXECUTION "[0].properties is not an object"},
};
INSTANTIATE_TEST_SUITE_P(File, SpyreCodeRefusals, testing::ValuesIn(kFileRefusals));

const Refusal kPreparationRefusals[] = {
    {REMOVE("/JobPreparationPlan/1"), PREPARATION " has 1 entry; Allocate and at least one InitTransfer are needed"},
    {REPLACE("/JobPreparationPlan", "[]"),
     PREPARATION " has 0 entries; Allocate and at least one InitTransfer are needed"},
    {REPLACE("/JobPreparationPlan/0/command", "\"InitTransfer\""), PREPARATION "[0].command is not Allocate"},
    {REPLACE("/JobPreparationPlan/1/command", "\"Allocate\""),
     PREPARATION "[1] is a second Allocate; one stands at the front"},
    {REPLACE("/JobPreparationPlan/1/command", "\"Initialise\""),
     PREPARATION "[1].command is unknown here; behind Allocate come InitTransfer only"},
    {REMOVE("/JobPreparationPlan/0/properties/size"), PREPARATION "[0].properties.size is missing"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "16384"),
     PREPARATION "[0].properties.size is not a text of decimal digits"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"0x4000\""),
     PREPARATION "[0].properties.size is '0x4000', not a text of decimal digits"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"+16384\""),
     PREPARATION "[0].properties.size is '+16384', not a text of decimal digits"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"-1\""),
     PREPARATION "[0].properties.size is '-1', not a text of decimal digits"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"16384 \""),
     PREPARATION "[0].properties.size is '16384 ', not a text of decimal digits"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"\""),
     PREPARATION "[0].properties.size is '', not a text of decimal digits"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"99999999999999999999\""),
     PREPARATION "[0].properties.size is '99999999999999999999', more than 17179869184"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"17179869185\""),
     PREPARATION "[0].properties.size is '17179869185', more than 17179869184"},
    {REPLACE("/JobPreparationPlan/0/properties/size", "\"0\""), PREPARATION "[0].properties.size is 0"},
    {REMOVE("/JobPreparationPlan/1/properties/init_bin_file"), PREPARATION "[1].properties.init_bin_file is missing"},
    {REPLACE("/JobPreparationPlan/1/properties/init_bin_file", "\"\""),
     PREPARATION "[1].properties.init_bin_file is empty"},
    {REPLACE("/JobPreparationPlan/1/properties/init_bin_file", "\"a\\u001bb\""),
     PREPARATION "[1].properties.init_bin_file has a character that is not printable"},
    {REMOVE("/JobPreparationPlan/1/properties/dev_ptr"), PREPARATION "[1].properties.dev_ptr is missing"},
    {REPLACE("/JobPreparationPlan/1/properties/dev_ptr", "\"120259084417\""),
     PREPARATION "[1].properties.dev_ptr is 120259084417, not a multiple of 128"},
    {REPLACE("/JobPreparationPlan/1/properties/dev_ptr", "\"128\""),
     PREPARATION "[1].properties.dev_ptr is 128, outside of the program segment [120259084288, 137438953472)"},
    {REPLACE("/JobPreparationPlan/1/properties/dev_ptr", "\"137438953472\""),
     PREPARATION "[1].properties.dev_ptr is 137438953472, outside of the program segment [120259084288, 137438953472)"},
    {REPLACE("/JobPreparationPlan/1/properties/size", "\"16384\""),
     PREPARATION "[1].properties.dev_ptr is at byte 128: 16384 bytes from there exceed the allocation of 16384"},
    {REPLACE("/JobPreparationPlan/1/properties/size", "\"0\""), PREPARATION "[1].properties.size is 0"},
    {ADD("/JobPreparationPlan/-",
         R"({"command":"InitTransfer","properties":{"init_bin_file":"b","dev_ptr":"120259088384","size":"256"}})"),
     PREPARATION "[2].properties.dev_ptr overlaps the bytes of JobPreparationPlan[1]"},
};
INSTANTIATE_TEST_SUITE_P(Preparation, SpyreCodeRefusals, testing::ValuesIn(kPreparationRefusals));

const Refusal kHostRefusals[] = {
    {REMOVE("/JobExecPlan/0/properties/ohandle"), EXECUTION "[0].properties.ohandle is missing"},
    {REPLACE("/JobExecPlan/0/properties/ohandle", "\"\""), EXECUTION "[0].properties.ohandle is empty"},
    {REMOVE("/JobExecPlan/0/properties/ihandle"), EXECUTION "[0].properties.ihandle is missing"},
    {REPLACE("/JobExecPlan/0/properties/ihandle", "\"other\""),
     EXECUTION "[0].properties.ihandle names a buffer that no step before it made"},
    {REMOVE("/JobExecPlan/0/properties/ishape"), EXECUTION "[0].properties.ishape is missing"},
    {REPLACE("/JobExecPlan/0/properties/ishape", "\"3\""), EXECUTION "[0].properties.ishape is not a list"},
    {REPLACE("/JobExecPlan/0/properties/ishape", "[]"),
     EXECUTION "[0].properties.ishape is empty; [\"0\"] says that no address is needed"},
    {REPLACE("/JobExecPlan/0/properties/ishape/0", "3"),
     EXECUTION "[0].properties.ishape[0] is not a text of decimal digits"},
    {REMOVE("/JobExecPlan/0/properties/size"), EXECUTION "[0].properties.size is missing"},
    {REPLACE("/JobExecPlan/0/properties/size", "\"1048577\""),
     EXECUTION "[0].properties.size is '1048577', more than 1048576"},
    {REMOVE("/JobExecPlan/0/properties/hcm"), EXECUTION "[0].properties.hcm is missing"},
    {REPLACE("/JobExecPlan/0/properties/hcm", "\"x\""), EXECUTION "[0].properties.hcm is not an object"},
    {R"([{"op":"copy","from":"/JobExecPlan/0","path":"/JobExecPlan/2"}])",
     EXECUTION "[2].properties.ohandle names a buffer that exists already"},
};
INSTANTIATE_TEST_SUITE_P(ComputeOnHost, SpyreCodeRefusals, testing::ValuesIn(kHostRefusals));

const Refusal kTransferRefusals[] = {
    {REMOVE("/JobExecPlan/1/properties/dirn"), EXECUTION "[1].properties.dirn is missing"},
    {REPLACE("/JobExecPlan/1/properties/dirn", "false"), EXECUTION "[1].properties.dirn is not a text"},
    {REPLACE("/JobExecPlan/1/properties/dirn", "\"0\""),
     EXECUTION "[1].properties.dirn is neither \"false\" (to the device) nor \"true\" (from it)"},
    {REMOVE("/JobExecPlan/1/properties/host_handle"), EXECUTION "[1].properties.host_handle is missing"},
    {REPLACE("/JobExecPlan/1/properties/host_handle", "\"other\""),
     EXECUTION "[1].properties.host_handle names a buffer that no step before it made"},
    {REPLACE("/JobExecPlan/1/properties/size", "\"256\""),
     EXECUTION "[1].properties.size is 256, and the buffer has 128 bytes"},
    {REPLACE("/JobExecPlan/1/properties/dev_ptr", "\"120259084289\""),
     EXECUTION "[1].properties.dev_ptr is 120259084289, not a multiple of 128"},
    {REPLACE("/JobExecPlan/1/properties/dev_ptr", "\"120259100672\""),
     EXECUTION "[1].properties.dev_ptr is at byte 16384: 128 bytes from there exceed the allocation of 16384"},
    {REPLACE("/JobExecPlan/1/properties/dev_ptr", "\"120259084416\""),
     EXECUTION "[1].properties.dev_ptr overlaps the bytes of JobPreparationPlan[1]"},
};
INSTANTIATE_TEST_SUITE_P(DataTransfer, SpyreCodeRefusals, testing::ValuesIn(kTransferRefusals));

const Refusal kComputeRefusals[] = {
    {REMOVE("/JobExecPlan/2/properties/job_bin_ptr"), EXECUTION "[2].properties.job_bin_ptr is missing"},
    {REPLACE("/JobExecPlan/2/properties/job_bin_ptr", "\"120259084420\""),
     EXECUTION "[2].properties.job_bin_ptr is 120259084420, not a multiple of 128"},
    {REPLACE("/JobExecPlan/2/properties/job_bin_ptr", "\"0\""),
     EXECUTION "[2].properties.job_bin_ptr is 0, outside of the program segment [120259084288, 137438953472)"},
    {REPLACE("/JobExecPlan/2/properties/job_bin_ptr", "\"120259100672\""),
     EXECUTION "[2].properties.job_bin_ptr is at byte 16384: 128 bytes from there exceed the allocation of 16384"},
    {REPLACE("/JobExecPlan/2/properties/job_bin_ptr", "\"120259084288\""),
     EXECUTION "[2].properties.job_bin_ptr points to no byte that an InitTransfer brings"},
    {REPLACE("/JobExecPlan/2/properties/name", "1"), EXECUTION "[2].properties.name is not a text"},
    {REPLACE("/JobExecPlan/2/command", "\"Compute\""),
     EXECUTION "[2].command is unknown; an entry is a ComputeOnHost, a DataTransfer or a ComputeOnDevice"},
};
INSTANTIATE_TEST_SUITE_P(ComputeOnDevice, SpyreCodeRefusals, testing::ValuesIn(kComputeRefusals));

const Refusal kOrderRefusals[] = {
    {REMOVE("/JobExecPlan/1"), EXECUTION "[0] is a ComputeOnHost, and no DataTransfer to the device stands behind it"},
    {REPLACE("/JobExecPlan/1/properties/dirn", "\"true\""),
     EXECUTION "[0] is a ComputeOnHost, and no DataTransfer to the device stands behind it"},
    {R"([{"op":"copy","from":"/JobExecPlan/1","path":"/JobExecPlan/2"}])",
     EXECUTION "[2] is a DataTransfer; behind JobExecPlan[0], a ComputeOnHost, and its DataTransfer come "
               "ComputeOnDevice only"},
    {REMOVE("/JobExecPlan/2"), EXECUTION " has no ComputeOnDevice"},
};
INSTANTIATE_TEST_SUITE_P(Order, SpyreCodeRefusals, testing::ValuesIn(kOrderRefusals));

TEST(SpyreCode, ATextThatIsNoJsonIsRefused) {
  EXPECT_EQ(message_of(""), "spyrecode.json is not JSON");
  EXPECT_EQ(message_of("{\"JobPreparationPlan\":"), "spyrecode.json is not JSON");
  EXPECT_EQ(message_of(std::string(kSymbolic) + "x"), "spyrecode.json is not JSON");
  EXPECT_EQ(message_of("{\"a\\tb\":1,\"a\\tb\":2}"), "spyrecode.json has the key 'a?b' twice in an object");
}

TEST(SpyreCode, LengthDepthAndCountsAreBounded) {
  EXPECT_EQ(message_of(std::string(kMostFileBytes + 1, ' ')), "spyrecode.json is longer than 1048576 bytes");
  EXPECT_EQ(message_of(std::string(100'000, '[')), "spyrecode.json is nested deeper than 16 levels");
  json file = json::parse(kSymbolic);
  const json compute = file["JobExecPlan"][2];
  for (std::size_t i = 0; i < kMostSteps; ++i) file["JobExecPlan"].push_back(compute);
  EXPECT_EQ(message_of(file.dump()), "spyrecode.json: JobExecPlan has more than 256 entries");
  file = json::parse(kSymbolic);
  const json init = file["JobPreparationPlan"][1];
  for (std::size_t i = 0; i < kMostPreparations; ++i) file["JobPreparationPlan"].push_back(init);
  EXPECT_EQ(message_of(file.dump()), "spyrecode.json: JobPreparationPlan has more than 256 entries");
  file = json::parse(kSymbolic);
  file["JobExecPlan"][2]["properties"]["name"] = std::string(256, 'n');
  EXPECT_EQ(message_of(file.dump()), "spyrecode.json: JobExecPlan[2].properties.name is longer than 255 bytes");
}

TEST(SpyreCode, ATransferOfAnotherBufferThanTheFirstOneIsRefused) {
  json file = json::parse(kSymbolic);
  json other = file["JobExecPlan"][0];
  other["properties"]["ohandle"] = "other";
  file["JobExecPlan"] = {file["JobExecPlan"][0], other, file["JobExecPlan"][1], file["JobExecPlan"][2]};
  EXPECT_EQ(message_of(file.dump()),
            "spyrecode.json: JobExecPlan[0] is a ComputeOnHost, and no DataTransfer to the device stands behind it");
}

}  // namespace
}  // namespace svp::spyrecode
