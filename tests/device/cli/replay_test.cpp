// SPDX-License-Identifier: Apache-2.0
// `spyre replay`: a real failure leaves a bundle, and the bundle shows the same failure again.
#include <gmock/gmock.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/device/cli/cli_fixture.hpp"

namespace svp {
namespace {

using nlohmann::json;
using test::Environment;
using test::Finished;
using testing::HasSubstr;
using testing::Not;

class Replay : public test::Cli {
 protected:
  std::filesystem::path folder() const { return runtime().parent_path(); }
  std::filesystem::path bundles() const { return folder() / "bundles"; }

  Finished run_script(const std::string& text, std::vector<std::string> more = {}) const {
    const auto file = folder() / "script.json";
    std::ofstream(file) << text;
    std::vector<std::string> words = {"fault", "run", file.string(), "--bundles", bundles().string()};
    words.insert(words.end(), more.begin(), more.end());
    return run_spyre(words);
  }
  Finished replay(const std::filesystem::path& bundle, const Environment& changes = {}) const {
    return run_spyre({"replay", bundle.string()}, changes);
  }
  std::filesystem::path only_bundle() const {
    std::vector<std::filesystem::path> files;
    std::error_code none;
    for (const auto& entry : std::filesystem::directory_iterator(bundles(), none)) files.push_back(entry.path());
    EXPECT_EQ(files.size(), 1u);
    return files.size() == 1 ? files.front() : std::filesystem::path();
  }
  // A copy of it that claims something else.
  template <typename Change>
  std::filesystem::path changed(const std::filesystem::path& bundle, Change change) const {
    std::ifstream in(bundle);
    json text = json::parse(in);
    change(text);
    auto copy = folder() / "changed.json";
    std::ofstream(copy, std::ios::trunc) << text.dump();
    return copy;
  }
  // An emulator, found before the real one, that gives the card another boot word behind its own: a card whose
  // configuration is wrong.
  Environment with_boot_word(const std::string& word) const {
    const auto bin = folder() / "bin";
    std::filesystem::create_directory(bin);
    const auto program = bin / "qemu-system-riscv64";
    std::ofstream(program) << "#!/bin/bash\nPATH=${PATH#*:}\nwords=() before=\nfor word in \"$@\"; do\n"
                           << "  [[ $before == -append ]] && word+=\" " << word << "\"\n"
                           << "  words+=(\"$word\") before=$word\ndone\nexec qemu-system-riscv64 \"${words[@]}\"\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return {{"PATH", bin.string() + ":" + std::getenv("PATH")}};
  }
};

TEST_F(Replay, AWrongResultComesAgain) {
  const Finished ran = run_script(R"({"seed": 3, "faults": [
    {"layer": "core", "point": "kernel-result", "action": "corrupt", "argument": 200,
     "trigger": {"first": {"random": [2, 7]}, "function": "VF1"}}]})");
  ASSERT_EQ(ran.code, 1) << ran.output;
  const auto bundle = only_bundle();
  const Finished again = replay(bundle);
  EXPECT_EQ(again.code, 0) << again.output;
  EXPECT_THAT(again.output, Not(HasSubstr("differs")));

  const auto two_wrong = changed(bundle, [](json& text) { text["seen"]["VF1"]["results wrong"] = 2; });
  const Finished other = replay(two_wrong);
  EXPECT_EQ(other.code, 1) << other.output;
  EXPECT_THAT(other.output, HasSubstr("differs: each fault stays in the block that it hits"));
  const auto more_rounds = changed(bundle, [](json& text) { text["seen"]["VF1"]["rounds"] = 80; });
  EXPECT_EQ(replay(more_rounds).code, 0) << "rounds are not comparable";
}

TEST_F(Replay, TheSeedDecidesWhatIsDrawn) {
  const Finished ran = run_script(R"({"seed": 3, "faults": [
    {"layer": "core", "point": "kernel-result", "action": "corrupt", "argument": {"random": [0, 30000]},
     "trigger": {"first": 3, "function": "VF1"}}]})");
  ASSERT_EQ(ran.code, 1) << ran.output;
  const auto reseeded = changed(only_bundle(), [](json& text) { text["seed"] = text["script"]["faults"]["seed"] = 4; });
  const Finished other = replay(reseeded);
  EXPECT_EQ(other.code, 1) << other.output;
  EXPECT_THAT(other.output, HasSubstr("differs: drawn from the seed"));
}

TEST_F(Replay, AFaultThatDoesNotFireDoesNotFireAgain) {
  const Finished ran = run_script(R"({"faults": [
    {"layer": "firmware", "point": "dma-step", "action": "abort", "trigger": {"first": 1000000000, "function": "VF1"}}]})",
                                  {"--seconds", "1"});
  ASSERT_EQ(ran.code, 4) << ran.output;
  const auto bundle = only_bundle();
  EXPECT_EQ(replay(bundle).code, 0);
  const auto fired = changed(bundle, [](json& text) { text["seen"]["fault 0"]["fired"] = 1; });
  EXPECT_EQ(replay(fired).code, 1);
}

TEST_F(Replay, ARunThatIsRightLeavesNoBundle) {
  const Finished ran = run_script(R"({"faults": [
    {"layer": "firmware", "point": "dma-step", "action": "abort", "trigger": {"first": 20, "function": "VF1"}}]})");
  EXPECT_EQ(ran.code, 0) << ran.output;
  EXPECT_FALSE(std::filesystem::exists(bundles()));
}

// F19 needs a card that bans a stream after three time-outs. This one never does.
TEST_F(Replay, AScenarioThatFailsFailsAgainAndNotOnAWholeCard) {
  const Environment never_bans = with_boot_word("strikes=0");
  const Finished ran =
      run_spyre({"fault", "campaign", "--only", "F19", "--seed", "5", "--bundles", bundles().string()}, never_bans);
  ASSERT_EQ(ran.code, 1) << ran.output;
  const auto bundle = only_bundle();
  EXPECT_EQ(bundle.filename(), "F19-seed-5.spyre-bundle.json");
  const Finished again = replay(bundle, never_bans);
  EXPECT_EQ(again.code, 0) << again.output;
  const Finished whole = replay(bundle);
  EXPECT_EQ(whole.code, 1) << whole.output;
  EXPECT_THAT(whole.output, HasSubstr("NOT the same run"));
}

// The tenants of a soak let kernels run into the watchdog; this card bans a stream for the first of them.
TEST_F(Replay, ASoakThatIsNotCleanIsNotCleanAgain) {
  const Environment bans = with_boot_word("strikes=1");
  const Finished ran = run_spyre(
      {"soak", "--minutes", "0.8", "--until-complaint", "--seed", "2", "--bundles", bundles().string()}, bans);
  ASSERT_EQ(ran.code, 1) << ran.output;
  const auto bundle = only_bundle();
  const Finished again = replay(bundle, bans);
  EXPECT_EQ(again.code, 0) << again.output;
  const auto briefly = changed(bundle, [](json& text) { text["script"]["length_ms"] = 2'000; });
  EXPECT_EQ(replay(briefly).code, 1) << "a whole card is clean";
}

TEST_F(Replay, WhatIsNoBundleIsTwoAndSaysWhy) {
  const auto file = folder() / "hostile.json";
  const auto refuse = [&](const std::string& text, const char* why) {
    std::ofstream(file, std::ios::trunc) << text;
    const Finished ran = replay(file);
    EXPECT_EQ(ran.code, 2) << text;
    EXPECT_THAT(ran.output, HasSubstr(why));
  };
  const json good = {{"format", "spyre-failure-bundle"},
                     {"format_version", 2},
                     {"kind", "campaign"},
                     {"seed", 1},
                     {"script", {{"scenario", "F14"}}},
                     {"versions", json::object()},
                     {"seen", {{"run", {{"verdict", "failed"}}}}}};
  const auto with = [&](const char* key, const json& value) {
    json text = good;
    text[key] = value;
    return text.dump();
  };
  refuse(good.dump().substr(0, 60), "not JSON");
  refuse(with("format_version", 1), "version 1");
  refuse(with("kind", "demo"), "kind");
  refuse(with("seed", -1), "seed");
  refuse(with("script", {{"scenario", "F99"}}), "scenario");
  refuse(with("exit", 0), "'exit'");
  refuse(with("seen", {{"run", {{"verdict", "failed"}, {"colour", 1}}}}), "colour");
  EXPECT_EQ(replay("/nowhere.json").code, 2);
}

}  // namespace
}  // namespace svp
