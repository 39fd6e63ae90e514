// SPDX-License-Identifier: Apache-2.0
// F34 to F37 and F39: functions that are reset, and functions that want everything.
#include <algorithm>
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/campaign/scenarios.hpp"

namespace flex::campaign {

namespace {

using wire::ControlBlock;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kSecret = 0x5EC2'E7D0'5EC2'E7D0;
constexpr std::uint64_t kManySlices = 1'000'000;

wire::AdminReply manage(Device& management, wire::AdminCommand command, wire::Target target) {
  wire::AdminRequest request{};
  request.command = command;
  request.arguments.function = {target, 0};
  return value_of(management.admin(request));
}

std::string ok_or_reason(const wire::AdminReply& reply) {
  if (reply.outcome == Outcome::Ok) return {};
  return std::string(wire::name(reply.outcome)) + ", " + std::string(wire::name(reply.status));
}

}  // namespace

void reset_of_one_leaves_the_others(Trial& trial) {
  trial.innocent();
  const ControlBlock spin = trial.kernel("spin", kManySlices);
  Lane& lane = trial.lane();
  // A third one with a kernel in flight.
  const auto third = trial.open(kThird);
  Desk its_desk(*third);
  Lane its_lane(*third);
  const auto image = kernel_image(trial.card(), "spin");
  its_desk.load(its_lane, 0, image);
  const std::size_t before = its_lane.ended();
  const ControlBlock blocks[] = {its_desk.compute(0, image.size(), kManySlices), Desk::nop()};
  bool running = its_lane.submit(blocks) && its_lane.wait_started(before + 1, trial.patience());
  running = running && lane.submit(spin) && lane.wait_started(lane.submitted(), trial.patience());
  trial.fired(running, "kernels of two functions run");
  trial.let_loose();
  const std::string reason =
      ok_or_reason(manage(trial.management(), wire::AdminCommand::FunctionReset, wire::target_of_virtual(kGuilty)));
  const auto stopped = trial.guilty().wait_until([&] { return trial.guilty().failure().has_value(); },
                                                 Trial::Clock::now() + trial.patience());
  const auto ended = lane.endings();
  trial.detected(reason.empty() && stopped != WaitStatus::TimedOut && ended.size() == lane.submitted(),
                 reason.empty() ? "its kernel ended " + std::string(wire::name(ended.back().outcome)) : reason);
  trial.contained(its_lane.ended() == before, "the third one's kernel runs on");
  const bool reset = its_lane.reset().has_value();
  const auto its = its_lane.endings();
  trial.contained(reset && its.size() == before + 2 && its[before].outcome == Outcome::Fault &&
                      its[before + 1].outcome == Outcome::Aborted,
                  "and ends when its owner says so");
  trial.contained();
  trial.recover_function();
}

void reset_of_all_in_parallel(Trial& trial) {
  constexpr unsigned kAll[] = {kGuilty, kInnocent, kThird};
  Device& management = trial.management();
  const auto resets_of = [&](unsigned function) {
    const auto target = wire::target_of_virtual(function);
    return manage(management, wire::AdminCommand::FunctionQuery, target).values.function.resets;
  };
  std::vector<std::uint64_t> before;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<std::unique_ptr<Lane>> lanes;
  for (const unsigned function : kAll) {
    devices.push_back(trial.open(function));
    before.push_back(resets_of(function));
    lanes.push_back(std::make_unique<Lane>(*devices.back()));
    const Region region = value_of(devices.back()->acquire_region(RegionType::Tensor, 8 * wire::kMiB));
    (void)lanes.back()->submit(Desk::fill(Desk::in(region, 0), 8 * wire::kMiB, kSecret));
  }
  std::atomic<int> done{0};
  trial.let_loose();
  {
    std::vector<std::jthread> threads;
    for (const unsigned function : kAll) {
      threads.emplace_back([&, function] {
        const auto reply = management.admin([&] {
          wire::AdminRequest request{};
          request.command = wire::AdminCommand::FunctionReset;
          request.arguments.function = {wire::target_of_virtual(function), 0};
          return request;
        }());
        if (reply && reply->outcome == Outcome::Ok) ++done;
      });
    }
  }
  bool each_reset = true;
  for (std::size_t i = 0; i < std::size(kAll); ++i) each_reset = each_reset && resets_of(kAll[i]) == before[i] + 1;
  trial.fired(each_reset, "each of three functions reset once, all asked for at once");
  std::size_t noticed = 0;
  bool each_ended = true;
  const auto until = Trial::Clock::now() + trial.patience();
  for (std::size_t i = 0; i < lanes.size(); ++i) {
    (void)devices[i]->wait_until([&] { return devices[i]->failure().has_value(); }, until);
    noticed += devices[i]->failure() ? 1 : 0;
    each_ended = each_ended && lanes[i]->ended() == lanes[i]->submitted();
  }
  trial.detected(done == 3 && noticed == 3,
                 std::to_string(done.load()) + " resets done, noticed by " + std::to_string(noticed) + " drivers");
  trial.contained(each_ended, "every block ended exactly once");
  for (auto& lane : lanes) trial.keep_trace(*lane);
  lanes.clear();
  devices.clear();
  trial.innocent();
  trial.contained();
  const std::string wrong = trial.good_job(trial.desk(), trial.lane());
  trial.recovered(wrong.empty(), wrong.empty() ? "all come up again" : wrong);
}

void two_resets_at_once(Trial& trial) {
  trial.innocent();
  const ControlBlock spin = trial.kernel("spin", kManySlices);
  (void)trial.lane().submit(spin);
  Device& management = trial.management();
  const auto before = manage(management, wire::AdminCommand::FunctionQuery, wire::target_of_virtual(kGuilty));
  std::atomic<int> done{0};
  trial.let_loose();
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        wire::AdminRequest request{};
        request.command = wire::AdminCommand::FunctionReset;
        request.arguments.function = {wire::target_of_virtual(kGuilty), 0};
        const auto reply = management.admin(request);
        if (reply && reply->outcome == Outcome::Ok) ++done;
      });
    }
  }
  const auto after = manage(management, wire::AdminCommand::FunctionQuery, wire::target_of_virtual(kGuilty));
  const std::uint64_t resets = after.values.function.resets - before.values.function.resets;
  trial.fired(resets != 0, std::to_string(resets) + " resets for two requests");
  (void)trial.guilty().wait_until([&] { return trial.guilty().failure().has_value(); },
                                  Trial::Clock::now() + trial.patience());
  trial.detected(done == 2 && resets <= 2 && trial.lane().ended() == trial.lane().submitted(),
                 std::to_string(done.load()) + " answered, the kernel ended once");
  trial.contained();
  trial.recover_function();
}

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
