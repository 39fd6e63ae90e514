// SPDX-License-Identifier: Apache-2.0
// F34 to F36: function resets, seen from the card and from those who are not reset.
#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "host_driver/device/timeline_sharing.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/resources.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/campaign/standing.hpp"

namespace svp::campaign {

namespace {

using wire::AdminCommand;
using wire::ControlBlock;
using wire::FunctionState;
using wire::Outcome;

// One when a reset begins, so that the driver sees at once that its work is over, and one when it ends.
constexpr std::uint64_t kGenerationsPerReset = 2;

constexpr wire::Target kBusy = wire::target_of_virtual(kThird);

wire::AdminRequest reset_request(wire::Target target) {
  return test::function_request(AdminCommand::FunctionReset, target);
}

// The first that was wrong is kept.
void keep_first(std::string& wrong, std::string now) {
  if (wrong.empty()) wrong = std::move(now);
}

}  // namespace

// ---- F34 ------------------------------------------------------------------------------------------------------------

namespace {

// The PF waits for stream 0 of the function that is reset, by a grant.
class GrantedWait {
 public:
  explicit GrantedWait(ScenarioContext& context)
      : context_(context), device_(value_or_throw(context.card().open_physical())), stream_(*device_) {
    const TimelineGrant granted = value_or_throw(grant_timeline(context.management(),
                                                                {.function = kFaultingTarget,
                                                                 .generation = context.faulting().config().generation,
                                                                 .stream = 0,
                                                                 .incarnation = 1},
                                                                wire::kTargetPhysical, device_->config().generation));
    waits_ = stream_.submit(BlockBuilder::granted_wait(granted.grant, granted.epoch, 1, 1));
  }
  ~GrantedWait() { context_.keep_trace(stream_); }
  GrantedWait(const GrantedWait&) = delete;
  GrantedWait& operator=(const GrantedWait&) = delete;

  // How it ended, when the grant was not revoked as it should be; else empty.
  std::string check_revoked() {
    if (!waits_ || !stream_.wait_all(context_.timeout())) return "a wait for the function that was reset never ended";
    const wire::Completion end = stream_.endings().back();
    const bool revoked = end.outcome == Outcome::Aborted && end.status == wire::Status::GrantRevoked;
    return revoked ? std::string() : "a wait for the function that was reset ended " + ending(end);
  }

 private:
  ScenarioContext& context_;
  std::unique_ptr<Device> device_;
  TestStream stream_;
  bool waits_ = false;
};

}  // namespace

void reset_of_one_leaves_the_others(ScenarioContext& context) {
  constexpr unsigned kResets = 6;
  unsigned asked = 0;
  context.bystander();
  BusyTenant busy(context, context.open(kThird));
  Device& management = context.management();
  GrantedWait granted(context);
  const auto others = {wire::kTargetPhysical, kNeighbour, kBusy};
  const auto before = standings(management, others);
  const std::uint64_t resets = figures_of(management, kFaultingTarget).resets;
  std::string refused, jobs;
  bool running = true, typed = true;
  context.trigger();
  for (; asked < kResets && typed; ++asked) {
    const ControlBlock spin = context.kernel("spin", kManySlices);
    const std::uint64_t first = context.stream().submitted() + 1;
    const ControlBlock work[] = {spin, BlockBuilder::fill(context.builder().tensor(0), wire::kMiB, asked)};
    running = context.stream().submit(work) && context.stream().wait_started(first, context.timeout()) && running;
    busy.start_jobs();
    const auto reply = manage(management, AdminCommand::FunctionReset, kFaultingTarget);
    keep_first(refused, ok_or_reason(reply));
    keep_first(jobs, busy.finish_jobs());
    typed = told_of_reset(context, context.faulting(), context.stream()) && typed;
    context.close_faulting();
  }
  const std::uint64_t done = figures_of(management, kFaultingTarget).resets - resets;
  context.claim(Proof::Fired, "resets", running && done >= asked, std::to_string(done) + " resets under a kernel");
  context.claim(Proof::Detected, "answered", refused.empty(), refused);
  context.claim(Proof::Detected, "typed", typed, "a block of the function that was reset never ended");
  const std::string revoked = granted.check_revoked();
  context.claim(Proof::Detected, "granted wait", revoked.empty(), revoked);
  context.claim(Proof::Contained, "jobs", jobs.empty(), jobs);
  context.claim(Proof::Contained, "standing", standings(management, others) == before,
                "a generation or a counter of another function changed");
  context.claim(Proof::Contained, "queued jobs", busy.waits_at_gate(), "a kernel of another function ended");
  const auto stats = manage(management, AdminCommand::Stats, kBusy).values.stats;
  context.claim(Proof::Contained, "outcomes", stats.failed + stats.rejected + stats.aborted == 0);
  const std::string kernel = busy.open_gate();
  context.claim(Proof::Contained, "kernel in flight", kernel.empty(), kernel);
  const std::string memory = busy.check_memory();
  context.claim(Proof::Contained, "memory", memory.empty(), memory);
  context.contained();
  context.recover_function();
}

// ---- F35 ------------------------------------------------------------------------------------------------------------

namespace {

// A function with a kernel in flight and a transfer behind it.
class Worker {
 public:
  Worker(ScenarioContext& context, unsigned function)
      : context_(context),
        target_(wire::target_of_virtual(function)),
        device_(context.open(function)),
        builder_(*device_),
        loads_(*device_),
        stream_(*device_),
        before_(standing_of(context.management(), target_)) {
    const ControlBlock work[] = {load_kernel(builder_, loads_, context.card(), "spin", 0),
                                 BlockBuilder::fill(builder_.tensor(0), BlockBuilder::kRegionBytes, target_)};
    running_ = stream_.submit(work) && stream_.wait_started(1, context.timeout());
  }
  ~Worker() { context_.keep_trace(stream_); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  bool running() const { return running_; }
  wire::Target target() const { return target_; }
  bool told_of_reset() { return campaign::told_of_reset(context_, *device_, stream_); }
  // As the card has it: reset exactly once, and nothing left.
  bool empty() const {
    const Standing now = standing_of(context_.management(), target_);
    return now.resets == before_.resets + 1 && now.generation == before_.generation + kGenerationsPerReset &&
           now.state == FunctionState::Idle && now.granted_bytes == 0;
  }

 private:
  ScenarioContext& context_;
  wire::Target target_;
  std::unique_ptr<Device> device_;
  BlockBuilder builder_;
  TestStream loads_;
  TestStream stream_;
  Standing before_;
  bool running_ = false;
};

std::string works(ScenarioContext& context, unsigned function) {
  const auto device = context.open(function);
  BlockBuilder builder(*device);
  TestStream stream(*device);
  return context.good_job(builder, stream);
}

}  // namespace

void reset_of_all_in_parallel(ScenarioContext& context) {
  constexpr unsigned kAll[] = {kFaulting, kBystander, kThird};
  Device& management = context.management();
  // The observer is not reset: the PF, and the boot of the card.
  BusyTenant observer(context, value_or_throw(context.card().open_physical()));
  observer.start_jobs();  // once before its memory is counted: they need a context of their own
  (void)observer.finish_jobs();
  const auto bound = std::chrono::ceil<std::chrono::milliseconds>(context.timeout());
  const CardResources held = count_card_resources(management, bound);
  const Standing standing = standing_of(management, wire::kTargetPhysical);
  std::vector<std::unique_ptr<Worker>> workers;
  for (const unsigned function : kAll) workers.push_back(std::make_unique<Worker>(context, function));
  bool running = true;
  for (const auto& worker : workers) running = worker->running() && running;
  observer.start_jobs();
  std::atomic<unsigned> answered{0};
  context.trigger();
  {
    std::barrier together(std::ssize(kAll));
    std::vector<std::jthread> threads;
    threads.reserve(workers.size());
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
  for (const auto& worker : workers) typed = worker->told_of_reset() && typed;
  context.claim(Proof::Fired, "kernels in flight", running);
  context.claim(Proof::Detected, "answered", answered == std::size(kAll), std::to_string(answered) + " of 3 were");
  context.claim(Proof::Detected, "typed", typed, "a driver was not told, or a block never ended");
  context.claim(Proof::Contained, "empty", empty, "a function was not reset exactly once, or holds something");
  const std::string more = difference(held, left);
  context.claim(Proof::Contained, "nothing left", more.empty(), more);
  context.claim(Proof::Contained, "jobs of the observer", jobs.empty(), jobs);
  context.claim(Proof::Contained, "standing of the observer",
                standing_of(management, wire::kTargetPhysical) == standing && observer.waits_at_gate());
  const std::string kernel = observer.open_gate();
  context.claim(Proof::Contained, "kernel of the observer", kernel.empty(), kernel);
  const std::string memory = observer.check_memory();
  context.claim(Proof::Contained, "memory of the observer", memory.empty(), memory);
  workers.clear();
  std::string wrong;
  for (const unsigned function : kAll) keep_first(wrong, works(context, function));
  context.claim(Proof::Recovered, "good jobs", wrong.empty(), wrong);
}

// ---- F36 ------------------------------------------------------------------------------------------------------------

namespace {

// What two requests at once came to.
struct Pair {
  unsigned answered = 0;
  bool after_its_end = true;  // neither was answered while a reset still ran
  std::uint64_t resets = 0;
  std::uint64_t generations = 0;
};

Pair reset_twice_at_once(ScenarioContext& context) {
  Device& management = context.management();
  const auto before = figures_of(management, kFaultingTarget);
  Pair pair;
  std::atomic<unsigned> answered{0}, early{0};
  {
    std::barrier together(2);
    std::vector<std::jthread> threads;
    threads.reserve(2);
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        together.arrive_and_wait();  // bounded: two threads, each only comes here
        const auto reply = management.admin(reset_request(kFaultingTarget));
        if (!reply || reply->outcome != Outcome::Ok) return;
        ++answered;
        // The reset that it was answered by is over; the other one's own may have begun since.
        const auto& figures = reply->values.function;
        if (figures.resets == before.resets) ++early;
      });
    }
  }
  const auto after = figures_of(management, kFaultingTarget);
  pair.answered = answered;
  pair.after_its_end = early == 0 && after.state == FunctionState::Idle;
  pair.resets = after.resets - before.resets;
  pair.generations = after.generation - before.generation;
  return pair;
}

}  // namespace

void two_resets_at_once(ScenarioContext& context) {
  constexpr unsigned kFewest = 4;  // attempts; then until two requests have met, however often that takes
  context.bystander();
  BusyTenant busy(context, context.open(kThird));
  Device& management = context.management();
  const auto others = {wire::kTargetPhysical, kNeighbour, kBusy};
  const auto before = standings(management, others);
  unsigned attempts = 0, joined = 0, answered = 0;
  bool counted = true, after_its_end = true, typed = true;
  context.trigger();
  const auto whole = [&] { return counted && after_its_end && typed; };
  const auto last_attempt = ScenarioContext::Clock::now() + context.timeout();
  while (whole() && (attempts < kFewest || (joined == 0 && ScenarioContext::Clock::now() < last_attempt))) {
    ++attempts;
    const ControlBlock spin = context.kernel("spin", kManySlices);
    const std::uint64_t first = context.stream().submitted() + 1;
    (void)context.stream().submit(spin);
    (void)context.stream().wait_started(first, context.timeout());
    const Pair pair = reset_twice_at_once(context);
    answered += pair.answered;
    after_its_end = pair.after_its_end && after_its_end;
    counted = pair.generations == kGenerationsPerReset * pair.resets && pair.resets >= 1 && pair.resets <= 2 && counted;
    joined += pair.resets == 1 ? 1 : 0;
    typed = told_of_reset(context, context.faulting(), context.stream()) && typed;
    context.close_faulting();
  }
  // What went wrong early is found all the same.
  context.claim(Proof::Fired, "joined", joined != 0 || !whole(),
                "in none of " + std::to_string(attempts) + " attempts");
  context.claim(Proof::Detected, "answered", answered == 2 * attempts,
                std::to_string(answered) + " of " + std::to_string(2 * attempts));
  context.claim(Proof::Detected, "after its end", after_its_end, "a request was answered before a reset had ended");
  context.claim(Proof::Detected, "counted", counted, "generation and resets do not agree, or are not one or two more");
  context.claim(Proof::Detected, "typed", typed, "a block never ended");
  context.claim(Proof::Contained, "standing", standings(management, others) == before);
  const std::string kernel = busy.open_gate();
  context.claim(Proof::Contained, "kernel in flight", kernel.empty(), kernel);
  context.contained();
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  while (figures_of(management, kFaultingTarget).state == FunctionState::Resetting &&
         ScenarioContext::Clock::now() < limit) {
    std::this_thread::yield();
  }
  context.recover_function();
}

}  // namespace svp::campaign
