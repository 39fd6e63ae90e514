// SPDX-License-Identifier: Apache-2.0
// A short soak: clean on a card that is whole, and not on one that is not. Ten minutes of it are in
// docs/reliability.md.
#include "tests/validation/soak/soak.hpp"

#include <gmock/gmock.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <numeric>

#include "firmware/mutants/mutants.hpp"
#include "qemu/card.hpp"
#include "shared/boot_arguments.hpp"
#include "tests/bounds.hpp"

namespace svp::soak {
namespace {

using testing::Contains;
using testing::HasSubstr;

std::string joined(const std::vector<std::string>& lines) {
  return std::accumulate(lines.begin(), lines.end(), std::string(),
                         [](std::string all, const std::string& line) { return std::move(all) + line + "\n"; });
}

// In undisturbed time, where every batch is judged.
constexpr std::chrono::seconds kBriefly{2};  // bounded: a soak of this length

// What a soak has to have done before its being clean says anything; empty when it has.
std::string missing(const SoakReport& report) {
  std::string text;
  const auto want = [&](const std::string& what, std::uint64_t found, std::uint64_t least) {
    if (found < least) text += what + ": " + std::to_string(found) + " of " + std::to_string(least) + "\n";
  };
  for (const char* event : {"fault", "function reset by M", "emulator stopped", "firmware trap", "firmware restart",
                            "card reset", "power cycle", "emulator killed"}) {
    const auto found = report.disturbances.events.find(event);
    want(event, found == report.disturbances.events.end() ? 0 : found->second, 1);
  }
  std::uint64_t fired = 0;
  for (const auto& [name, count] : report.disturbances.faults) fired += count.fired;
  want("faults that fired", fired, 10);
  std::uint64_t statistics = 0, waits = 0;
  for (const StressClientReport& client : report.clients) {
    want("judged batches of " + client.function, client.strict, 50);
    want("attachments of " + client.function, client.attachments, 5);
    statistics += client.statistics;
    waits += client.waits;
  }
  want("waits of streams for others", waits, 20);
  want("comparisons of the card's counters", statistics, 1);
  for (const auto& workload : report.workloads) want("results of " + workload.function, workload.results_right, 100);
  return text;
}

// Until every reset level was used, an emulator was killed, and tenants did enough in between.
TEST(Soak, EverythingIsRightAndAccountedForAndNothingIsLeftBehind) {
  const auto enough = [](const SoakReport& so_far) { return missing(so_far).empty(); };
  const SoakReport report = run_soak({.length = test_bounds::kEnough, .seed = 1, .enough = enough});
  EXPECT_TRUE(report.clean()) << joined(report.complaints()) << joined(report.left);
  for (const StressClientReport& client : report.clients) {
    std::uint64_t ended = 0;
    for (const auto& [outcome, count] : client.outcomes) ended += count;
    EXPECT_EQ(ended, client.blocks) << client.function;
  }
  EXPECT_EQ(missing(report), "");
}

TEST(Soak, WithoutDisturbancesEveryBatchEndsAsExpected) {
  const SoakReport report = run_soak({.length = kBriefly, .seed = 2, .undisturbed = true});
  EXPECT_TRUE(report.clean()) << joined(report.complaints()) << joined(report.left);
  EXPECT_TRUE(report.disturbances.events.empty());
  for (const StressClientReport& client : report.clients) EXPECT_EQ(client.strict, client.batches) << client.function;
}

// Cards with a check left out, as long as it exists (docs/campaign.md, "Mutants").
class MutantFirmware {
 public:
  MutantFirmware() {
    const auto firmware = value_or_throw(find_firmware()).parent_path() / "spyre-firmware-mutant.elf";
    ::setenv("SPYRE_FIRMWARE", firmware.c_str(), 1);
  }
  ~MutantFirmware() { ::unsetenv("SPYRE_FIRMWARE"); }
  MutantFirmware(const MutantFirmware&) = delete;
  MutantFirmware& operator=(const MutantFirmware&) = delete;

  static std::string without(fw::Mutant check) {
    return std::string(wire::boot::kMutant) + "=" + std::to_string(static_cast<unsigned>(check));
  }
};

TEST(Soak, ACardThatRunsWhatIsMalformedIsNotClean) {
  const MutantFirmware firmware;
  const SoakReport report = run_soak({.length = test_bounds::kComplaint,
                                      .seed = 1,
                                      .until_complaint = true,
                                      .undisturbed = true,
                                      .words = MutantFirmware::without(fw::Mutant::BlockForm)});
  EXPECT_FALSE(report.clean());
  EXPECT_THAT(report.complaints(), Contains(HasSubstr("ended OK instead of REJECTED")));
}

TEST(Soak, ACardThatEndsNoKernelIsNotClean) {
  const MutantFirmware firmware;
  const SoakReport report = run_soak({.length = test_bounds::kComplaint,
                                      .seed = 1,
                                      .until_complaint = true,
                                      .undisturbed = true,
                                      .words = MutantFirmware::without(fw::Mutant::KernelBudget)});
  EXPECT_THAT(report.complaints(), Contains(HasSubstr("did not end")));
}

TEST(Soak, AnInterruptEndsItEarlyWithAReport) {
  const SoakReport report = run_soak({.length = std::chrono::hours{24}, .seed = 2, .interrupted = [] { return true; }});
  EXPECT_TRUE(report.interrupted);
  EXPECT_TRUE(report.clean()) << joined(report.complaints());
  EXPECT_THAT(to_text(report), HasSubstr("interrupted, clean until then (seed 2"));
}

TEST(Soak, TheReportIsJsonWithAllOfIt) {
  const SoakReport report = run_soak({.length = std::chrono::milliseconds{500}, .seed = 3});
  const auto json = nlohmann::json::parse(to_json(report), nullptr, false);
  ASSERT_TRUE(json.is_object());
  EXPECT_EQ(json["clean"], true) << joined(report.complaints());
  EXPECT_EQ(json["seed"], 3);
  EXPECT_EQ(json["clients"].size(), 3u);
  EXPECT_EQ(json["workloads"].size(), 2u);
  EXPECT_THAT(to_text(report), HasSubstr("clean (seed 3"));
}

}  // namespace
}  // namespace svp::soak
