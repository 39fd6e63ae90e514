// SPDX-License-Identifier: Apache-2.0
// P10, every reset level, many times: from the call of recover() to the completion of the first good job after it, on
// one embedded card, with a check that nothing is left behind.
//
//   reset_levels_bench [--count 1000] [--only "card reset"] [--json FILE]
//
// 0: every recovery ended at the reset level it was asked for (a reset level that this card does not know is left out),
// and descriptors, threads and pinned memory after the last are what they were after the first. 1: otherwise. 2: usage.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <fstream>
#include <nlohmann/json.hpp>
#include <vector>

#include "host_driver/frontend/context.hpp"
#include "tests/bounds.hpp"
#include "tests/support/process_resources.hpp"

namespace {

using svp::ResetLevel;
using Clock = std::chrono::steady_clock;

struct LeftOvers {
  svp::test::OwnResources own;
  std::uint64_t pinned = 0;
  friend bool operator==(const LeftOvers&, const LeftOvers&) = default;
};

class Subject {
 public:
  Subject() {
    svp::ContextOptions options;
    options.card.emplace();
    context_ = svp::Context::open(std::move(options));
  }

  // Recovers with a transfer in flight; milliseconds to the first good job.
  double recover(ResetLevel level) {
    auto& runtime = context_->runtime();
    const auto memory = runtime.allocator().allocate(data_.size());
    runtime.default_stream().Launch(svp::Job::to_device(data_.data(), memory, data_.size()), {});
    const auto begin = Clock::now();
    if (level == ResetLevel::Stream) {
      runtime.default_stream().Reset();
    } else {
      const auto report = context_->recover(level);
      if (report.level() != level) {
        throw svp::Error({.source = std::string(name(level)), .next_step = "", .message = describe(report)});
      }
    }
    const bool survives = level <= ResetLevel::Queue;
    const auto target = survives ? memory : runtime.allocator().allocate(data_.size());
    runtime.default_stream().Launch(svp::Job::fill(target, 128, 1), {});
    runtime.default_stream().Synchronize(Clock::now() + bench_bounds::kLevel);
    const std::chrono::duration<double, std::milli> took = Clock::now() - begin;
    runtime.allocator().deallocate(target);
    return took.count();
  }

  LeftOvers left_overs() { return {svp::test::count_own_resources(), context_->host_memory().statistics().used_bytes}; }

 private:
  std::unique_ptr<svp::Context> context_;
  std::vector<std::byte> data_ = std::vector<std::byte>(1u << 20);
};

// What is closed is gone a moment later, by other threads: looks again for at most this long.
LeftOvers settled(Subject& subject, const LeftOvers& before) {
  const auto end = Clock::now() + support_bounds::kSettle;
  LeftOvers now = subject.left_overs();
  while (now != before && Clock::now() < end) now = subject.left_overs();
  return now;
}

bool measure(ResetLevel level, unsigned count, nlohmann::ordered_json& all) {
  Subject subject;
  std::vector<double> times;
  LeftOvers before;
  try {
    // What a second round takes, every further one takes.
    for (int i = 0; i < 2; ++i) subject.recover(level);
    before = subject.left_overs();
    for (unsigned i = 0; i < count; ++i) times.push_back(subject.recover(level));
  } catch (const svp::Error& error) {
    const bool unknown = times.empty() && level == ResetLevel::Firmware;
    fmt::print("{:<17} {}: {}\n", name(level), unknown ? "left out" : "FAILED", error.what());
    return unknown;
  }
  const LeftOvers after = settled(subject, before);
  std::ranges::sort(times);
  const double median = times[times.size() / 2];
  fmt::print("{:<17} {:>6} times   median {:>9.3f} ms   worst {:>9.3f} ms   left behind: {}\n", name(level), count,
             median, times.back(), after == before ? "nothing" : "SOMETHING");
  if (after != before) {
    fmt::print("  descriptors {} → {}, threads {} → {}, pinned bytes {} → {}\n", before.own.descriptors,
               after.own.descriptors, before.own.threads, after.own.threads, before.pinned, after.pinned);
  }
  all.push_back({{"level", name(level)},
                 {"count", count},
                 {"median_ms", median},
                 {"worst_ms", times.back()},
                 {"clean", after == before}});
  return after == before;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"reset_levels_bench: the time of every reset level of the reset escalation"};
  unsigned count = 1000;
  std::string only, json_file;
  app.add_option("--count", count, "recoveries per reset level")
      ->check(CLI::Range(1u, 1'000'000u))
      ->capture_default_str();
  app.add_option("--only", only, "one reset level, by its name (\"card reset\")");
  app.add_option("--json", json_file, "also write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  if (!only.empty() && !svp::level_named(only)) {
    fmt::print(stderr, "reset_levels_bench: there is no reset level '{}'\n", only);
    return 2;
  }
  auto all = nlohmann::ordered_json::array();
  bool good = true;
  for (const ResetLevel level : {ResetLevel::Stream, ResetLevel::Queue, ResetLevel::Function, ResetLevel::Firmware,
                                 ResetLevel::Card, ResetLevel::PowerCycle}) {
    if (only.empty() || svp::level_named(only) == level) good &= measure(level, count, all);
  }
  if (!json_file.empty() && !(std::ofstream(json_file) << all.dump(2) << "\n").flush()) good = false;
  return good ? 0 : 1;
}
