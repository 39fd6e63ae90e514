// SPDX-License-Identifier: Apache-2.0
// F37: a function that wants everything, and what its neighbour gets while that lasts, as the card counts it.
#include <algorithm>
#include <string>
#include <vector>

#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::Outcome;
using wire::Status;

constexpr wire::Target kFlooding = wire::target_of_virtual(kFaulting), kWaiting = wire::target_of_virtual(kThird);

// docs/protocol.md, "Fairness": a quantum's bytes and the step in which they are used up.
constexpr std::uint64_t kQuantumBytes = 512 * wire::kKiB + 256 * wire::kKiB;
// Beside the waiting function: the two that flood, the neighbour that always works, and M, which asks and moves
// nothing. One has kernels.
constexpr std::uint64_t kOthers = 4, kOthersThatMove = 3, kOthersWithKernels = 1;

// A stream full of copies of megabytes, kept full.
class Copies {
 public:
  Copies(TestStream& stream, const BlockBuilder& builder)
      : stream_(stream), copy_(BlockBuilder::dma(builder.tensor(0), builder.tensor(2 * wire::kMiB), 2 * wire::kMiB)) {}
  void keep_up() {
    const std::size_t missing = wire::kStreamCredits - (stream_.submitted() - stream_.ended());
    if (missing >= wire::kStreamCredits / 4) (void)stream_.submit(std::vector<ControlBlock>(missing, copy_));
  }
  // Work is queued or under way, and none of it has failed.
  bool lasts() const {
    return stream_.ended() < stream_.submitted() && stream_.ended_with(Outcome::Ok) == stream_.ended();
  }
  // Empty: every copy ended OK.
  std::string end(ScenarioContext& context) {
    if (!stream_.wait_all(context.timeout())) return "the flood does not end";
    return stream_.ended_with(Outcome::Ok) == stream_.ended() ? std::string() : "a copy of the flood failed";
  }

 private:
  TestStream& stream_;
  ControlBlock copy_;
};

// Copies of two functions, so that whoever waits finds both full, and an endless kernel of the first.
class Flood {
 public:
  Flood(ScenarioContext& context, Device& device, Device& second)
      : kernels_(device),
        second_builder_(second),
        second_stream_(second),
        first_copies_(context.stream(), context.builder()),
        second_copies_(second_stream_, second_builder_) {
    (void)kernels_.submit(context.kernel("spin", kManySlices));
    started_ = kernels_.wait_started(1, context.timeout());  // what it was charged with to be loaded is no flood
    keep_up();
  }
  void keep_up() {
    first_copies_.keep_up();
    second_copies_.keep_up();
  }
  // All of it is under way, and none of it has failed.
  bool lasts() const { return kernel_lasts() && first_copies_.lasts() && second_copies_.lasts(); }
  bool kernel_lasts() const { return started_ && kernels_.ended() == 0; }
  // Empty: every copy ended OK, and the kernel when its stream was reset.
  std::string end(ScenarioContext& context) {
    for (Copies* copies : {&first_copies_, &second_copies_}) {
      if (const std::string wrong = copies->end(context); !wrong.empty()) return wrong;
    }
    if (const auto reset = kernels_.reset(); !reset) return reset.error().message;
    return kernels_.ended_with(Outcome::Fault) == 1 ? std::string() : "the endless kernel was not stopped";
  }

 private:
  TestStream kernels_;
  bool started_ = false;
  BlockBuilder second_builder_;
  TestStream second_stream_;
  Copies first_copies_;
  Copies second_copies_;
};

// Regions until the card says no. Empty: it said that the quota is used up, and the function holds no more than that.
std::string take_all(ScenarioContext& context, std::uint64_t quota, std::vector<Region>& held) {
  for (;;) {  // bounded: by the number of regions that a function can hold
    const auto region = context.faulting().acquire_region(RegionType::Tensor, 4 * wire::kMiB);
    if (region) {
      held.push_back(*region);
      if (held.size() > wire::kRegionsPerFunction) return "nothing stopped it";
      continue;
    }
    const std::uint64_t granted = figures_of(context.management(), kFlooding).granted_bytes;
    if (granted > quota) return std::to_string(granted) + " bytes granted";
    const bool by_quota = region.error().message.contains(wire::name(Status::QuotaExceeded));
    return by_quota ? std::string() : region.error().message;
  }
}

// Beside a kernel on core 0 a self-test of another function is over before its first round. Empty: it was.
std::string self_test_beside(Device& device) {
  constexpr std::uint32_t kRounds = 64;
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::SelfTest;
  request.arguments.self_test = {wire::SelfTestKind::EnterExit, kRounds, 0};
  const auto reply = value_or_throw(device.admin(request));
  if (reply.outcome != Outcome::Ok) return "a self-test was refused: " + std::string(wire::name(reply.status));
  const std::uint64_t rounds = reply.values.self_test.rounds;
  return rounds == 0 ? std::string() : std::to_string(rounds) + " rounds of a self-test while others waited";
}

}  // namespace

void noisy_neighbour(ScenarioContext& context) {
  constexpr std::uint64_t kQuota = 16 * wire::kMiB;  // half of it is the block builder's
  constexpr unsigned kFewestRounds = 20, kMostRounds = 2000;
  context.bystander();
  context.set_quota(kQuota);
  Device& flooding = context.faulting();
  const auto second = value_or_throw(context.card().open_physical());
  context.trigger();
  Flood flood(context, flooding, *second);  // first: its launch is made ready before anybody waits
  BusyTenant waiting(context, context.open(kThird));
  const std::string kernel = waiting.open_gate();  // of this one short jobs are enough
  std::vector<Region> held;
  const std::string over = take_all(context, kQuota, held);
  const std::uint64_t neighbour = context.bystander().rounds();
  // Until it has waited for the flood: on a busy machine many rounds may pass beside an emulator that has no CPU. A
  // round counts when the flood lasted longer than it: a host that gets no CPU keeps nothing up.
  std::string wrong = kernel;
  unsigned rounds = 0, in_the_flood = 0;
  FunctionFigures waited{};
  while (wrong.empty() && rounds < kMostRounds) {
    flood.keep_up();
    waiting.start_jobs();
    wrong = waiting.finish_jobs();
    ++rounds;
    if (flood.lasts()) ++in_the_flood;
    if (rounds % 4 != 0) continue;
    waited = figures_of(context.management(), kWaiting);
    if (in_the_flood >= kFewestRounds && waited.waited_quanta != 0 && waited.waited_slices != 0) break;
  }
  // Likewise: two more rounds of the neighbour, and the flood lasted longer.
  bool gets_on = false, lasted = false;
  for (unsigned look = 0; look < kMostRounds && !lasted; ++look) {
    flood.keep_up();
    gets_on = context.bystander().gets_on(context.timeout());
    lasted = flood.lasts();
    if (!gets_on) break;
  }
  const std::string tested = self_test_beside(*second);
  context.claim(Proof::Fired, "kernel lasts", flood.kernel_lasts(), "the kernel beside the self-test ended");
  context.claim(Proof::Fired, "flood lasts", lasted && in_the_flood >= kFewestRounds,
                "longer than " + std::to_string(in_the_flood) + " of " + std::to_string(rounds) + " rounds only");
  context.claim(Proof::Fired, "waited for the flood", waited.waited_quanta != 0 && waited.waited_slices != 0,
                "not in " + std::to_string(rounds) + " rounds");
  context.claim(Proof::Detected, "quota", over.empty(), over);
  context.claim(Proof::Contained, "jobs", wrong.empty(), wrong);
  context.claim(Proof::Contained, "quanta", waited.waited_quanta <= kOthers,
                std::to_string(waited.waited_quanta) + " quanta of others at a time");
  context.claim(Proof::Contained, "bytes", waited.waited_bytes <= (kOthersThatMove + 1) * kQuantumBytes,
                std::to_string(waited.waited_bytes) + " bytes of others at a time");
  context.claim(Proof::Contained, "slices", waited.waited_slices <= kOthersWithKernels,
                std::to_string(waited.waited_slices) + " slices of others at a time");
  context.claim(Proof::Contained, "self-test", tested.empty(), tested);
  context.claim(Proof::Contained, "neighbour goes on", gets_on && context.bystander().rounds() > neighbour);
  const std::string ended = flood.end(context);
  context.claim(Proof::Detected, "flood ends", ended.empty(), ended);
  for (const Region& region : held) value_or_throw(flooding.release_region(region));
  context.contained();
  context.set_quota(0);
  const std::string job = context.good_job();
  context.claim(Proof::Recovered, "good job", job.empty(), job);
}

}  // namespace svp::campaign
