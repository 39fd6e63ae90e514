// SPDX-License-Identifier: Apache-2.0
// A short soak: clean on a card that is whole, and not on one that is not. Ten minutes of it are in docs/reliability.md.
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
using testing::IsEmpty;

std::string joined(const std::vector<std::string>& lines) {
  return std::accumulate(lines.begin(), lines.end(), std::string(),
                         [](std::string all, const std::string& line) { return std::move(all) + line + "\n"; });
}

// In undisturbed time, where every batch is judged.
constexpr std::chrono::seconds kBriefly{2};  // bounded: a soak of this length

// Long enough for every reset level and an emulator that is killed.
TEST(Soak, EverythingIsRightAndAccountedForAndNothingIsLeftBehind) {
  const SoakReport report = run_soak({.length = std::chrono::seconds{7}, .seed = 1});
  EXPECT_TRUE(report.clean()) << joined(report.complaints()) << joined(report.left);
  for (const char* event : {"fault", "function reset by M", "emulator stopped", "firmware trap", "firmware restart",
                            "card reset", "power cycle", "emulator killed"}) {
    EXPECT_GE(report.disturbances.events.at(event), 1u) << event;
  }
  std::uint64_t fired = 0;
  for (const auto& [name, count] : report.disturbances.faults) fired += count.fired;
  EXPECT_GE(fired, 10u);
  std::uint64_t statistics = 0;
  for (const StressClientReport& client : report.clients) {
    std::uint64_t ended = 0;
    for (const auto& [outcome, count] : client.outcomes) ended += count;
    EXPECT_EQ(ended, client.blocks) << client.function;
    EXPECT_GE(client.strict, 50u) << client.function << " was hardly ever judged";
    statistics += client.statistics;
    EXPECT_GE(client.attachments, 5u) << client.function;
  }
  EXPECT_GE(statistics, 1u) << "the card's counters were never compared";
  for (const auto& workload : report.workloads) EXPECT_GE(workload.results_right, 100u) << workload.function;
}

TEST(Soak, WithoutDisturbancesEveryBatchEndsAsExpected) {
  const SoakReport report = run_soak({.length = kBriefly, .seed = 2, .undisturbed = true});
  EXPECT_TRUE(report.clean()) << joined(report.complaints()) << joined(report.left);
  EXPECT_TRUE(report.disturbances.events.empty());
  for (const StressClientReport& client : report.clients) EXPECT_EQ(client.strict, client.batches) << client.function;
}

// Cards with a check left out, as long as it lives (docs/campaign.md, "Mutants").
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
