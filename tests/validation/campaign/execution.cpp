// SPDX-License-Identifier: Apache-2.0
// F14, F15, F18, F19, F21, F23, F24: what runs, what is stopped, and that everything ends exactly once.
#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/raw_client.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/raw/unawaited.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kFewSlices = 20;

bool has_event(const std::vector<wire::DeviceEvent>& events, wire::EventKind kind) {
  return std::ranges::any_of(events, [&](const wire::DeviceEvent& event) { return event.kind == kind; });
}

std::string ended_once(const Lane& lane) {
  const auto all = lane.endings();
  if (all.size() != lane.submitted()) {
    return std::to_string(all.size()) + " of " + std::to_string(lane.submitted()) + " ended";
  }
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
  for (const auto& end : all) {
    if (!seen.emplace(end.incarnation, end.sequence).second) return "a block ended twice";
  }
  return {};
}

}  // namespace

namespace {

// A slow kernel that has budget is left alone: for more slices than the endless one was given, and then stopped by its owner.
bool slow_kernel_is_left_alone(Trial& trial, ControlBlock kernel, std::uint64_t slices) {
  Lane& lane = trial.lane();
  kernel.header.budget = kManySlices;
  if (!lane.reset()) return false;  // it is the first of its incarnation
  const auto limit = Trial::Clock::now() + trial.patience();
  // Longer each time: on a busy machine the card gets few slices.
  for (auto alone = campaign_bounds::kLeftAlone; Trial::Clock::now() < limit; alone *= 2) {
    const std::size_t before = lane.ended();
    if (!lane.submit(kernel) || !lane.wait_started(1, trial.patience()) || lane.wait_all(alone)) return false;
    if (!lane.reset() || lane.ended() != before + 1) return false;
    const auto end = lane.endings().back();
    if (end.outcome != Outcome::Fault || end.status != Status::Stopped) return false;
    if (end.slices > slices) return true;
  }
  return false;
}

}  // namespace

void endless_kernel(Trial& trial) {
  trial.innocent();
  const ControlBlock spin = trial.kernel("spin", kFewSlices);
  (void)trial.guilty().take_events();
  trial.let_loose();
  const auto end = trial.lane().run(spin, trial.patience());
  trial.detected_as(end, Outcome::Timeout, Status::WatchdogExpired);
  trial.fired(!end || end->slices >= kFewSlices, end ? std::to_string(end->slices) + " slices" : "it runs still");
  trial.detected("warning", has_event(trial.guilty().take_events(), wire::EventKind::WatchdogWarning), "warned before");
  trial.contained();
  trial.recover_stream();
  trial.contained("slow kernel", slow_kernel_is_left_alone(trial, spin, end ? end->slices : 0),
                  "a slow kernel with budget was left alone");
}

void completion_never_posted(Trial& trial) {
  trial.innocent();
  Lane& lane = trial.lane();
  (void)trial.desk();
  const auto fault = trial.arm(Trial::fault_at_guilty(FaultPoint::Completion, FaultAction::Suppress));
  trial.let_loose();
  (void)lane.submit(Desk::nop());
  const bool came = lane.wait_all(campaign_bounds::kNothingComes);
  trial.fired(fault);
  // The reset of the stream finds that the card kept a block, within its bound: the rung above it has to be taken.
  const auto reset = lane.reset();
  trial.detected("kept block", !came && !reset, reset ? "nobody noticed" : reset.error().message);
  trial.contained();
  trial.close_guilty();
  trial.recover_function();
}

void guilty_and_innocent_streams(Trial& trial) {
  trial.innocent();
  const ControlBlock kernel = trial.kernel("spin", kFewSlices);
  Lane innocent(trial.guilty());  // of the same function
  const auto fault = trial.arm(Trial::fault_at_guilty(FaultPoint::Kernel, FaultAction::Stray));
  trial.let_loose();
  const auto end = trial.lane().run(kernel, trial.patience());
  trial.fired(fault);
  trial.detected_as(end, Outcome::Fault, Status::LoadFault);
  trial.detected("access", end && end->fault.region_ordinal == wire::kNoRegionOrdinal, "its access is named");
  const std::string wrong = trial.good_job(trial.desk(), innocent);
  trial.contained("another stream", wrong.empty(), wrong.empty() ? "another stream of the function" : wrong);
  const auto next = trial.lane().run(Desk::nop(), trial.patience());
  trial.contained("poisoned", next && next->outcome == Outcome::Aborted, "the guilty stream stays poisoned");
  trial.keep_trace(innocent);
  trial.contained();
  trial.recover_stream();
}

void three_strikes(Trial& trial) {
  constexpr int kStrikes = 3;  // as the card was booted
  trial.innocent();
  const ControlBlock spin = trial.kernel("spin", kFewSlices);
  Lane& lane = trial.lane();
  trial.let_loose();
  int strikes = 0;
  for (; strikes < kStrikes; ++strikes) {
    const auto end = lane.run(spin, trial.patience());
    if (!end || end->outcome != Outcome::Timeout) break;
    if (strikes + 1 < kStrikes && !lane.reset()) break;
  }
  trial.fired(strikes == kStrikes, std::to_string(strikes) + " time-outs");
  const auto reset = lane.reset();
  trial.detected("banned", !reset && reset.error().message.contains(wire::name(Status::StreamBanned)),
                 reset ? "the stream may go on" : reset.error().message);
  {
    Lane other(trial.guilty());
    const std::string wrong = trial.good_job(trial.desk(), other);
    trial.contained("another stream", wrong.empty(), wrong.empty() ? "another stream of the function" : wrong);
  }
  trial.contained();
  trial.recover_function();
}

void reset_of_an_invalid_target(Trial& trial) {
  trial.innocent();
  Device& guilty = trial.guilty();
  (void)trial.lane();
  (void)trial.desk();
  struct Attempt {
    const char* what;
    Device* by;
    wire::AdminRequest request;
    Status status;
  };
  const auto stream = [](std::uint32_t id, std::uint32_t incarnation) {
    wire::AdminRequest request{};
    request.command = wire::AdminCommand::StreamReset;
    request.arguments.stream = {id, incarnation};
    return request;
  };
  const auto function = [](wire::Target target) {
    wire::AdminRequest request{};
    request.command = wire::AdminCommand::FunctionReset;
    request.arguments.function = {target, 0};
    return request;
  };
  Device& management = trial.management();
  const std::vector<Attempt> attempts{
      {"a stream that was never opened", &guilty, stream(100, 1), Status::UnknownStream},
      {"a stream out of range", &guilty, stream(0xFFFF'FFFF, 1), Status::UnknownStream},
      {"an incarnation that is over", &guilty, stream(trial.lane().stream(), 0), Status::StaleIncarnation},
      {"a function of the card by one that may not", &guilty, function(wire::target_of_virtual(kInnocent)),
       Status::NotPermitted},
      {"a function that does not exist", &management, function(99), Status::UnknownFunction},
      {"stream reset by M", &management, stream(0, 1), Status::NotPermitted}};
  trial.let_loose();
  std::size_t asked = 0;
  for (const Attempt& attempt : attempts) {
    const auto reply = attempt.by->admin(attempt.request);
    ++asked;
    trial.claim(Proof::Detected, attempt.what,
                reply && reply->outcome == Outcome::Rejected && reply->status == attempt.status,
                reply ? std::string(wire::name(reply->status)) : reply.error().message);
  }
  trial.fired(asked == attempts.size(), std::to_string(asked) + " invalid resets asked for");
  trial.contained();
  const std::string unstarted = trial.lane().reset() ? std::string() : "a stream without work could not be reset";
  trial.recovered("stream without work", unstarted.empty(),
                  unstarted.empty() ? "a stream without work can be reset" : unstarted);
  trial.recover_stream();
}

// ---- races --------------------------------------------------------------------------------------------------------------

namespace {

// What chance may not bring: the reset comes while a kernel runs and blocks wait behind it. Empty: each ended once.
std::string reset_under_a_kernel(Trial& trial) {
  const ControlBlock blocks[] = {trial.kernel("spin", kManySlices), Desk::nop(), Desk::nop()};
  Lane& lane = trial.lane();
  if (!lane.reset() || !lane.submit(blocks) || !lane.wait_started(1, trial.patience())) return "no kernel runs";
  if (const auto reset = lane.reset(); !reset) return reset.error().message;
  return ended_once(lane);
}

// Resets of a stream against submits to it, opens and closes of others, acquires and releases of regions: our driver, on
// threads of its own. Empty: each block ended once.
std::string race_by_driver(Trial& trial) {
  constexpr int kRounds = 40;
  Device& guilty = trial.guilty();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> regions{0}, streams{0}, blocks{0};
  int rounds = 0;
  std::string wrong;
  Lane racer(guilty);
  std::jthread allocates([&] {  // bounded: joined below, with `stop` set
    while (!stop) {
      const auto region = guilty.acquire_region(RegionType::Tensor, wire::kGranuleBytes);
      if (region && guilty.release_region(*region)) ++regions;
    }
  });
  std::jthread opens([&] {  // bounded: joined below, with `stop` set
    while (!stop) {
      const auto stream = guilty.open_stream(StreamPriority::High);
      if (stream && guilty.close_stream(*stream)) ++streams;
    }
  });
  std::jthread submits([&] {  // bounded: joined below, with `stop` set
    while (!stop) {
      try {
        if (racer.submit(Desk::nop())) ++blocks;
      } catch (const Error&) {
        // while it is being reset
      }
    }
  });
  // Until each of the others has had its turn, too.
  const auto limit = Trial::Clock::now() + trial.patience();
  const auto all_ran = [&] { return regions > 0 && streams > 0 && blocks > 0; };
  while ((rounds < kRounds || !all_ran()) && wrong.empty() && Trial::Clock::now() < limit) {
    if (auto reset = racer.reset(); !reset) wrong = reset.error().message;
    ++rounds;
  }
  stop = true;
  allocates.join();  // bounded: `stop` is set, and each of its calls is bounded
  opens.join();      // bounded: `stop` is set, and each of its calls is bounded
  submits.join();    // bounded: `stop` is set, and each of its calls is bounded
  if (!racer.wait_all(trial.patience())) wrong = "a block never ended";
  if (wrong.empty()) wrong = ended_once(racer);
  trial.fired(all_ran(), std::to_string(rounds) + " resets against " + std::to_string(racer.submitted()) + " blocks, " +
                             std::to_string(regions.load()) + " regions, " + std::to_string(streams.load()) +
                             " streams");
  if (wrong.empty() && !racer.reset()) wrong = "the last reset failed";
  return wrong.empty() ? reset_under_a_kernel(trial) : wrong;
}

// Resets against resets, closes, opens, region releases and acquires, all un-awaited, under kernels that never end and
// beside blocks of the next incarnation; with resets of the queue and of the function. A raw client on VF3.
std::string race_by_raw_client(Trial& trial) {
  constexpr unsigned kSteps = 4000, kMostSteps = 20 * kSteps;
  RawClient client(trial);
  raw::UnawaitedRequests races(
      client.driver(), {{kernel_image(trial.card(), "spin")}, {kernel_image(trial.card(), "empty")}}, trial.seed());
  const std::uint64_t epoch = client.driver().header().boot_epoch;
  try {
    races.begin();
    // Chance decides what meets what: on until each has happened.
    const auto all_met = [&] { return races.blocks_ok() > 0 && races.queue_resets() > 0; };
    for (unsigned i = 0; i < kSteps || (i < kMostSteps && !all_met()); ++i) races.step();
    races.drain();
  } catch (const raw::Broken& broken) {
    return broken.what();
  }
  trial.fired(races.requests() > 0 && races.blocks_ok() > 0 && races.queue_resets() > 0,
              std::to_string(races.requests()) + " un-awaited requests, " + std::to_string(races.blocks()) +
                  " blocks, " + std::to_string(races.queue_resets()) + " queue resets");
  if (client.driver().header().boot_epoch != epoch) return "the firmware restarted";
  return client.works();
}

}  // namespace

void reset_races(Trial& trial) {
  trial.innocent();
  trial.let_loose();
  std::string wrong = race_by_driver(trial);
  if (wrong.empty()) wrong = race_by_raw_client(trial);
  trial.detected("exactly once", wrong.empty(),
                 wrong.empty() ? "each block ended exactly once, each request was answered" : wrong);
  trial.contained();
  trial.recover_stream();
}

// ---- cancel -------------------------------------------------------------------------------------------------------------

namespace {

Status cancel(Device& device, std::uint32_t stream, std::uint64_t sequence) {
  wire::AdminRequest request{};
  request.command = wire::AdminCommand::Cancel;
  request.arguments.cancel = {stream, device.stream_incarnation(stream), sequence};
  const auto reply = value_or_throw(device.admin(request));
  return reply.outcome == Outcome::Ok ? Status::None : reply.status;
}

}  // namespace

void cancel_at_every_stage(Trial& trial) {
  trial.innocent();
  const ControlBlock spin = trial.kernel("spin", kManySlices);
  Lane& lane = trial.lane();
  value_or_throw(lane.reset());
  const std::size_t before = lane.ended();
  const ControlBlock blocks[] = {spin, Desk::nop(), Desk::nop()};
  trial.let_loose();
  const bool taken = lane.submit(blocks) && lane.wait_started(1, trial.patience());
  trial.fired(taken, "a kernel runs, two blocks wait");
  const std::uint32_t stream = lane.stream();
  const Status waiting = cancel(trial.guilty(), stream, 2);
  const Status running = cancel(trial.guilty(), stream, 1);
  const bool all = lane.wait_all(trial.patience());
  const Status ended = cancel(trial.guilty(), stream, 1);
  const Status twice = cancel(trial.guilty(), stream, 2);
  const Status never = cancel(trial.guilty(), stream, 1000);
  trial.detected("cancelled", waiting == Status::None && running == Status::None,
                 "a waiting and a running block were cancelled");
  trial.detected("refused",
                 ended == Status::AlreadyEnded && twice == Status::AlreadyEnded && never == Status::AlreadyEnded,
                 "an ended one, one twice, and one that never was: refused");
  std::set<std::string> how;
  const auto endings = lane.endings();
  for (std::size_t i = before; i < endings.size(); ++i) {
    how.insert(std::to_string(endings[i].sequence) + " " + std::string(wire::name(endings[i].outcome)));
  }
  const std::string once = ended_once(lane);
  trial.detected("endings", all && once.empty() && how.contains("1 FAULT") && how.contains("2 ABORTED"),
                 once.empty() ? "FAULT for the running one, ABORTED for the waiting one" : once);
  trial.contained();
  trial.recover_stream();
}

}  // namespace svp::campaign
