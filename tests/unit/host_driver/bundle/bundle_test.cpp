// SPDX-License-Identifier: Apache-2.0
// Failure bundles are read strictly: what was written comes back, everything else is refused with its reason.
#include "host_driver/bundle/bundle.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "host_driver/bundle/strict_json.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp::bundle {
namespace {

using nlohmann::json;
using testing::HasSubstr;

Bundle example() {
  return {.kind = Kind::FaultRun,
          .seed = 7,
          .script = R"({"seconds": 3})",
          .versions = {{"abi", "4"}},
          .seen = {{"run", "verdict", "FAILED"}, {"VF1", "results wrong", std::uint64_t{1}}},
          .details = R"({"console": "post 0x1"})"};
}

class Bundles : public testing::Test {
 protected:
  std::filesystem::path file(const std::string& text) const {
    const auto path = folder_.path() / "bundle.json";
    std::ofstream(path, std::ios::trunc | std::ios::binary) << text;
    return path;
  }
  json good() const {
    std::ifstream stream(write(folder_.path(), "good", example()));
    return json::parse(stream);
  }
  void expect_refused(const std::string& text, const std::string& why) const {
    const auto bundle = read(file(text));
    ASSERT_FALSE(bundle.has_value()) << text.substr(0, 200);
    EXPECT_THAT(bundle.error().message, HasSubstr(why));
    EXPECT_EQ(bundle.error().outcome, wire::Outcome::Rejected);
  }
  void expect_refused(const json& text, const std::string& why) const { expect_refused(text.dump(), why); }

  qemu::test::TemporaryFolder folder_;
};

TEST_F(Bundles, WhatWasWrittenIsRead) {
  const auto path = write(folder_.path() / "new folder", "script", example());
  EXPECT_EQ(path.filename(), "script-seed-7.spyre-bundle.json");
  const auto bundle = read(path);
  ASSERT_TRUE(bundle.has_value()) << describe(bundle.error());
  EXPECT_EQ(bundle->kind, Kind::FaultRun);
  EXPECT_EQ(bundle->seed, 7u);
  EXPECT_EQ(json::parse(bundle->script), json::parse(example().script));
  EXPECT_EQ(bundle->versions, example().versions);
  const auto all = [](std::string_view, std::string_view) { return Rule{true, "all"}; };
  EXPECT_TRUE(same(compare(example().seen, bundle->seen, all)));
}

TEST_F(Bundles, AnotherVersionIsRefusedWithBothNumbers) {
  auto text = good();
  text["format_version"] = 1;
  expect_refused(text, "version 1, this program reads version 2 only");
  // As version 1 really looked.
  expect_refused(std::string(R"({"format": "spyre-failure-bundle", "format_version": 1, "scenario": "F14", "seed": 7,
    "verdict": "failed", "proofs": "+-+++", "outcomes": {}})"),
                 "version 1");
  text["format_version"] = "2";
  expect_refused(text, "format_version");
  text["format_version"] = -2;
  expect_refused(text, "format_version");
}

TEST_F(Bundles, EveryTruncationIsRefused) {
  const std::string text = good().dump();
  for (std::size_t bytes = 0; bytes < text.size(); bytes += 1 + text.size() / 50) {
    EXPECT_FALSE(read(file(text.substr(0, bytes))).has_value()) << bytes;
  }
}

TEST_F(Bundles, WhatIsMissingOrUnknownIsNamed) {
  for (const char* key : {"kind", "seed", "script", "versions", "seen"}) {
    auto text = good();
    text.erase(key);
    expect_refused(text, key);
  }
  auto text = good();
  text["exit_code"] = 0;
  expect_refused(text, "'exit_code'");
  expect_refused(std::string("{}"), "format");
  expect_refused(std::string("[]"), "not a JSON object");
  expect_refused(std::string("bundle"), "not JSON");
}

TEST_F(Bundles, WrongTypesAndNumbersAreRefused) {
  const std::pair<const char*, json> wrong[] = {{"kind", "demo"},
                                                {"kind", 1},
                                                {"seed", -1},
                                                {"seed", 1.5},
                                                {"seed", "7"},
                                                {"seed", nullptr},
                                                {"script", "{}"},
                                                {"script", json::array()},
                                                {"versions", {1}},
                                                {"versions", {{"abi", 4}}},
                                                {"seen", 1},
                                                {"seen", {{"run", 1}}},
                                                {"seen", json::object()},
                                                {"seen", {{"run", {{"rounds", 1}}}}},
                                                {"seen", {{"run", {{"verdict", 1.5}}}}},
                                                {"seen", {{"run", {{"verdict", json::array()}}}}}};
  for (const auto& [key, value] : wrong) {
    auto text = good();
    text[key] = value;
    EXPECT_FALSE(read(file(text.dump())).has_value()) << key << " " << value;
  }
  std::string huge = good().dump();
  const std::string seed = "\"seed\":7";
  huge.replace(huge.find(seed), seed.size(), "\"seed\":99999999999999999999999999");
  expect_refused(huge, "seed");
}

TEST_F(Bundles, AKeyTwiceIsRefused) {
  std::string text = good().dump();
  text.insert(1, "\"seed\": 8, ");
  expect_refused(text, "'seed' stands there twice");
}

TEST_F(Bundles, WhatIsDeepLongOrManyIsRefused) {
  expect_refused(std::string(100'000, '['), "nested deeper");
  expect_refused(std::string(kMostBytes + 1, ' '), "too many");
  auto text = good();
  for (std::size_t i = 0; i <= kMostFigures; ++i) text["seen"]["VF1 errors"][std::to_string(i)] = 1;
  expect_refused(text, "figures");
}

TEST_F(Bundles, WhatIsNoFileIsRefused) {
  EXPECT_FALSE(read(folder_.path()).has_value());
  EXPECT_FALSE(read("/nowhere.json").has_value());
  EXPECT_FALSE(read("/dev/zero").has_value());
  std::filesystem::permissions(folder_.path(), std::filesystem::perms::owner_all);
  EXPECT_THROW(write("/proc/nowhere", "x", example()), Error);
}

}  // namespace
}  // namespace svp::bundle
