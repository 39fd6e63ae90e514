// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/campaign/campaign.hpp"

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/bundle.hpp"
#include "tests/validation/campaign/card_fixture.hpp"
#include "tests/validation/campaign/resources.hpp"
#include "tests/validation/campaign/scenario_context.hpp"

namespace svp::campaign {

namespace {

using Clock = std::chrono::steady_clock;

bool same_shape(const CardShape& a, const CardShape& b) {
  return a.words == b.words && a.virtual_functions == b.virtual_functions && a.spare_slots == b.spare_slots &&
         a.reply_missing == b.reply_missing;
}

// The card that scenarios share, and what was there before and with it.
class SharedFixture {
 public:
  SharedFixture() : bare_(test::count_process_resources()) {}

  const test::ProcessResources& bare() const { return bare_; }
  CardFixture& get(const FixtureOptions& options) {
    const bool fits = fixture_ && same_shape(fixture_->options().shape, options.shape) &&
                      fixture_->options().conditions == options.conditions && fixture_->usable();
    if (!fits) {
      drop();
      fixture_ = std::make_unique<CardFixture>(options);
    }
    return *fixture_;
  }
  void drop() { fixture_.reset(); }

 private:
  test::ProcessResources bare_;
  std::unique_ptr<CardFixture> fixture_;
};

class Runner {
 public:
  explicit Runner(const CampaignOptions& options) : options_(options) {}

  Result run(const Scenario& scenario, std::uint64_t seed) {
    const auto began = Clock::now();
    Result result = scenario.shape.own_card ? run_alone(scenario, seed) : run_shared(scenario, seed);
    result.took = Clock::now() - began;
    // What failed may have left a card that nobody should judge another scenario by.
    if (result.verdict() != Verdict::Passed) fixtures_.drop();
    return result;
  }

 private:
  // Runs the scenario's function; what it throws is its trouble.
  void perform(ScenarioContext& context) {
    try {
      context.scenario().run(context);
    } catch (const std::exception& error) {
      context.result().trouble = error.what();
    }
    try {
      context.close();
    } catch (const std::exception& error) {
      context.result().trouble += std::string(context.result().trouble.empty() ? "" : "; ") + error.what();
    }
  }

  Result run_alone(const Scenario& scenario, std::uint64_t seed) {
    fixtures_.drop();
    ScenarioContext context(scenario, nullptr, seed, options_.conditions);
    perform(context);
    judge_process(context, fixtures_.bare());
    return context.take_result();
  }

  Result run_shared(const Scenario& scenario, std::uint64_t seed) {
    const FixtureOptions wanted{.shape = scenario.shape, .conditions = options_.conditions};
    CardFixture& fixture = fixtures_.get(wanted);
    const CardResources card = count_card(fixture);
    const test::ProcessResources process = test::count_process_resources();
    ScenarioContext context(scenario, &fixture, seed, options_.conditions);
    perform(context);
    if (context.spoilt() || !fixture.usable()) {
      fixtures_.drop();
      judge_process(context, fixtures_.bare());
      return context.take_result();
    }
    judge_process(context, process);
    judge_card(context, fixture, card);
    return context.take_result();
  }

  // What a disabled check leaves behind never goes.
  std::chrono::milliseconds settle() const {
    return options_.conditions.short_timeout ? campaign_bounds::kShortTimeout : campaign_bounds::kSettle;
  }
  CardResources count_card(CardFixture& fixture) const {
    const auto management = value_or_throw(fixture.card()->open_management());
    return count_card_resources(*management, settle());
  }

  void judge_process(ScenarioContext& context, const test::ProcessResources& before) {
    const std::string left = test::left_over(before, settle());
    context.clean("process", left.empty(), left.empty() ? "process as before" : left);
  }

  void judge_card(ScenarioContext& context, CardFixture& fixture, const CardResources& before) {
    try {
      const std::string left = difference(before, count_card(fixture));
      context.clean("card", left.empty(), left.empty() ? "card as before" : left);
    } catch (const std::exception& error) {
      context.clean("card", false, std::string("the card could not be asked: ") + error.what());
    }
  }

  const CampaignOptions& options_;
  SharedFixture fixtures_;
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
  CampaignReport report{.seed = options.seed, .repeat = std::max(options.repeat, 1u), .scenarios = {}};
  Runner runner(options);
  for (const Scenario* scenario : chosen) {
    ScenarioReport& row = report.scenarios.emplace_back(ScenarioReport{scenario, {}});
    for (unsigned repetition = 0; repetition < report.repeat; ++repetition) {
      report.interrupted = report.interrupted || options.interrupted();
      if (report.interrupted) break;
      row.runs.push_back(runner.run(*scenario, options.seed + repetition));
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
