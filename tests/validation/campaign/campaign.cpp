// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/campaign.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/bundle.hpp"
#include "tests/validation/campaign/resources.hpp"
#include "tests/validation/campaign/stage.hpp"
#include "tests/validation/campaign/trial.hpp"

namespace svp::campaign {

namespace {

using Clock = std::chrono::steady_clock;

constexpr auto kSettle = campaign_bounds::kSettle;

bool same_shape(const CardShape& a, const CardShape& b) {
  return a.words == b.words && a.virtual_functions == b.virtual_functions && a.spare_slots == b.spare_slots &&
         a.reply_missing == b.reply_missing;
}

// The card that scenarios share, and what was there before and with it.
class SharedStage {
 public:
  SharedStage() : bare_(count_process_resources()) {}

  const ProcessResources& bare() const { return bare_; }
  Stage& get(const StageOptions& options) {
    const bool fits = stage_ && same_shape(stage_->options().shape, options.shape) &&
                      stage_->options().conditions == options.conditions && stage_->usable();
    if (!fits) {
      drop();
      stage_ = std::make_unique<Stage>(options);
    }
    return *stage_;
  }
  void drop() { stage_.reset(); }

 private:
  ProcessResources bare_;
  std::unique_ptr<Stage> stage_;
};

class Runner {
 public:
  explicit Runner(const CampaignOptions& options) : options_(options) {}

  Result run(const Scenario& scenario, std::uint64_t seed) {
    const auto began = Clock::now();
    Result result = scenario.shape.own_card ? run_alone(scenario, seed) : run_shared(scenario, seed);
    result.took = Clock::now() - began;
    // What failed may have left a card that nobody should judge another scenario by.
    if (result.verdict() != Verdict::Passed) stages_.drop();
    return result;
  }

 private:
  // Runs the scenario's function; what it throws is its trouble.
  void perform(Trial& trial) {
    try {
      trial.scenario().run(trial);
    } catch (const std::exception& error) {
      trial.result().trouble = error.what();
    }
    try {
      trial.close();
    } catch (const std::exception& error) {
      trial.result().trouble += std::string(trial.result().trouble.empty() ? "" : "; ") + error.what();
    }
  }

  Result run_alone(const Scenario& scenario, std::uint64_t seed) {
    stages_.drop();
    Trial trial(scenario, nullptr, seed, options_.conditions);
    perform(trial);
    judge_process(trial, stages_.bare());
    return trial.take_result();
  }

  Result run_shared(const Scenario& scenario, std::uint64_t seed) {
    const StageOptions wanted{.shape = scenario.shape, .conditions = options_.conditions};
    Stage& stage = stages_.get(wanted);
    const CardResources card = count_card(stage);
    const ProcessResources process = count_process_resources();
    Trial trial(scenario, &stage, seed, options_.conditions);
    perform(trial);
    if (trial.spoilt() || !stage.usable()) {
      stages_.drop();
      judge_process(trial, stages_.bare());
      return trial.take_result();
    }
    judge_process(trial, process);
    judge_card(trial, stage, card);
    return trial.take_result();
  }

  static CardResources count_card(Stage& stage) {
    const auto management = value_or_throw(stage.card()->open_management());
    return count_card_resources(*management, kSettle);
  }

  void judge_process(Trial& trial, const ProcessResources& before) {
    const auto now = settled_process_resources(before, kSettle);
    const std::string left = difference(before, now);
    trial.clean("process", left.empty(), left.empty() ? "process as before" : left);
  }

  void judge_card(Trial& trial, Stage& stage, const CardResources& before) {
    try {
      const std::string left = difference(before, count_card(stage));
      trial.clean("card", left.empty(), left.empty() ? "card as before" : left);
    } catch (const std::exception& error) {
      trial.clean("card", false, std::string("the card could not be asked: ") + error.what());
    }
  }

  const CampaignOptions& options_;
  SharedStage stages_;
};

std::vector<const Scenario*> choose(const CampaignOptions& options) {
  std::vector<const Scenario*> chosen;
  if (options.only.empty()) {
    for (const Scenario& scenario : catalogue()) chosen.push_back(&scenario);
  }
  for (const std::string& id : options.only) {
    const Scenario* scenario = find_scenario(id);
    if (scenario == nullptr) {
      throw InvalidArgument("only", "there is no scenario '" + id + "'",
                            "name scenarios as `spyre fault list` does, like F14");
    }
    chosen.push_back(scenario);
  }
  return chosen;
}

}  // namespace

Verdict ScenarioReport::verdict() const {
  Verdict worst = runs.empty() ? Verdict::Invalid : Verdict::Passed;
  for (const Result& run : runs) {
    const Verdict one = run.verdict();
    if (one == Verdict::Failed) return one;
    if (one == Verdict::Invalid) worst = one;
  }
  return worst;
}

bool ScenarioReport::holds(Proof proof) const {
  return !runs.empty() && std::ranges::all_of(runs, [&](const Result& run) { return run[proof].holds; });
}

std::size_t CampaignReport::passed() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      scenarios, [](const ScenarioReport& report) { return report.verdict() == Verdict::Passed; }));
}

CampaignReport run_campaign(const CampaignOptions& options) {
  const auto chosen = choose(options);
  const auto began = Clock::now();
  CampaignReport report{.seed = options.seed, .repeat = std::max(options.repeat, 1u), .scenarios = {}, .took = {}};
  Runner runner(options);
  for (const Scenario* scenario : chosen) {
    ScenarioReport& row = report.scenarios.emplace_back(ScenarioReport{scenario, {}});
    for (unsigned turn = 0; turn < report.repeat; ++turn) {
      row.runs.push_back(runner.run(*scenario, options.seed + turn));
      const Result& result = row.runs.back();
      if (!options.bundles.empty() && result.verdict() != Verdict::Passed) {
        write_bundle(options.bundles, *scenario, result);
      }
      if (options.on_result) options.on_result(*scenario, result);
    }
  }
  report.took = Clock::now() - began;
  return report;
}

}  // namespace svp::campaign
