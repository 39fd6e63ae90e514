// SPDX-License-Identifier: Apache-2.0
// spyre-mutant: holds the campaign against firmware, driver and broker with one check left out at a time.
// Exit code 0: each mutant was killed by the claim that it names; 1: not; 2: bad options.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>

#include "qemu/card.hpp"
#include "tests/mutants/claims.hpp"
#include "tests/mutants/run_mutant.hpp"
#include "tests/validation/campaign/tenant_process.hpp"

namespace {

using mutants::Found;
using mutants::Mutant;
using mutants::Run;

constexpr int kOk = 0, kNotKilled = 1, kBadOptions = 2;

struct Options {
  std::vector<std::string> only;
  std::size_t choose = 0;  // 0: all
  std::string by;
  std::uint64_t seed = 1;
  bool list = false;
  bool claims = false;
  bool json = false;
};

// The campaign's own processes (F20, F22): `spyre-mutant fault-tenant CARD FUNCTION TASK SEED`, as of the spyre
// command.
int tenant(int argc, char** argv) {
  if (argc != 6) return kBadOptions;
  using svp::campaign::TenantTask;
  const TenantTask task = std::string_view(argv[4]) == "work" ? TenantTask::Work : TenantTask::Occupy;
  return svp::campaign::tenant_main(argv[2], argv[3], task, std::strtoull(argv[5], nullptr, 10));
}

// The firmware that has mutants lies beside the one that has none.
void use_mutant_firmware() {
  auto found = svp::find_firmware();
  if (!found) throw svp::Error(std::move(found.error()));
  const auto mutant = found->parent_path() / "spyre-firmware-mutant.elf";
  if (!std::filesystem::exists(mutant)) {
    throw svp::InvalidArgument("firmware", "there is no " + mutant.string(),
                               "build it: scripts/build --target firmware");
  }
  ::setenv("SPYRE_FIRMWARE", mutant.c_str(), 1);
}

std::vector<const Mutant*> chosen(const Options& options) {
  std::vector<const Mutant*> found;
  for (const std::string& name : options.only) {
    const auto some = mutants::find(name);
    if (some.empty())
      throw svp::InvalidArgument("only", "there is no mutant '" + name + "'", "see spyre-mutant --list");
    found.insert(found.end(), some.begin(), some.end());
  }
  if (!options.only.empty()) return found;
  return mutants::choose(options.choose == 0 ? mutants::all().size() : options.choose, options.by);
}

double seconds(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

nlohmann::json to_json(const std::vector<Run>& runs) {
  nlohmann::json json = nlohmann::json::array();
  for (const Run& run : runs) {
    nlohmann::json failed = nlohmann::json::array();
    for (const auto& claim : run.failed) failed.push_back(fmt::format("{} {}", name(claim.proof), claim.name));
    json.push_back({{"name", mutants::name_of(*run.mutant)},
                    {"scenario", run.mutant->scenario},
                    {"not_done", run.mutant->what},
                    {"found", name(run.found)},
                    {"seen", run.seen},
                    {"failed", failed},
                    {"seconds", seconds(run.took)}});
  }
  return json;
}

int run_all(const Options& options) {
  std::vector<Run> runs;
  std::size_t killed = 0;
  for (const Mutant* mutant : chosen(options)) {
    const Run& run = runs.emplace_back(mutants::run(*mutant, options.seed));
    killed += run.found == Found::Killed ? 1 : 0;
    if (options.json) continue;
    fmt::print("{:<34} {:<16} {:5.1f} s  {}\n", mutants::name_of(*mutant), name(run.found), seconds(run.took),
               run.seen);
    std::fflush(stdout);
  }
  if (options.json) {
    fmt::print("{}\n", nlohmann::json{{"seed", options.seed}, {"killed", killed}, {"mutants", to_json(runs)}}.dump(2));
  } else {
    fmt::print("{} of {} mutants killed, of {} that there are{}\n", killed, runs.size(), mutants::all().size(),
               options.by.empty() ? "" : "; chosen by " + options.by);
  }
  return killed == runs.size() ? kOk : kNotKilled;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view(argv[1]) == "fault-tenant") return tenant(argc, argv);
  CLI::App app("The fault campaign on firmware, driver and broker with one check left out at a time.");
  Options options;
  app.add_option("--only", options.only, "of these scenarios or names, like F7 or F7/crc")->delimiter(',');
  app.add_option("--choose", options.choose, "so many of all, chosen by --by");
  app.add_option("--by", options.by, "a text, like a commit's id");
  app.add_option("--seed", options.seed, "of the scenarios");
  app.add_flag("--list", options.list, "print which ones and what they leave out, and stop");
  app.add_flag("--claims", options.claims,
               "print every claim of the scenarios (--only F7) and what covers it, and stop; 1: one has nothing");
  app.add_flag("--json", options.json, "one JSON object instead of the table");
  CLI11_PARSE(app, argc, argv);
  try {
    if (options.list) {
      for (const Mutant* one : chosen(options)) fmt::print("{:<34} {}\n", mutants::name_of(*one), one->what);
      return kOk;
    }
    use_mutant_firmware();
    if (options.claims) return mutants::list_claims(options.only, options.seed) == 0 ? kOk : kNotKilled;
    return run_all(options);
  } catch (const svp::InvalidArgument& error) {
    fmt::print(stderr, "spyre-mutant: {}\n", error.what());
    return kBadOptions;
  } catch (const std::exception& error) {
    fmt::print(stderr, "spyre-mutant: {}\n", error.what());
    return kNotKilled;
  }
}
