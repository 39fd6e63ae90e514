// SPDX-License-Identifier: Apache-2.0
#include "host_driver/faults/standard_workload.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <random>
#include <span>
#include <thread>
#include <utility>

#include "host_driver/base/timeouts.hpp"
#include "host_driver/frontend/context.hpp"
#include "host_driver/tensor/golden/golden.hpp"
#include "shared/dl16.hpp"

namespace svp::fault {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::int64_t kRows = 256;
constexpr std::int64_t kColumns = 64;  // one stick: on the card the rows lie as they do here
constexpr std::size_t kElements = static_cast<std::size_t>(kRows * kColumns);
constexpr std::uint64_t kBytes = kElements * sizeof(std::uint16_t);
constexpr int kAttachments = 3;
constexpr unsigned kPatientRounds = 4;
constexpr std::uint64_t kSmallRegionBytes = 256 * wire::kMiB;
constexpr std::size_t kMostErrors = 64;  // different ones; what comes then is counted together

// Counts how every block ended. Shared by all attachments: a launch may end while its context does.
class Tally final : public LaunchObserver {
 public:
  void on_block(const BlockRecord& record) noexcept override {
    const std::lock_guard lock(mutex_);
    try {
      std::string how(wire::name(record.outcome));
      if (record.status != wire::Status::None) how.append(": ").append(wire::name(record.status));
      ++outcomes_[how];
    } catch (const std::bad_alloc&) {
      ++unrecorded_;
    }
  }
  void on_launch_ended(std::uint64_t, wire::Outcome) noexcept override { ended_.fetch_add(1); }
  void launched() { launched_.fetch_add(1); }

  // Once nothing runs any more.
  void report(WorkloadReport& report) const {
    report.outcomes = outcomes_;
    const std::uint64_t lost = launched_.load() - ended_.load();
    if (lost != 0) report.untyped.push_back(std::to_string(lost) + " launches never ended");
    if (unrecorded_ != 0)
      report.untyped.push_back("there was no memory to note " + std::to_string(unrecorded_) + " ends");
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::uint64_t> outcomes_;
  std::uint64_t unrecorded_ = 0;
  std::atomic<std::uint64_t> launched_{0};
  std::atomic<std::uint64_t> ended_{0};
};

// One stream of the load: what it adds, and what has to come of it.
struct Addition {
  FlexStream* stream = nullptr;
  svp::SpyreTensor a, b, c;
  std::vector<std::uint16_t> in_a, in_b, out, golden;
  bool launched = false;
};

class Workload {
 public:
  Workload(std::shared_ptr<Card> card, const WorkloadOptions& options)
      : card_(std::move(card)), options_(options), random_(options.seed), end_(Clock::now() + options.limit) {
    report_.function = options.function == 0 ? "PF" : "VF" + std::to_string(options.function);
  }

  WorkloadReport run();

 private:
  // Runs a step; false when it failed, with its error noted.
  template <typename Step>
  bool attempt(const char* what, Step&& step);
  bool attach();
  bool prepare();
  void detach();
  void round();
  void launch(Addition& addition);
  bool finish(Addition& addition);
  void recover_if_needed(Addition& addition);
  bool alive() const;

  const std::shared_ptr<Card> card_;
  const WorkloadOptions& options_;
  std::mt19937_64 random_;
  const Clock::time_point end_;
  Tally tally_;  // outlives the context
  std::unique_ptr<svp::Context> context_;
  ExecutionPlan plan_;
  std::vector<Addition> additions_;
  bool start_over_ = false;
  unsigned broken_rounds_ = 0;  // in a row
  WorkloadReport report_;
};

template <typename Step>
bool Workload::attempt(const char* what, Step&& step) {
  try {
    step();
    return true;
  } catch (const Error& error) {
    std::string text = std::string(what) + ": " + describe(error.info());
    if (report_.errors.size() >= kMostErrors && !report_.errors.contains(text)) text = "others";
    ++report_.errors[text];
  } catch (const std::exception& error) {
    report_.untyped.push_back(std::string(what) + ": " + error.what());
  }
  return false;
}

bool Workload::attach() {
  const auto limit = Clock::now() + options_.attach_limit;
  for (int i = 0; (i < kAttachments || Clock::now() < limit) && Clock::now() < end_; ++i) {
    if (i >= kAttachments) std::this_thread::sleep_for(kAttachAgain);  // bounded: by the loop's limit
    const bool open = attempt("open", [&] {
      svp::ContextOptions context;
      context.function = options_.function;
      context.device.faults = options_.hooks;
      if (options_.small) context.runtime.allocator.region_bytes = {kSmallRegionBytes};
      context_ = svp::Context::open(card_, std::move(context));
    });
    if (!open) continue;
    ++report_.attachments;
    if (prepare()) return true;
    detach();
  }
  return false;
}

bool Workload::prepare() {
  const auto limit = Clock::now() + options_.round_limit;
  return attempt("prepare", [&] {
    plan_ = ExecutionPlan({Job(CompiledKernel(context_->kernel("add"), {{"M", kRows}, {"N", kColumns}}))});
    plan_.load(context_->runtime(), context_->runtime().default_stream());
    context_->runtime().default_stream().Synchronize(limit);
    additions_.resize(options_.streams);
    for (unsigned i = 0; i < options_.streams; ++i) {
      Addition& addition = additions_[i];
      addition.stream = i == 0
                            ? &context_->runtime().default_stream()
                            : &context_->runtime().next_stream(i % 2 == 0 ? StreamPriority::Low : StreamPriority::High);
      for (svp::SpyreTensor* tensor : {&addition.a, &addition.b, &addition.c}) {
        *tensor = context_->empty(DataType::Float16, {kRows, kColumns});
      }
      for (auto* values : {&addition.in_a, &addition.in_b, &addition.out, &addition.golden}) values->resize(kElements);
    }
  });
}

void Workload::detach() {
  (void)attempt("close", [&] {
    context_.reset();  // first: what still runs uses their memory
    additions_.clear();
    plan_ = ExecutionPlan();
  });
}

bool Workload::alive() const {
  const Health health = context_->device().health();
  return health == Health::Alive || health == Health::Silent;
}

void Workload::launch(Addition& addition) {
  const auto draw = [&](std::vector<std::uint16_t>& values) {
    for (auto& value : values) {
      value =
          wire::dl16_from_fp32(static_cast<float>(static_cast<std::int32_t>(random_() >> 40) - (1 << 23)) / (1 << 20));
    }
  };
  draw(addition.in_a);
  draw(addition.in_b);
  // A result that did not come must not look like the last one.
  std::ranges::fill(addition.out, std::uint16_t{0x5AA5});
  LaunchOptions observed;
  observed.observer = &tally_;
  const auto submit = [&](const Job& job, std::span<const Argument> arguments) {
    addition.stream->Launch(job, arguments, observed);
    tally_.launched();
  };
  addition.launched = attempt("launch", [&] {
    submit(Job::to_device(addition.in_a.data(), addition.a.allocation_index(), kBytes), {});
    submit(Job::to_device(addition.in_b.data(), addition.b.allocation_index(), kBytes), {});
    const Argument arguments[] = {addition.a.argument(), addition.b.argument(), addition.c.argument()};
    submit(plan_.jobs()[0], arguments);
    submit(Job::from_device(addition.out.data(), addition.c.allocation_index(), kBytes), {});
  });
}

// True when the result came and is right.
bool Workload::finish(Addition& addition) {
  const auto limit = Clock::now() + options_.round_limit;
  const bool ended = attempt("wait", [&] { addition.stream->Synchronize(limit); });
  if (!ended || !addition.launched) return false;
  golden::add_dl16(addition.in_a, addition.in_b, addition.golden);
  const bool right = addition.out == addition.golden;
  ++(right ? report_.results_right : report_.results_wrong);
  return right;
}

void Workload::recover_if_needed(Addition& addition) {
  ++report_.stream_resets;
  if (!attempt("reset stream", [&] { addition.stream->Reset(); })) start_over_ = true;
}

void Workload::round() {
  for (Addition& addition : additions_) launch(addition);
  report_.healed = true;
  for (Addition& addition : additions_) {
    if (finish(addition)) continue;
    report_.healed = false;
    if (alive() && !start_over_) recover_if_needed(addition);
  }
  ++report_.rounds;
  broken_rounds_ = report_.healed ? 0 : broken_rounds_ + 1;
  // Streams that are reset and fail again: what is broken belongs to the function, like an entry of its region table.
  if (!alive() || broken_rounds_ >= kPatientRounds) start_over_ = true;
}

WorkloadReport Workload::run() {
  bool attached = attach();
  if (attached) attached = attempt("ready", options_.ready);
  while (attached && Clock::now() < end_) {
    round();
    if (start_over_) {
      start_over_ = false;
      broken_rounds_ = 0;
      detach();
      attached = attach();
      continue;
    }
    // Not before it has shown that what broke is whole again.
    if (report_.rounds >= options_.rounds && report_.healed && options_.enough(report_)) break;
  }
  if (!attached) report_.healed = false;
  detach();
  tally_.report(report_);
  return std::move(report_);
}

}  // namespace

WorkloadReport run_workload(const std::shared_ptr<Card>& card, const WorkloadOptions& options) noexcept {
  try {
    return Workload(card, options).run();
  } catch (const std::exception& error) {
    WorkloadReport report;
    report.untyped.emplace_back(error.what());
    return report;
  }
}

}  // namespace svp::fault
