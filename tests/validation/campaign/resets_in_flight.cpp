// SPDX-License-Identifier: Apache-2.0
// F17: a stream, the queue or the whole function is reset while blocks are in flight: 0, 1 µs and 10 ms after the
// doorbell, and when the first kernel has begun; with none, 1 and 16 blocks of a stream, and with every slot of the
// ring taken. The first block of each stream is a kernel that never ends by itself, so nothing ends before the reset.
#include <algorithm>
#include <array>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::Completion;
using wire::ControlBlock;
using wire::Outcome;
using wire::Status;

enum class Reset : std::uint8_t { Stream, Queue, Function };
constexpr std::array kKinds{Reset::Stream, Reset::Queue, Reset::Function};
constexpr std::string_view name_of(Reset reset) {
  constexpr std::array<std::string_view, kKinds.size()> kNames{"stream-reset", "queue-reset", "function-reset"};
  return kNames[static_cast<std::size_t>(reset)];
}

// They are what is tested; nothing is judged by them.
struct Delay {
  std::string_view name;
  std::chrono::microseconds time;
  bool begun = false;  // instead: until the card has begun with the first block
};
constexpr Delay kDelays[] = {
    {"0", {}}, {"1us", std::chrono::microseconds{1}}, {"10ms", std::chrono::milliseconds{10}}, {"begun", {}, true}};

struct Load {
  std::string_view name;
  unsigned streams;
  unsigned blocks;  // of each
};
constexpr unsigned kStreamsOfARing = wire::kControlBlockSlots / wire::kStreamCredits;
static_assert(kStreamsOfARing * wire::kStreamCredits == wire::kControlBlockSlots);
constexpr Load kLoads[] = {
    {"none", 1, 0}, {"1", 1, 1}, {"16", 1, 16}, {"full-ring", kStreamsOfARing, wire::kStreamCredits}};

void wait_for(std::chrono::microseconds time) {
  const auto end = ScenarioContext::Clock::now() + time;
  if (time >= std::chrono::milliseconds{1}) {
    std::this_thread::sleep_until(end);  // bounded: a delay of kDelays, which the scenario is about
  }
  while (ScenarioContext::Clock::now() < end) {
  }
}

class InFlight {
 public:
  explicit InFlight(ScenarioContext& context) : context_(context) { kernel_ = context.kernel("spin", kManySlices); }

  // One claim: each block ended once, as this reset says.
  // False: a claim does not hold, and what comes behind it would be judged by what this left.
  bool attempt(Reset reset, const Delay& delay, const Load& load) {
    const std::string name = std::string(name_of(reset)) + "/" + std::string(delay.name) + "/" + std::string(load.name);
    std::string wrong = fill(load);
    wait_for(delay.time);
    const bool begun = delay.begun && load.blocks != 0;
    if (begun && !streams_.front()->wait_started(1, context_.timeout())) wrong = "the first kernel never began";
    context_.claim(Proof::Fired, name, outstanding() == load.streams * load.blocks,
                   "a block had ended before its reset");
    const std::string failed = perform(reset);
    if (wrong.empty()) wrong = failed;
    for (const auto& stream : streams_) {
      if (wrong.empty()) wrong = judge(*stream, reset, begun && stream == streams_.front());
    }
    context_.claim(Proof::Detected, name, wrong.empty(), wrong);
    for (const auto& stream : streams_) context_.keep_trace(*stream);
    streams_.clear();
    if (reset != Reset::Function && wrong.empty()) return true;
    context_.close_faulting();
    kernel_ = context_.kernel("spin", kManySlices);
    return wrong.empty();
  }

 private:
  std::string fill(const Load& load) {
    std::vector<ControlBlock> blocks(load.blocks, BlockBuilder::nop());
    if (!blocks.empty()) blocks.front() = kernel_;
    for (unsigned i = 0; i < load.streams; ++i) {
      streams_.push_back(std::make_unique<TestStream>(context_.faulting()));
    }
    if (load.streams == kStreamsOfARing) streams_.push_back(std::make_unique<TestStream>(context_.faulting()));
    for (unsigned i = 0; i < load.streams; ++i) {
      if (!streams_[i]->submit(blocks)) return "no room for " + std::to_string(load.blocks) + " blocks";
    }
    // A stream that has all its credits is refused, because no slot is left.
    if (load.streams == kStreamsOfARing) {
      context_.claim(Proof::Fired, "full-ring", !streams_.back()->submit(BlockBuilder::nop()),
                     "there was room for one more block");
    }
    return {};
  }

  std::size_t outstanding() {
    std::size_t sum = 0;
    for (const auto& stream : streams_) sum += context_.faulting().outstanding(stream->stream());
    return sum;
  }

  std::string perform(Reset reset) {
    Device& faulting = context_.faulting();
    if (reset == Reset::Queue) {
      const auto done = faulting.reset_queues();
      return done ? std::string() : done.error().message;
    }
    if (reset == Reset::Stream) {
      for (const auto& stream : streams_) {
        if (const auto done = stream->reset(); !done) return done.error().message;
      }
      return {};
    }
    const auto reply =
        manage(context_.management(), wire::AdminCommand::FunctionReset, wire::target_of_virtual(kFaulting));
    if (reply.outcome != Outcome::Ok) return ok_or_reason(reply);
    for (const auto& stream : streams_) {
      if (!told_of_reset(context_, faulting, *stream)) return "the driver was not told, or a block never ended";
    }
    return {};
  }

  // The card answers for what a stream or queue reset ended. After M's function reset it answers nothing, and what it
  // had published is cleared: the driver cannot know.
  static bool ended_rightly(const Completion& end, Reset reset, bool may_have_begun, bool has_begun) {
    if (reset == Reset::Function) return end.outcome == Outcome::Indeterminate;
    const bool stopped = end.outcome == Outcome::Fault && end.status == Status::Stopped;
    return has_begun ? stopped : end.outcome == Outcome::Aborted || (may_have_begun && stopped);
  }
  static std::string judge(const TestStream& stream, Reset reset, bool begun) {
    const auto all = stream.endings();
    if (all.size() != stream.submitted()) {
      return std::to_string(all.size()) + " endings of " + std::to_string(stream.submitted()) + " blocks";
    }
    std::set<std::uint64_t> sequences;
    for (const Completion& end : all) {
      if (!sequences.insert(end.sequence).second) return "a block ended twice";
      const bool first = sequences.size() == 1;
      if (ended_rightly(end, reset, first, first && begun)) continue;
      return "block " + std::to_string(sequences.size()) + " ended " + std::string(wire::name(end.outcome)) + ", " +
             std::string(wire::name(end.status));
    }
    return {};
  }

  ScenarioContext& context_;
  ControlBlock kernel_{};
  std::vector<std::unique_ptr<TestStream>> streams_;
};

void attempt_all(InFlight& work) {
  for (const Reset reset : kKinds) {
    for (const Delay& delay : kDelays) {
      for (const Load& load : kLoads) {
        if (!work.attempt(reset, delay, load)) return;
      }
    }
  }
}

}  // namespace

void reset_with_work_in_flight(ScenarioContext& context) {
  context.bystander();
  InFlight work(context);
  context.trigger();
  attempt_all(work);
  context.contained();
  context.recover_stream();
}

}  // namespace svp::campaign
