// SPDX-License-Identifier: Apache-2.0
// spyre sdsc explain, check and run: what they print, and what they compute on the golden model. They need no card.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "host_driver/cli/npy_file.hpp"
#include "tests/support/bundle_builder.hpp"
#include "tests/unit/host_driver/cli/command_output.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace cli {
namespace {

using nlohmann::json;
using svp::DataType;
using ::test::BundleBuilder;
using ::test::BundleTensor;
using test::Printed;
using testing::HasSubstr;

std::vector<std::string> sdsc(std::vector<std::string> words) {
  words.insert(words.begin(), "sdsc");
  return words;
}
Printed run(const std::vector<std::string>& words) { return test::run(sdsc(words)); }
std::string refusal_of(const std::vector<std::string>& words) { return test::refusal_of(sdsc(words)).message; }

BundleTensor tensor(const std::string& base) { return {.order = {"mb", "out"}, .stick = "out", .base = base}; }

class SdscCommand : public testing::Test {
 protected:
  // arg_2 = arg_0 + arg_1, [4, 70] padded to two sticks; then the scratchpad takes part, in a loop.
  SdscCommand() {
    BundleBuilder builder(3, 4096);
    builder.add({.op = "add",
                 .extents = {{"mb", 4}, {"out", 128}},
                 .tensors = {tensor("arg_0"), tensor("arg_1"), tensor("arg_2")},
                 .slices = {{"mb", 2}}});
    write("add", builder);
  }
  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  void write(const std::string& name, const BundleBuilder& builder) {
    const std::filesystem::path directory = folder.path() / name;
    std::filesystem::create_directory(directory);
    std::ofstream(directory / "bundle.mlir") << builder.text();
    for (const auto& [file, content] : builder.files()) std::ofstream(directory / file) << content;
  }
  // Row-major [4, 70] of numbers that fp16 and DL16 hold.
  std::string halves(const std::string& name, float factor) {
    std::vector<_Float16> values(280);
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<_Float16>(factor * static_cast<float>(i));
    NpyArray array{.dtype = DataType::Float16, .size = {4, 70}, .bytes = std::vector<std::byte>(560)};
    std::memcpy(array.bytes.data(), values.data(), 560);
    write_npy(path(name), array);
    return path(name);
  }
  static std::vector<float> values_of(const NpyArray& array) {
    std::vector<float> values(array.bytes.size() / 2);
    for (std::size_t i = 0; i < values.size(); ++i) {
      _Float16 half;
      std::memcpy(&half, array.bytes.data() + 2 * i, 2);
      values[i] = static_cast<float>(half);
    }
    return values;
  }

  qemu::test::TemporaryFolder folder;
};

TEST_F(SdscCommand, ExplainNamesArgumentsStatementsAndTensors) {
  const Printed printed = run({"explain", path("add")});
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.text, HasSubstr("1024 bytes, read\n"));
  EXPECT_THAT(printed.text, HasSubstr("1024 bytes, write\n"));
  EXPECT_THAT(printed.text, HasSubstr("pool     4096 bytes\n"));
  EXPECT_THAT(printed.text, HasSubstr(": add of sdsc_0.json, 2 cores\n"));
  EXPECT_THAT(printed.text, HasSubstr("mb 4 (2 slices of 2), out 128\n"));
  EXPECT_THAT(printed.text, HasSubstr("at arg1, DL16 [out 128 in sticks of 64 step 512, mb 4 step 128]\n"));
  EXPECT_THAT(printed.text, testing::Not(HasSubstr("device program")));
}

TEST_F(SdscCommand, ExplainShowsLoopsScratchpadsMasksConstantsAndTheProgram) {
  BundleBuilder builder(2);
  builder.begin_loop("%i_0", 3);
  BundleTensor from = tensor("arg_0"), scratchpad = tensor(""), result = tensor("arg_1");
  from.loops["%i_0"] = 1024;
  scratchpad.offset = 2048;
  builder.add({.op = "exp",
               .extents = {{"mb", 4}, {"out", 128}},
               .tensors = {from, scratchpad},
               .constants = {{"samv-maskvalue", 0xFFFF}},
               .masks = {{"out", {100, 28}}}});
  result.scale["out"] = -2;
  result.loops["%i_0"] = 512;
  builder.add({.op = "sum", .extents = {{"mb", 4}, {"out", 128}}, .tensors = {scratchpad, result}});
  builder.end_loop();
  write("loop", builder);
  const Printed printed = run({"explain", path("loop"), "--program"});
  EXPECT_EQ(printed.code, 0);
  EXPECT_THAT(printed.text, HasSubstr("loop i0 of 3 iterations\n"));
  EXPECT_THAT(printed.text, HasSubstr("at arg0 + 1024 i0, "));
  EXPECT_THAT(printed.text, HasSubstr("at lx 2048, "));
  EXPECT_THAT(printed.text, HasSubstr("masked  out from 100, 28 elements\n"));
  EXPECT_THAT(printed.text, HasSubstr("constant samv-maskvalue = "));
  EXPECT_THAT(printed.text, HasSubstr("out lane 0 of a stick"));
  EXPECT_THAT(printed.text, HasSubstr("Sum [4, 128] along 1 of scratchpad + 2048 DL16 -> arg1 + 512 i0 DL16"));
}

// An addition of tensors in two formats: what stands in the bundle is shown, then why it is no program.
TEST_F(SdscCommand, ExplainShowsABundleThatTheCompilerRefuses) {
  BundleBuilder builder(3);
  BundleTensor single = tensor("arg_1");
  single.format = "IEEE_FP32";
  builder.add(
      {.op = "add", .extents = {{"mb", 4}, {"out", 128}}, .tensors = {tensor("arg_0"), single, tensor("arg_2")}});
  write("refused", builder);
  const Printed printed = run({"explain", path("refused"), "--program"});
  EXPECT_EQ(printed.code, 1);
  EXPECT_THAT(printed.text, HasSubstr("input   Tensor1 at arg1, FP32 [out 128 in sticks of 32"));
  EXPECT_THAT(printed.text, HasSubstr("\nrefused: "));
  EXPECT_THAT(printed.text, HasSubstr("\nnext: "));
  EXPECT_THAT(printed.text, testing::Not(HasSubstr("workspace")));
}

TEST_F(SdscCommand, CheckAcceptsOrSaysWhatIsWrongWhere) {
  EXPECT_EQ(run({"check", path("add")}).text, "accepted: 3 arguments, 1 operations\n");
  const Printed accepted = run({"check", path("add"), "--json"});
  EXPECT_EQ(accepted.code, 0);
  EXPECT_EQ(json::parse(accepted.text)["operations"], 1);
  std::ofstream(path("add") + "/sdsc_0.json") << "{}";
  const Printed refused = run({"check", path("add")});
  EXPECT_EQ(refused.code, 1);
  EXPECT_THAT(refused.text, HasSubstr("refused: sdsc_0.json"));
  EXPECT_THAT(refused.text, HasSubstr("\nnext: "));
  const Printed as_json = run({"check", path("add"), "--json"});
  EXPECT_EQ(as_json.code, 1);
  const json object = json::parse(as_json.text);
  EXPECT_EQ(object["accepted"], false);
  EXPECT_THAT(object["error"]["message"], HasSubstr("sdsc_0.json"));
  EXPECT_THAT(run({"check", path("nowhere")}).text, HasSubstr("there is no directory"));
}

TEST_F(SdscCommand, RunAddsTensorsOfTheHost) {
  const Printed printed =
      run({"run", path("add"), "--arg", "0=" + halves("a.npy", 1), "--arg", "1=" + halves("b.npy", 0.5F), "--out",
           "2=" + path("c.npy"), "--as", "2=float16:4x70", "--json"});
  EXPECT_EQ(printed.code, 0);
  const json report = json::parse(printed.text);
  EXPECT_EQ(report["device"], "the golden model");
  EXPECT_EQ(report["outputs"][0]["shape"], json::array({4, 70}));
  const NpyArray result = read_npy(path("c.npy"));
  EXPECT_EQ(result.dtype, DataType::Float16);
  const std::vector<float> values = values_of(result);
  ASSERT_EQ(values.size(), 280u);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], 1.5F * static_cast<float>(i)) << i;
}

// Type and shape of an argument that is given are those of what is written.
TEST_F(SdscCommand, RunWritesAnArgumentAsItWasGiven) {
  const Printed printed =
      run({"run", path("add"), "--arg", "0=" + halves("a.npy", 1), "--arg", "1=" + halves("b.npy", 1), "--arg",
           "2=" + halves("c.npy", 0), "--out", "2=" + path("c.npy"), "--out", "0=" + path("again.npy")});
  EXPECT_EQ(printed.text, "executed on the golden model\nargument 0: float16 [4,70] in " + path("again.npy") +
                              "\nargument 2: float16 [4,70] in " + path("c.npy") + "\n");
  EXPECT_EQ(read_npy(path("again.npy")).bytes, read_npy(path("a.npy")).bytes);
  EXPECT_EQ(values_of(read_npy(path("c.npy")))[69], 138);
}

TEST_F(SdscCommand, RunTakesAndWritesBytesOfTheCard) {
  NpyArray bytes{.dtype = DataType::Uint8, .size = {1024}, .bytes = std::vector<std::byte>(1024)};
  bytes.bytes[128 + 1] = std::byte{0x3E};  // 1.0 in DL16, row 1, column 0
  write_npy(path("a.npy"), bytes);
  EXPECT_EQ(run({"run", path("add"), "--arg", "0=" + path("a.npy"), "--arg", "1=" + path("a.npy"), "--out",
                 "2=" + path("c.npy")})
                .code,
            0);
  const NpyArray result = read_npy(path("c.npy"));
  EXPECT_EQ(result.dtype, DataType::Uint8);
  ASSERT_EQ(result.bytes.size(), 1024u);
  EXPECT_EQ(result.bytes[128 + 1], std::byte{0x40});
  EXPECT_EQ(std::ranges::count_if(result.bytes, [](std::byte b) { return b != std::byte{0}; }), 1);
}

// How many rows a table has is the length of its array.
TEST_F(SdscCommand, RunGathersFromAllRowsOfATable) {
  BundleBuilder builder(3);
  builder.add({.op = "identity",
               .extents = {{"mb", 32}, {"out", 64}},
               .tensors = {{.order = {"mb"}, .stick = "mb", .base = "arg_0", .format = "SENUINT32", .index = true},
                           {.order = {"out", "mb"}, .stick = "out", .base = "arg_1", .indirect = true},
                           tensor("arg_2")}});
  write("gather", builder);
  NpyArray index{.dtype = DataType::Uint8, .size = {128}, .bytes = std::vector<std::byte>(128)};
  NpyArray table{.dtype = DataType::Uint8, .size = {40 * 128}, .bytes = std::vector<std::byte>(40 * 128)};
  for (std::size_t i = 0; i < 32; ++i) index.bytes[4 * i] = static_cast<std::byte>(39 - i);
  for (std::size_t i = 0; i < 40; ++i) table.bytes[128 * i] = static_cast<std::byte>(i);
  write_npy(path("index.npy"), index);
  write_npy(path("table.npy"), table);
  const std::vector<std::string> words{"run",   path("gather"),           "--arg", "0=" + path("index.npy"),
                                       "--arg", "1=" + path("table.npy"), "--out", "2=" + path("rows.npy")};
  EXPECT_EQ(run(words).code, 0);
  const auto rows = read_npy(path("rows.npy")).bytes;
  ASSERT_EQ(rows.size(), 32u * 128);
  for (std::size_t i = 0; i < 32; ++i) EXPECT_EQ(rows[128 * i], static_cast<std::byte>(39 - i)) << i;
  index.bytes[4 * 31] = std::byte{40};
  write_npy(path("index.npy"), index);
  EXPECT_THAT(refusal_of(words), HasSubstr("index 40 is outside of argument 1, which has 40 rows"));
}

// float32 in an argument that the bundle reads as DL16 is converted.
TEST_F(SdscCommand, RunConvertsToTheFormatOfTheProgram) {
  std::vector<float> values(280, 0.25F);
  NpyArray array{.dtype = DataType::Float32, .size = {4, 70}, .bytes = std::vector<std::byte>(1120)};
  std::memcpy(array.bytes.data(), values.data(), 1120);
  write_npy(path("a.npy"), array);
  EXPECT_EQ(run({"run", path("add"), "--arg", "0=" + path("a.npy"), "--arg", "1=" + path("a.npy"), "--out",
                 "2=" + path("c.npy"), "--as", "2=float16:4x70"})
                .code,
            0);
  for (const float value : values_of(read_npy(path("c.npy")))) ASSERT_EQ(value, 0.5F);
}

TEST_F(SdscCommand, RunSaysWhatIsWrongWithItsArguments) {
  const std::string a = "0=" + halves("a.npy", 1), b = "1=" + halves("b.npy", 1), add = path("add");
  EXPECT_THAT(refusal_of({"run", add, "--arg", a}), HasSubstr("the bundle reads argument 1"));
  EXPECT_THAT(refusal_of({"run", add, "--arg", a, "--arg", a}), HasSubstr("argument 0 is given twice"));
  EXPECT_THAT(refusal_of({"run", add, "--arg", "3=x.npy"}), HasSubstr("no argument 3, it has 3"));
  EXPECT_THAT(refusal_of({"run", add, "--out", "7=x.npy"}), HasSubstr("no argument 7"));
  EXPECT_THAT(refusal_of({"run", add, "--as", "7=float16:4"}), HasSubstr("no argument 7"));
  for (const char* text : {"x", "=x", "0=", "-1=x", "0x=x"}) {
    EXPECT_THAT(refusal_of({"run", add, "--arg", text}), HasSubstr("no NUMBER=FILE")) << text;
  }
  for (const char* text : {"2", "2=float16", "2:4", "=float16:4", ":="}) {
    EXPECT_THAT(refusal_of({"run", add, "--as", text}), HasSubstr("no NUMBER=TYPE:EXTENTS")) << text;
  }
  EXPECT_THAT(refusal_of({"run", add, "--as", "2=half:4x4"}), HasSubstr("no type 'half'"));
  EXPECT_THAT(refusal_of({"run", add, "--arg", "0=" + path("none.npy")}), HasSubstr("none.npy"));
  EXPECT_THAT(
      refusal_of({"run", add, "--arg", a, "--arg", b, "--out", "2=" + path("c.npy"), "--as", "2=float16:64x70"}),
      HasSubstr("argument 2 has 1024 bytes"));
  write_npy(path("small.npy"), {.dtype = DataType::Float16, .size = {4, 7}, .bytes = std::vector<std::byte>(56)});
  EXPECT_THAT(refusal_of({"run", add, "--arg", "0=" + path("small.npy"), "--arg", b}),
              HasSubstr("argument 0 needs 1024 bytes, its array has 512 on the card"));
  write_npy(path("odd.npy"), {.dtype = DataType::Uint8, .size = {1000}, .bytes = std::vector<std::byte>(1000)});
  EXPECT_THAT(refusal_of({"run", add, "--arg", "0=" + path("odd.npy"), "--arg", b}), HasSubstr("no whole sticks"));
  EXPECT_FALSE(std::filesystem::exists(path("c.npy")));
}

}  // namespace
}  // namespace cli
