// SPDX-License-Identifier: Apache-2.0
// F39: a thousand resets of streams, queues and functions, at periods that have no common divisor, so that each kind meets
// each other kind and every phase of the load.
#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::Opcode;
using wire::Outcome;
using wire::Status;

constexpr unsigned kResets = 1000;
// In steps of the load.
constexpr unsigned kStreamPeriod = 2, kQueuePeriod = 7, kFunctionPeriod = 101, kRegionPeriod = 5, kCheckPeriod = 97;
constexpr std::size_t kLanes = 3;
constexpr std::uint64_t kOwnerBytes = 1 * wire::kMiB;

struct Counts {
  unsigned streams = 0, queues = 0, functions = 0;
  std::uint64_t blocks = 0;
  std::uint64_t kernels_stopped = 0, transfers_stopped = 0;
  unsigned resets() const { return streams + queues + functions; }
};

// The faulting function between two of its resets: kernels on one stream, transfers on another, both on the third.
class Owner {
 public:
  Owner(Trial& trial, Counts& counts)
      : trial_(trial), counts_(counts), device_(trial.guilty()), spin_(trial.kernel("spin", kManySlices)) {
    short_ = trial.kernel("empty", kManySlices);
    for (auto& lane : lanes_) lane = std::make_unique<Lane>(device_);
    for (std::size_t i = 0; i < kLanes; ++i) incarnations_[i] = device_.stream_incarnation(lanes_[i]->stream());
  }
  ~Owner() {
    for (const auto& lane : lanes_) trial_.keep_trace(*lane);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  // A few blocks more on one stream.
  void load(unsigned step) {
    const std::size_t which = step % kLanes;
    std::vector<ControlBlock> blocks;
    for (std::size_t i = 1 + trial_.random()() % 6; i > 0; --i) blocks.push_back(block(which));
    if (!lanes_[which]->submit(blocks)) wrong("no room for blocks");
    kinds_[which].insert(kinds_[which].end(), blocks.begin(), blocks.end());
    counts_.blocks += blocks.size();
  }
  void reset_stream(unsigned step) {
    const std::size_t which = step / kStreamPeriod % kLanes;
    ++counts_.streams;
    ++incarnations_[which];
    if (const auto reset = lanes_[which]->reset(); !reset) return wrong(reset.error().message);
    expect_ended(which);
  }
  void reset_queues() {
    ++counts_.queues;
    for (auto& incarnation : incarnations_) ++incarnation;
    if (const auto reset = device_.reset_queues(); !reset) return wrong(reset.error().message);
    for (std::size_t i = 0; i < kLanes; ++i) expect_ended(i);
  }
  // By M, under the load. The object is of no use afterwards.
  void reset_function() {
    ++counts_.functions;
    auto& management = trial_.management();
    const auto target = wire::target_of_virtual(kGuilty);
    const std::uint64_t before = figures_of(management, target).resets;
    const auto reply = manage(management, wire::AdminCommand::FunctionReset, target);
    if (std::string reason = ok_or_reason(reply); !reason.empty()) return wrong(reason);
    if (reply.values.function.resets != before + 1) wrong("a function reset was not counted once");
    for (std::size_t i = 0; i < kLanes; ++i) {
      (void)heard_of_reset(trial_, device_, *lanes_[i]);
      expect_ended(i);
    }
  }
  void take_and_give_a_region() {
    const auto region = device_.acquire_region(RegionType::Tensor, wire::kGranuleBytes);
    if (!region || !device_.release_region(*region)) wrong("a region could not be had or given back");
  }
  void check() {
    if (std::string bad = trial_.good_job(trial_.desk(), trial_.lane()); !bad.empty()) wrong(std::move(bad));
  }
  const std::string& wrong() const { return wrong_; }

 private:
  ControlBlock block(std::size_t which) {
    const Desk& desk = trial_.desk();
    const bool kernel = which == 0 || (which == 2 && trial_.random()() % 2 == 0);
    if (kernel) return trial_.random()() % 2 == 0 ? spin_ : short_;
    switch (trial_.random()() % 4) {
      case 0: return Desk::dma(desk.host(0), Desk::in(desk.tensor(), 2 * kOwnerBytes), kOwnerBytes);
      case 1: return Desk::dma(Desk::in(desk.tensor(), 2 * kOwnerBytes), desk.host(2 * kOwnerBytes), kOwnerBytes);
      case 2: return Desk::fill(Desk::in(desk.tensor(), 3 * kOwnerBytes), kOwnerBytes, trial_.seed());
      default: return Desk::nop();
    }
  }
  // Every block has ended, once, and in one of the ways that a reset leaves.
  void expect_ended(std::size_t which) {
    const Lane& lane = *lanes_[which];
    if (lane.ended() != lane.submitted()) return wrong("a block ended twice or never");
    const auto ends = lane.endings(judged_[which]);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Opcode opcode = kinds_[which][i].header.opcode;
      const bool stopped = ends[i].outcome == Outcome::Fault && ends[i].status == Status::Stopped;
      if (stopped && opcode == Opcode::Compute) ++counts_.kernels_stopped;
      if (stopped && opcode != Opcode::Compute) ++counts_.transfers_stopped;
      const bool known = stopped || ends[i].outcome == Outcome::Ok || ends[i].outcome == Outcome::Aborted ||
                         ends[i].outcome == Outcome::Lost || ends[i].outcome == Outcome::Indeterminate;
      if (!known) wrong("a block ended " + std::string(wire::name(ends[i].outcome)));
    }
    judged_[which] = lane.ended();
    kinds_[which].clear();
    if (device_.failure()) return;
    if (device_.stream_incarnation(lane.stream()) != incarnations_[which]) wrong("a reset was not counted once");
  }
  void wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  Trial& trial_;
  Counts& counts_;
  Device& device_;
  ControlBlock spin_;
  ControlBlock short_{};
  std::array<std::unique_ptr<Lane>, kLanes> lanes_;
  std::array<std::uint32_t, kLanes> incarnations_{};
  std::array<std::size_t, kLanes> judged_{};
  std::array<std::vector<ControlBlock>, kLanes> kinds_;
  std::string wrong_;
};

// Until a thousand are done; empty: all was right.
std::string run(Trial& trial, std::unique_ptr<Owner> owner, Counts& counts) {
  for (unsigned step = 1; counts.resets() < kResets && owner->wrong().empty(); ++step) {
    owner->load(step);
    if (step % kRegionPeriod == 0) owner->take_and_give_a_region();
    if (step % kStreamPeriod == 0) owner->reset_stream(step);
    if (step % kQueuePeriod == 0) owner->reset_queues();
    if (step % kCheckPeriod == 0) owner->check();
    if (step % kFunctionPeriod != 0) continue;
    owner->reset_function();
    if (!owner->wrong().empty()) break;
    owner.reset();
    trial.close_guilty();
    owner = std::make_unique<Owner>(trial, counts);
  }
  if (owner->wrong().empty()) owner->reset_queues();  // what is left
  return owner->wrong();
}

}  // namespace

void thousand_resets(Trial& trial) {
  trial.innocent();
  Counts counts;
  auto owner = std::make_unique<Owner>(trial, counts);
  trial.let_loose();
  const std::string wrong = run(trial, std::move(owner), counts);
  // What went wrong early is found all the same.
  const bool early = !wrong.empty();
  trial.claim(Proof::Fired, "resets", early || counts.resets() >= kResets,
              std::to_string(counts.resets()) + " of them");
  trial.claim(Proof::Fired, "kernels in flight", early || counts.kernels_stopped != 0);
  trial.claim(Proof::Fired, "transfers in flight", early || counts.transfers_stopped != 0);
  trial.claim(Proof::Detected, "exactly once", wrong.empty(), wrong);
  trial.contained();
  trial.close_guilty();
  const std::string job = trial.good_job();
  trial.claim(Proof::Recovered, "good job", job.empty(), job);
}

}  // namespace svp::campaign
