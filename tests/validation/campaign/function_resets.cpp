// SPDX-License-Identifier: Apache-2.0
// F34 to F36: function resets, seen from the card and from those who are not reset.
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/resources.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::AdminCommand;
using wire::ControlBlock;
using wire::FunctionState;
using wire::Outcome;

// One when a reset begins, so that the driver sees at once that its work is over, and one when it ends.
constexpr std::uint64_t kGenerationsPerReset = 2;

constexpr wire::Target kFaulting = wire::target_of_virtual(kGuilty), kNeighbour = wire::target_of_virtual(kInnocent),
                       kBusy = wire::target_of_virtual(kThird);

// What the card says of a function and no reset of another one may change.
struct Standing {
  FunctionState state{};
  std::uint64_t generation = 0;
  std::uint64_t resets = 0;
  std::uint64_t granted_bytes = 0;
  std::uint64_t violations = 0;
  friend bool operator==(const Standing&, const Standing&) = default;
};
Standing standing_of(Device& management, wire::Target target) {
  const auto figures = figures_of(management, target);
  return {figures.state, figures.generation, figures.resets, figures.granted_bytes, figures.violations};
}
std::vector<Standing> standings(Device& management, std::initializer_list<wire::Target> targets) {
  std::vector<Standing> all;
  for (const wire::Target target : targets) all.push_back(standing_of(management, target));
  return all;
}

wire::AdminRequest reset_request(wire::Target target) {
  wire::AdminRequest request{};
  request.command = AdminCommand::FunctionReset;
  request.arguments.function = {target, 0};
  return request;
}

// The first that was wrong is kept.
void keep_first(std::string& wrong, std::string now) {
  if (wrong.empty()) wrong = std::move(now);
}

}  // namespace

// ---- F34 ----------------------------------------------------------------------------------------------------------------

void reset_of_one_leaves_the_others(Trial& trial) {
  constexpr unsigned kResets = 6;
  unsigned asked = 0;
  trial.innocent();
  BusyTenant busy(trial, trial.open(kThird));
  Device& management = trial.management();
  const auto others = {wire::kTargetPhysical, kNeighbour, kBusy};
  const auto before = standings(management, others);
  const std::uint64_t resets = figures_of(management, kFaulting).resets;
  std::string refused, jobs;
  bool running = true, typed = true;
  trial.let_loose();
  for (; asked < kResets && typed; ++asked) {
    const ControlBlock spin = trial.kernel("spin", kManySlices);
    const std::uint64_t first = trial.lane().submitted() + 1;
    const ControlBlock work[] = {spin, Desk::fill(Desk::in(trial.desk().tensor(), 0), wire::kMiB, asked)};
    running = trial.lane().submit(work) && trial.lane().wait_started(first, trial.patience()) && running;
    busy.start_jobs();
    const auto reply = manage(management, AdminCommand::FunctionReset, kFaulting);
    keep_first(refused, ok_or_reason(reply));
    keep_first(jobs, busy.finish_jobs());
    typed = heard_of_reset(trial, trial.guilty(), trial.lane()) && typed;
    trial.close_guilty();
  }
  const std::uint64_t done = figures_of(management, kFaulting).resets - resets;
  trial.claim(Proof::Fired, "resets", running && done >= asked, std::to_string(done) + " resets under a kernel");
  trial.claim(Proof::Detected, "answered", refused.empty(), refused);
  trial.claim(Proof::Detected, "typed", typed, "a block of the function that was reset never ended");
  trial.claim(Proof::Contained, "jobs", jobs.empty(), jobs);
  trial.claim(Proof::Contained, "standing", standings(management, others) == before,
              "a generation or a counter of another function changed");
  trial.claim(Proof::Contained, "queued jobs", busy.waits_at_gate(), "a kernel of another function ended");
  const auto stats = manage(management, AdminCommand::Stats, kBusy).values.stats;
  trial.claim(Proof::Contained, "outcomes", stats.failed + stats.rejected + stats.aborted == 0);
  const std::string kernel = busy.open_gate();
  trial.claim(Proof::Contained, "kernel in flight", kernel.empty(), kernel);
  const std::string memory = busy.check_memory();
  trial.claim(Proof::Contained, "memory", memory.empty(), memory);
  trial.contained();
  trial.recover_function();
}

// ---- F35 ----------------------------------------------------------------------------------------------------------------

namespace {

// A function with a kernel in flight and a transfer behind it.
class Worker {
 public:
  Worker(Trial& trial, unsigned function)
      : trial_(trial),
        target_(wire::target_of_virtual(function)),
        device_(trial.open(function)),
        desk_(*device_),
        loads_(*device_),
        lane_(*device_),
        before_(standing_of(trial.management(), target_)) {
    const ControlBlock work[] = {load_kernel(desk_, loads_, trial.card(), "spin", 0),
                                 Desk::fill(Desk::in(desk_.tensor(), 0), Desk::kRegionBytes, target_)};
    running_ = lane_.submit(work) && lane_.wait_started(1, trial.patience());
  }
  ~Worker() { trial_.keep_trace(lane_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool running() const { return running_; }
  wire::Target target() const { return target_; }
  bool heard_of_reset() { return campaign::heard_of_reset(trial_, *device_, lane_); }
  // As the card has it: reset exactly once, and nothing left.
  bool empty() const {
    const Standing now = standing_of(trial_.management(), target_);
    return now.resets == before_.resets + 1 && now.generation == before_.generation + kGenerationsPerReset &&
           now.state == FunctionState::Idle && now.granted_bytes == 0;
  }

 private:
  Trial& trial_;
  wire::Target target_;
  std::unique_ptr<Device> device_;
  Desk desk_;
  Lane loads_;
  Lane lane_;
  Standing before_;
  bool running_ = false;
};

std::string works(Trial& trial, unsigned function) {
  const auto device = trial.open(function);
  Desk desk(*device);
  Lane lane(*device);
  return trial.good_job(desk, lane);
}

}  // namespace

void reset_of_all_in_parallel(Trial& trial) {
  constexpr unsigned kAll[] = {kGuilty, kInnocent, kThird};
  Device& management = trial.management();
  // The observer is not reset: the PF, and the boot of the card.
  BusyTenant observer(trial, value_or_throw(trial.card().open_physical()));
  observer.start_jobs();  // once before its memory is counted: they need a context of their own
  (void)observer.finish_jobs();
  const auto bound = std::chrono::ceil<std::chrono::milliseconds>(trial.patience());
  const CardResources held = count_card_resources(management, bound);
  const Standing standing = standing_of(management, wire::kTargetPhysical);
  std::vector<std::unique_ptr<Worker>> workers;
  for (const unsigned function : kAll) workers.push_back(std::make_unique<Worker>(trial, function));
  bool running = true;
  for (const auto& worker : workers) running = worker->running() && running;
  observer.start_jobs();
  std::atomic<unsigned> answered{0};
  trial.let_loose();
  {
    std::barrier together(std::ssize(kAll));
    std::vector<std::jthread> threads;
    for (const auto& worker : workers) {
      threads.emplace_back([&, target = worker->target()] {
        together.arrive_and_wait();  // bounded: as many threads as it counts, each only comes here
        const auto reply = management.admin(reset_request(target));
        if (reply && reply->outcome == Outcome::Ok) ++answered;
      });
    }
  }
  const std::string jobs = observer.finish_jobs();
  bool empty = true, typed = true;
  for (const auto& worker : workers) empty = worker->empty() && empty;
  const CardResources left = count_card_resources(management, bound);
  for (const auto& worker : workers) typed = worker->heard_of_reset() && typed;
  trial.claim(Proof::Fired, "kernels in flight", running);
  trial.claim(Proof::Detected, "answered", answered == std::size(kAll), std::to_string(answered) + " of 3 were");
  trial.claim(Proof::Detected, "typed", typed, "a driver was not told, or a block never ended");
  trial.claim(Proof::Contained, "empty", empty, "a function was not reset exactly once, or holds something");
  const std::string more = difference(held, left);
  trial.claim(Proof::Contained, "nothing left", more.empty(), more);
  trial.claim(Proof::Contained, "jobs of the observer", jobs.empty(), jobs);
  trial.claim(Proof::Contained, "standing of the observer",
              standing_of(management, wire::kTargetPhysical) == standing && observer.waits_at_gate());
  const std::string kernel = observer.open_gate();
  trial.claim(Proof::Contained, "kernel of the observer", kernel.empty(), kernel);
  const std::string memory = observer.check_memory();
  trial.claim(Proof::Contained, "memory of the observer", memory.empty(), memory);
  workers.clear();
  std::string wrong;
  for (const unsigned function : kAll) keep_first(wrong, works(trial, function));
  trial.claim(Proof::Recovered, "good jobs", wrong.empty(), wrong);
}

// ---- F36 ----------------------------------------------------------------------------------------------------------------

namespace {

// What two requests at once came to.
struct Pair {
  unsigned answered = 0;
  bool after_its_end = true;  // neither was answered while a reset still ran
  std::uint64_t resets = 0;
  std::uint64_t generations = 0;
};

Pair reset_twice_at_once(Trial& trial) {
  Device& management = trial.management();
  const auto before = figures_of(management, kFaulting);
  Pair pair;
  std::atomic<unsigned> answered{0}, early{0};
  {
    std::barrier together(2);
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        together.arrive_and_wait();  // bounded: two threads, each only comes here
        const auto reply = management.admin(reset_request(kFaulting));
        if (!reply || reply->outcome != Outcome::Ok) return;
        ++answered;
        // The reset that it was answered by is over; the other one's own may have begun since.
        const auto& figures = reply->values.function;
        if (figures.resets == before.resets) ++early;
      });
    }
  }
  const auto after = figures_of(management, kFaulting);
  pair.answered = answered;
  pair.after_its_end = early == 0 && after.state == FunctionState::Idle;
  pair.resets = after.resets - before.resets;
  pair.generations = after.generation - before.generation;
  return pair;
}

}  // namespace

void two_resets_at_once(Trial& trial) {
  constexpr unsigned kFewest = 4, kMost = 32;  // attempts
  trial.innocent();
  BusyTenant busy(trial, trial.open(kThird));
  Device& management = trial.management();
  const auto others = {wire::kTargetPhysical, kNeighbour, kBusy};
  const auto before = standings(management, others);
  unsigned attempts = 0, joined = 0, answered = 0;
  bool counted = true, after_its_end = true, typed = true;
  trial.let_loose();
  const auto whole = [&] { return counted && after_its_end && typed; };
  while (whole() && (attempts < kFewest || (joined == 0 && attempts < kMost))) {
    ++attempts;
    const ControlBlock spin = trial.kernel("spin", kManySlices);
    const std::uint64_t first = trial.lane().submitted() + 1;
    (void)trial.lane().submit(spin);
    (void)trial.lane().wait_started(first, trial.patience());
    const Pair pair = reset_twice_at_once(trial);
    answered += pair.answered;
    after_its_end = pair.after_its_end && after_its_end;
    counted = pair.generations == kGenerationsPerReset * pair.resets && pair.resets >= 1 && pair.resets <= 2 && counted;
    joined += pair.resets == 1 ? 1 : 0;
    typed = heard_of_reset(trial, trial.guilty(), trial.lane()) && typed;
    trial.close_guilty();
  }
  // What went wrong early is found all the same.
  trial.claim(Proof::Fired, "joined", joined != 0 || !whole(), "in none of " + std::to_string(attempts) + " attempts");
  trial.claim(Proof::Detected, "answered", answered == 2 * attempts,
              std::to_string(answered) + " of " + std::to_string(2 * attempts));
  trial.claim(Proof::Detected, "after its end", after_its_end, "a request was answered before a reset had ended");
  trial.claim(Proof::Detected, "counted", counted, "generation and resets do not agree, or are not one or two more");
  trial.claim(Proof::Detected, "typed", typed, "a block never ended");
  trial.claim(Proof::Contained, "standing", standings(management, others) == before);
  const std::string kernel = busy.open_gate();
  trial.claim(Proof::Contained, "kernel in flight", kernel.empty(), kernel);
  trial.contained();
  const auto limit = Trial::Clock::now() + trial.patience();
  while (figures_of(management, kFaulting).state == FunctionState::Resetting && Trial::Clock::now() < limit) {
    std::this_thread::yield();
  }
  trial.recover_function();
}

}  // namespace svp::campaign
