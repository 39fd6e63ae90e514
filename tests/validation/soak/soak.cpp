// SPDX-License-Identifier: Apache-2.0
#include "tests/validation/soak/soak.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>

#include "shared/boot_arguments.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/resources.hpp"

namespace svp::soak {

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kWorkloads = 2;  // PF, VF1
constexpr unsigned kVirtual = 4;
constexpr unsigned kFunctions = kVirtual + 1;

CardOptions soaked_card(const std::string& words) {
  CardOptions card;
  card.name = "soak";
  card.cores = 2;
  card.virtual_functions = kVirtual;
  card.window_bytes = 64 * wire::kMiB;
  card.timeouts.admin = soak_bounds::kAdmin;  // reached: replies are lost on purpose, and late ones are not judged
  // It is killed all the time, and that is no sign of anything.
  card.timeouts.wedge_deaths = ~0u;
  card.boot_arguments = std::string(wire::boot::kWatchdogSlices) + "=20" + (words.empty() ? "" : " " + words);
  return card;
}

class Soak {
 public:
  Soak(const SoakOptions& options, SoakReport& report)
      : options_(options), report_(report), card_(value_or_throw(Card::boot(soaked_card(options.words)))) {
    for (unsigned f = kWorkloads; f < kFunctions; ++f) {
      clients_.push_back(std::make_unique<StressClient>(*card_, f, options.seed * 100 + f, tracker_));
    }
    scheduler_ = std::make_unique<FaultScheduler>(*card_, kFunctions, options.seed, tracker_,
                                                  [this](unsigned target) { return region_of(target); });
  }

  void run() {
    const campaign::CardResources before = scheduler_->card_resources();
    const auto end = Clock::now() + options_.length;
    if (options_.undisturbed) scheduler_->keep_quiet();
    start(end);
    try {
      scheduler_->run(end, [this] { return is_over(); }, [this] { return rounds(); });
    } catch (const Error& error) {
      report_.broken_off = error.what();
    }
    stop();
    report_.disturbances = scheduler_->report();
    for (const auto& client : clients_) report_.clients.push_back(client->report());
    if (report_.broken_off.empty()) compare(before);
  }

 private:
  bool is_over() {
    show_progress();
    report_.interrupted = options_.interrupted();
    const auto complained = [](const auto& one) { return one->complained(); };
    if (report_.interrupted || (options_.until_complaint && std::ranges::any_of(clients_, complained))) return true;
    return options_.enough && options_.enough(so_far());
  }

  SoakReport so_far() {
    SoakReport report;
    report.disturbances = scheduler_->report();
    for (const auto& client : clients_) report.clients.push_back(client->so_far());
    const std::lock_guard guard(workloads_mutex_);
    report.workloads = workloads_so_far_;
    return report;
  }

  std::uint64_t rounds() const {
    std::uint64_t sum = 0;
    for (const auto& client : clients_) sum += client->rounds();
    return sum;
  }

  // A target is 1 for the PF; stress clients begin behind the workloads.
  std::optional<std::uint64_t> region_of(unsigned target) const {
    if (target <= kWorkloads) return std::nullopt;
    const std::uint64_t region = clients_[target - kWorkloads - 1]->region();
    return region == StressClient::kNoRegion ? std::nullopt : std::optional(region);
  }

  void start(Clock::time_point end) {
    began_ = next_progress_ = Clock::now();
    report_.workloads.resize(kWorkloads);
    workloads_so_far_.resize(kWorkloads);
    for (unsigned f = 0; f < kWorkloads; ++f) {
      threads_.emplace_back([this, f, end] {
        fault::WorkloadOptions work;
        work.function = f;
        work.seed = options_.seed * 100 + f;
        // Ends when it is told to, and has shown that it is whole.
        work.limit = std::chrono::ceil<std::chrono::milliseconds>(end - Clock::now()) + soak_bounds::kAttach;
        work.enough = [this, f](const fault::WorkloadReport& so_far) {
          const std::lock_guard guard(workloads_mutex_);
          workloads_so_far_[f] = so_far;
          return stop_.load();
        };
        work.attach_limit = soak_bounds::kAttach;
        work.round_limit = soak_bounds::kTimeout;
        work.small = true;
        report_.workloads[f] = fault::run_workload(card_, work);
      });
    }
    for (const auto& client : clients_) {
      threads_.emplace_back([this, one = client.get()] { one->play(stop_); });
    }
  }

  void stop() {
    stop_ = true;
    for (auto& thread : threads_) thread.join();  // bounded: the flag is set, and each step of a tenant is bounded
    threads_.clear();
  }

  void show_progress() {
    const auto now = Clock::now();
    if (now < next_progress_ + soak_bounds::kProgress) return;
    next_progress_ = now;
    SoakProgress progress{.ran = std::chrono::duration_cast<std::chrono::seconds>(now - began_)};
    progress.rounds = rounds();
    for (const auto& [name, count] : scheduler_->report().events) progress.events += count;
    options_.on_progress(progress);
  }

  void compare(campaign::CardResources before) {
    try {
      before.free_bytes -= scheduler_->retired_bytes();
      const std::string left = campaign::difference(before, scheduler_->card_resources());
      if (!left.empty()) report_.left.push_back(left);
    } catch (const Error& error) {
      report_.left.push_back(std::string("the card could not be asked: ") + error.what());
    }
  }

  const SoakOptions& options_;
  SoakReport& report_;
  std::shared_ptr<Card> card_;
  DisturbanceTracker tracker_;
  std::vector<std::unique_ptr<StressClient>> clients_;
  std::unique_ptr<FaultScheduler> scheduler_;
  std::atomic<bool> stop_{false};
  std::mutex workloads_mutex_;
  std::vector<fault::WorkloadReport> workloads_so_far_;
  std::vector<std::thread> threads_;
  Clock::time_point began_{}, next_progress_{};
};

}  // namespace

SoakReport run_soak(const SoakOptions& options) {
  SoakReport report;
  report.seed = options.seed;
  const auto began = Clock::now();
  const test::ProcessResources before = test::count_process_resources();
  {
    Soak soak(options, report);
    soak.run();
  }
  const std::string left = test::left_over(before);
  if (!left.empty()) report.left.push_back(left);
  report.took = Clock::now() - began;
  return report;
}

std::vector<std::string> SoakReport::complaints() const {
  std::vector<std::string> all = disturbances.complaints;
  for (const auto& client : clients) all.insert(all.end(), client.complaints.begin(), client.complaints.end());
  for (const auto& workload : workloads) {
    if (workload.results_wrong != 0) {
      all.push_back(workload.function + ": " + std::to_string(workload.results_wrong) + " results wrong");
    }
    for (const auto& untyped : workload.untyped) all.push_back(workload.function + ": " + untyped);
    if (!workload.healed) all.push_back(workload.function + ": not whole at the end");
  }
  if (!broken_off.empty()) all.push_back("broken off: " + broken_off);
  return all;
}

bool SoakReport::clean() const { return complaints().empty() && left.empty(); }

}  // namespace svp::soak
