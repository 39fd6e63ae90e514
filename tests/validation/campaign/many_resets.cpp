// SPDX-License-Identifier: Apache-2.0
// F39: a thousand resets of streams, queues and functions, at periods that have no common divisor, so that each kind
// meets each other kind and every phase of the load.
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
constexpr std::size_t kStreams = 3;
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
  Owner(ScenarioContext& context, Counts& counts)
      : context_(context), counts_(counts), device_(context.faulting()), spin_(context.kernel("spin", kManySlices)) {
    short_ = context.kernel("empty", kManySlices);
    for (auto& stream : streams_) stream = std::make_unique<TestStream>(device_);
    for (std::size_t i = 0; i < kStreams; ++i) incarnations_[i] = device_.stream_incarnation(streams_[i]->stream());
  }
  ~Owner() {
    for (const auto& stream : streams_) context_.keep_trace(*stream);
  }
  Owner(const Owner&) = delete;
  Owner& operator=(const Owner&) = delete;

  // A few blocks more on one stream.
  void load(unsigned step) {
    const std::size_t which = step % kStreams;
    std::vector<ControlBlock> blocks;
    for (std::size_t i = 1 + context_.random()() % 6; i > 0; --i) blocks.push_back(block(which));
    if (!streams_[which]->submit(blocks)) wrong("no room for blocks");
    kinds_[which].insert(kinds_[which].end(), blocks.begin(), blocks.end());
    counts_.blocks += blocks.size();
  }
  void reset_stream(unsigned step) {
    const std::size_t which = step / kStreamPeriod % kStreams;
    ++counts_.streams;
    ++incarnations_[which];
    if (const auto reset = streams_[which]->reset(); !reset) return wrong(reset.error().message);
    expect_ended(which);
  }
  void reset_queues() {
    ++counts_.queues;
    for (auto& incarnation : incarnations_) ++incarnation;
    if (const auto reset = device_.reset_queues(); !reset) return wrong(reset.error().message);
    for (std::size_t i = 0; i < kStreams; ++i) expect_ended(i);
  }
  // By M, under the load. The object is of no use afterwards.
  void reset_function() {
    ++counts_.functions;
    auto& management = context_.management();
    const auto target = wire::target_of_virtual(kFaulting);
    const std::uint64_t before = figures_of(management, target).resets;
    const auto reply = manage(management, wire::AdminCommand::FunctionReset, target);
    if (std::string reason = ok_or_reason(reply); !reason.empty()) return wrong(reason);
    if (reply.values.function.resets != before + 1) wrong("a function reset was not counted once");
    for (std::size_t i = 0; i < kStreams; ++i) {
      (void)told_of_reset(context_, device_, *streams_[i]);
      expect_ended(i);
    }
  }
  void take_and_give_a_region() {
    const auto region = device_.acquire_region(RegionType::Tensor, wire::kGranuleBytes);
    if (!region || !device_.release_region(*region)) wrong("a region could not be had or given back");
  }
  void check() {
    if (std::string bad = context_.good_job(context_.builder(), context_.stream()); !bad.empty()) wrong(std::move(bad));
  }
  const std::string& wrong() const { return wrong_; }

 private:
  ControlBlock block(std::size_t which) {
    const BlockBuilder& builder = context_.builder();
    const bool kernel = which == 0 || (which == 2 && context_.random()() % 2 == 0);
    if (kernel) return context_.random()() % 2 == 0 ? spin_ : short_;
    switch (context_.random()() % 4) {
      case 0: return BlockBuilder::dma(builder.host(0), builder.tensor(2 * kOwnerBytes), kOwnerBytes);
      case 1: return BlockBuilder::dma(builder.tensor(2 * kOwnerBytes), builder.host(2 * kOwnerBytes), kOwnerBytes);
      case 2: return BlockBuilder::fill(builder.tensor(3 * kOwnerBytes), kOwnerBytes, context_.seed());
      default: return BlockBuilder::nop();
    }
  }
  // Every block has ended, once, and in one of the ways that a reset leaves.
  void expect_ended(std::size_t which) {
    const TestStream& stream = *streams_[which];
    if (stream.ended() != stream.submitted()) return wrong("a block ended twice or never");
    const auto ends = stream.endings(judged_[which]);
    for (std::size_t i = 0; i < ends.size(); ++i) {
      const Opcode opcode = kinds_[which][i].header.opcode;
      const bool stopped = ends[i].outcome == Outcome::Fault && ends[i].status == Status::Stopped;
      if (stopped && opcode == Opcode::Compute) ++counts_.kernels_stopped;
      if (stopped && opcode != Opcode::Compute) ++counts_.transfers_stopped;
      const bool known = stopped || ends[i].outcome == Outcome::Ok || ends[i].outcome == Outcome::Aborted ||
                         ends[i].outcome == Outcome::Lost || ends[i].outcome == Outcome::Indeterminate;
      if (!known) wrong("a block ended " + std::string(wire::name(ends[i].outcome)));
    }
    judged_[which] = stream.ended();
    kinds_[which].clear();
    if (device_.failure()) return;
    if (device_.stream_incarnation(stream.stream()) != incarnations_[which]) wrong("a reset was not counted once");
  }
  void wrong(std::string what) {
    if (wrong_.empty()) wrong_ = std::move(what);
  }

  ScenarioContext& context_;
  Counts& counts_;
  Device& device_;
  ControlBlock spin_;
  ControlBlock short_{};
  std::array<std::unique_ptr<TestStream>, kStreams> streams_;
  std::array<std::uint32_t, kStreams> incarnations_{};
  std::array<std::size_t, kStreams> judged_{};
  std::array<std::vector<ControlBlock>, kStreams> kinds_;
  std::string wrong_;
};

// Until a thousand are done; empty: all was right.
std::string run(ScenarioContext& context, std::unique_ptr<Owner> owner, Counts& counts) {
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
    context.close_faulting();
    owner = std::make_unique<Owner>(context, counts);
  }
  if (owner->wrong().empty()) owner->reset_queues();  // what is left
  return owner->wrong();
}

}  // namespace

void thousand_resets(ScenarioContext& context) {
  context.bystander();
  Counts counts;
  auto owner = std::make_unique<Owner>(context, counts);
  context.trigger();
  const std::string wrong = run(context, std::move(owner), counts);
  // What went wrong early is found all the same.
  const bool early = !wrong.empty();
  context.claim(Proof::Fired, "resets", early || counts.resets() >= kResets,
                std::to_string(counts.resets()) + " of them");
  context.claim(Proof::Fired, "kernels in flight", early || counts.kernels_stopped != 0);
  context.claim(Proof::Fired, "transfers in flight", early || counts.transfers_stopped != 0);
  context.claim(Proof::Detected, "exactly once", wrong.empty(), wrong);
  context.contained();
  context.close_faulting();
  const std::string job = context.good_job();
  context.claim(Proof::Recovered, "good job", job.empty(), job);
}

}  // namespace svp::campaign
