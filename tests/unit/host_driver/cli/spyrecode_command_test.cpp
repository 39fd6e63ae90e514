// SPDX-License-Identifier: Apache-2.0
// spyre spyrecode make and show: what they write and print. They need no card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/Error.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host_driver/program/device_program.hpp"
#include "host_driver/runtime/execution_plan.hpp"
#include "tests/support/program_builder.hpp"
#include "tests/unit/host_driver/cli/command_output.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace cli {
namespace {

using nlohmann::json;
using testing::HasSubstr;

using test::Printed;

std::vector<std::string> spyrecode(std::vector<std::string> words) {
  words.insert(words.begin(), "spyrecode");
  return words;
}
Printed run(const std::vector<std::string>& words) { return test::run(spyrecode(words)); }
std::string refusal_of(const std::vector<std::string>& words) { return test::refusal_of(spyrecode(words)).message; }

class SpyrecodeCommand : public testing::Test {
 protected:
  SpyrecodeCommand() {
    const auto kernel = svp::test::matmul_kernel();
    const auto image = kernel->image();
    std::ofstream(path("matmul.img"), std::ios::binary)
        .write(reinterpret_cast<const char*>(image.data()), static_cast<std::streamsize>(image.size()));
    std::ofstream(path("matmul.json")) << kernel->metadata_text();
  }
  std::string path(const char* name) const { return (folder.path() / name).string(); }
  std::vector<std::string> make(std::vector<std::string> more = {}) const {
    std::vector<std::string> words{"make", path("matmul.img"), "--shapes", "M=64,N=128,K=192", "-o", path("plan")};
    words.insert(words.end(), more.begin(), more.end());
    return words;
  }

  qemu::test::TemporaryFolder folder;
};

TEST_F(SpyrecodeCommand, MakeWritesWhatShowExplains) {
  const Printed made = run(make({"--json"}));
  EXPECT_EQ(made.code, 0);
  const json files = json::parse(made.text);
  EXPECT_EQ(files["schema_version"], 1);
  ASSERT_EQ(files["files"].size(), 2u);
  for (const json& file : files["files"]) {
    EXPECT_EQ(std::filesystem::file_size(std::filesystem::path(path("plan")) / file["name"].get<std::string>()),
              file["bytes"].get<std::uintmax_t>());
  }
  const Printed shown = run({"show", path("plan"), "--json"});
  EXPECT_EQ(shown.code, 0);
  const json object = json::parse(shown.text);
  EXPECT_TRUE(object["symbolic"].get<bool>());
  EXPECT_TRUE(object["runs"].get<bool>());
  EXPECT_EQ(object["spyrecode"]["JobExecPlan"].size(), 3u);
  ASSERT_EQ(object["jobs"].size(), 1u);
  EXPECT_EQ(object["jobs"][0]["kernel"], "matmul");
  EXPECT_EQ(object["jobs"][0]["correction_bytes"], 512);
  EXPECT_EQ(object["jobs"][0]["operands"][1],
            (json{{"name", "b"}, {"access", "read"}, {"dtype", "SEN169_FP16"}, {"shape", {192, 128}}}));

  const Printed text = run({"show", path("plan")});
  EXPECT_THAT(text.text, HasSubstr("symbolic arguments on\n"));
  EXPECT_THAT(text.text, HasSubstr("ComputeOnHost    'correction', 512 bytes from 3 addresses\n"));
  EXPECT_THAT(text.text, HasSubstr("symbol 4   stride of tensor 1, axis 1\n"));
  EXPECT_THAT(text.text, HasSubstr("DataTransfer     512 bytes, 'correction' to P + 0\n"));
  EXPECT_THAT(text.text, HasSubstr("ComputeOnDevice  P + 512 'matmul'\n"));
  EXPECT_THAT(text.text, HasSubstr("tensor 2: c[M=64, N=128], SEN169_FP16, write\n"));
}

TEST_F(SpyrecodeCommand, ShowExplainsADeviceProgram) {
  svp::test::ProgramBuilder builder;
  builder.add_argument(256, wire::program::Access::Read);
  builder.add_argument(512, wire::program::Access::ReadWrite);
  builder.pool_bytes = 1024;
  svp::ExecutionPlan({svp::Job(std::make_shared<const svp::DeviceProgram>("softmax", builder.build()))})
      .write_directory(path("plan"));
  const Printed text = run({"show", path("plan")});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.text, HasSubstr("device program softmax, 0 operations, 256 bytes\n"));
  EXPECT_THAT(text.text, HasSubstr("tensor 1: 512 bytes, read_write\n"));
  const json object = json::parse(run({"show", path("plan"), "--json"}).text);
  EXPECT_TRUE(object["runs"].get<bool>());
  EXPECT_EQ(object["jobs"][0]["device_program"], "softmax");
  EXPECT_EQ(object["jobs"][0]["workspace_bytes"], 1024);
  EXPECT_EQ(object["jobs"][0]["arguments"][0], (json{{"bytes", 256}, {"access", "read"}}));
}

TEST_F(SpyrecodeCommand, WithoutSymbolicArgumentsThereIsOnlyTheComputation) {
  EXPECT_THAT(run(make({"--no-symbolic"})).text, HasSubstr("/plan/spyrecode.json\n"));
  const json object = json::parse(run({"show", path("plan"), "--json"}).text);
  EXPECT_FALSE(object["symbolic"].get<bool>());
  EXPECT_EQ(object["spyrecode"]["JobExecPlan"].size(), 1u);
}

TEST_F(SpyrecodeCommand, ADirectoryThatCannotBeRunIsExplainedAndSaysWhy) {
  run(make());
  const std::string file = path("plan") + "/spyrecode.json";
  std::ifstream in(file);
  json code = json::parse(in);
  code["JobExecPlan"][0]["properties"]["hcm"] = json::parse(R"({"vdci":{"inputSym":["0"]},"senConstants":[]})");
  std::ofstream(file) << code;
  const Printed shown = run({"show", path("plan")});
  EXPECT_EQ(shown.code, 1);
  EXPECT_THAT(shown.text, HasSubstr("hcm is not of this card\n"));
  EXPECT_THAT(shown.text,
              HasSubstr("can not be run: spyrecode.json: JobExecPlan[0].properties.hcm.format is missing\n"));
  const Printed as_json = run({"show", path("plan"), "--json"});
  EXPECT_EQ(as_json.code, 1);
  EXPECT_FALSE(json::parse(as_json.text)["runs"].get<bool>());
}

TEST_F(SpyrecodeCommand, RefusalsNameWhatIsWrong) {
  EXPECT_THAT(refusal_of({"show", path("none")}), HasSubstr("there is no directory "));
  EXPECT_EQ(refusal_of({"make", path("matmul.img"), "--shapes", "M=64", "-o", path("plan")}),
            "kernel matmul needs a positive extent for dimension K");
  EXPECT_EQ(refusal_of({"make", path("matmul.img"), "--shapes", "M=64,N", "-o", path("plan")}),
            "'N' is no DIMENSION=EXTENT");
  EXPECT_EQ(refusal_of({"make", path("matmul.img"), "--shapes", "M=6x", "-o", path("plan")}),
            "'M=6x' is no DIMENSION=EXTENT");
  EXPECT_EQ(refusal_of({"make", path("matmul.img"), "--shapes", "M=64,M=64", "-o", path("plan")}),
            "dimension M is given twice");
  EXPECT_EQ(refusal_of({"make", path("matmul.img"), "--shapes", "M=64,", "-o", path("plan")}),
            "nothing stands behind the last comma");
  EXPECT_THAT(refusal_of({"make", path("matmul"), "--shapes", "M=64", "-o", path("plan")}),
              HasSubstr("is neither a name nor a kernel image"));
  EXPECT_THAT(refusal_of({"make", path("matmul.img"), "--shapes", "M=64,N=64,K=64", "-o", path("matmul.json")}),
              HasSubstr("can not make the directory "));
  EXPECT_FALSE(std::filesystem::exists(path("plan")));
}

}  // namespace
}  // namespace cli
