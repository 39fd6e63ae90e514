// SPDX-License-Identifier: Apache-2.0
// F37 and F39: functions that are reset, and functions that want everything.
#include <string>
#include <vector>

#include "host_driver/campaign/scenarios.hpp"

namespace flex::campaign {

namespace {

using wire::ControlBlock;
using wire::Status;

}  // namespace

void noisy_neighbour(Trial& trial) {
  constexpr std::uint64_t kQuota = 16 * wire::kMiB;
  trial.innocent();
  trial.set_quota(kQuota);
  Lane& lane = trial.lane();
  Desk& desk = trial.desk();  // half of the quota
  trial.let_loose();
  const std::uint64_t rounds = trial.innocent().rounds();
  // A ring full of copies, and memory without end.
  const std::vector<ControlBlock> copies(
      wire::kStreamCredits,
      Desk::dma(Desk::in(desk.tensor(), 0), Desk::in(desk.tensor(), 2 * wire::kMiB), 2 * wire::kMiB));
  const bool flooded = lane.submit(copies);
  std::vector<Region> held;
  std::string over;
  for (int i = 0; i < 16; ++i) {
    const auto region = trial.guilty().acquire_region(RegionType::Tensor, 4 * wire::kMiB);
    if (!region) {
      over = region.error().message;
      break;
    }
    held.push_back(*region);
  }
  trial.fired(flooded && !held.empty(), "a ring full of copies, regions without end");
  trial.detected(over.contains(wire::name(Status::QuotaExceeded)), over.empty() ? "nothing stopped it" : over);
  const bool gets_on = trial.innocent().gets_on(trial.patience());
  trial.contained(gets_on, std::to_string(trial.innocent().rounds() - rounds) + " rounds beside the flood");
  trial.contained(lane.wait_all(trial.patience()), "the flood ends");
  for (const Region& region : held) value_of(trial.guilty().release_region(region));
  trial.contained();
  trial.set_quota(0);
  const std::string wrong = trial.good_job(desk, lane);
  trial.recovered(wrong.empty(), wrong.empty() ? "the guilty one works within its quota" : wrong);
}

void thousand_resets(Trial& trial) {
  constexpr int kResets = 1000;
  constexpr int kFunctionEvery = 37, kAllocateEvery = 7, kCheckEvery = 101;  // co-prime
  trial.innocent();
  std::string wrong;
  int functions = 0, resets = 0;
  std::size_t blocks = 0;
  trial.let_loose();
  for (int i = 1; i <= kResets && wrong.empty(); ++i) {
    ++resets;
    Lane& lane = trial.lane();
    const std::size_t some = 1 + trial.random()() % 16;
    if (!lane.submit(std::vector<ControlBlock>(some, Desk::nop()))) wrong = "no room";
    blocks += some;
    if (i % kAllocateEvery == 0) {
      const auto region = trial.guilty().acquire_region(RegionType::Tensor, wire::kGranuleBytes);
      if (!region || !trial.guilty().release_region(*region)) wrong = "a region could not be had or given back";
    }
    if (i % kFunctionEvery == 0) {
      ++functions;
      trial.close_guilty();
      continue;
    }
    if (const auto reset = lane.reset(); !reset) wrong = reset.error().message;
    if (lane.ended() != lane.submitted()) wrong = "a block never ended";
    if (i % kCheckEvery == 0 && wrong.empty()) wrong = trial.good_job(trial.desk(), lane);
  }
  trial.fired(resets != 0 && blocks != 0, std::to_string(resets - functions) + " stream resets, " +
                                              std::to_string(functions) + " function resets, " +
                                              std::to_string(blocks) + " blocks");
  trial.detected(wrong.empty() && resets == kResets, wrong.empty() ? "each block ended exactly once" : wrong);
  trial.contained();
  trial.recover_stream();
}

}  // namespace flex::campaign
