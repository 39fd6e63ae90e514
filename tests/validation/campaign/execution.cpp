// SPDX-License-Identifier: Apache-2.0
// F14, F15, F18, F19, F21, F23, F24: what runs, what is stopped, and that everything ends exactly once.
#include <algorithm>
#include <atomic>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/admin_requests.hpp"
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

std::string ended_once(const TestStream& stream) {
  const auto all = stream.endings();
  if (all.size() != stream.submitted()) {
    return std::to_string(all.size()) + " of " + std::to_string(stream.submitted()) + " ended";
  }
  std::set<std::pair<std::uint32_t, std::uint64_t>> seen;
  for (const auto& end : all) {
    if (!seen.emplace(end.incarnation, end.sequence).second) return "a block ended twice";
  }
  return {};
}

}  // namespace

namespace {

// A slow kernel that has budget is left alone: for more slices than the endless one was given, and then stopped by its
// owner.
bool slow_kernel_is_left_alone(ScenarioContext& context, ControlBlock kernel, std::uint64_t slices) {
  TestStream& stream = context.stream();
  kernel.header.budget = kManySlices;
  if (!stream.reset()) return false;  // it is the first of its incarnation
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  // Longer each time: on a busy machine the card gets few slices.
  for (auto alone = campaign_bounds::kLeftAlone; ScenarioContext::Clock::now() < limit; alone *= 2) {
    const std::size_t before = stream.ended();
    if (!stream.submit(kernel) || !stream.wait_started(1, context.timeout()) || stream.wait_all(alone)) return false;
    if (!stream.reset() || stream.ended() != before + 1) return false;
    const auto end = stream.endings().back();
    if (end.outcome != Outcome::Fault || end.status != Status::Stopped) return false;
    if (end.slices > slices) return true;
  }
  return false;
}

}  // namespace

void endless_kernel(ScenarioContext& context) {
  context.bystander();
  const ControlBlock spin = context.kernel("spin", kFewSlices);
  (void)context.faulting().take_events();
  context.trigger();
  const auto end = context.stream().run(spin, context.timeout());
  context.detected_as(end, Outcome::Timeout, Status::WatchdogExpired);
  context.fired(!end || end->slices >= kFewSlices, end ? std::to_string(end->slices) + " slices" : "it runs still");
  context.detected("warning", has_event(context.faulting().take_events(), wire::EventKind::WatchdogWarning),
                   "warned before");
  context.contained();
  context.recover_stream();
  context.contained("slow kernel", slow_kernel_is_left_alone(context, spin, end ? end->slices : 0),
                    "a slow kernel with budget was left alone");
}

void completion_never_posted(ScenarioContext& context) {
  context.bystander();
  TestStream& stream = context.stream();
  (void)context.builder();
  const auto fault = context.arm(ScenarioContext::fault_at_faulting(FaultPoint::Completion, FaultAction::Suppress));
  context.trigger();
  (void)stream.submit(BlockBuilder::nop());
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  while (context.evidence(fault).fired == 0 && ScenarioContext::Clock::now() < limit) std::this_thread::yield();
  const bool came = stream.wait_all(campaign_bounds::kNothingComes);
  context.fired(fault);
  // The reset of the stream finds that the card kept a block, within its bound: the reset level above it has to be
  // taken.
  const auto reset = stream.reset();
  context.detected("kept block", !came && !reset, reset ? "nobody noticed" : reset.error().message);
  context.contained();
  context.close_faulting();
  context.recover_function();
}

void faulting_and_bystander_streams(ScenarioContext& context) {
  context.bystander();
  const ControlBlock kernel = context.kernel("spin", kFewSlices);
  TestStream bystander(context.faulting());  // of the same function
  const auto fault = context.arm(ScenarioContext::fault_at_faulting(FaultPoint::Kernel, FaultAction::Stray));
  context.trigger();
  const auto end = context.stream().run(kernel, context.timeout());
  context.fired(fault);
  context.detected_as(end, Outcome::Fault, Status::LoadFault);
  context.detected("access", end && end->fault.region_ordinal == wire::kNoRegionOrdinal, "its access is named");
  const std::string wrong = context.good_job(context.builder(), bystander);
  context.contained("another stream", wrong.empty(), wrong.empty() ? "another stream of the function" : wrong);
  const auto next = context.stream().run(BlockBuilder::nop(), context.timeout());
  context.contained("poisoned", next && next->outcome == Outcome::Aborted, "the faulting stream stays poisoned");
  context.keep_trace(bystander);
  context.contained();
  context.recover_stream();
}

void three_time_outs(ScenarioContext& context) {
  constexpr int kTimeouts = 3;  // as the card was booted
  context.bystander();
  const ControlBlock spin = context.kernel("spin", kFewSlices);
  TestStream& stream = context.stream();
  context.trigger();
  int timeouts = 0;
  for (; timeouts < kTimeouts; ++timeouts) {
    const auto end = stream.run(spin, context.timeout());
    if (!end || end->outcome != Outcome::Timeout) break;
    if (timeouts + 1 < kTimeouts && !stream.reset()) break;
  }
  context.fired(timeouts == kTimeouts, std::to_string(timeouts) + " time-outs");
  const auto reset = stream.reset();
  context.detected("banned", !reset && reset.error().message.contains(wire::name(Status::StreamBanned)),
                   reset ? "the stream may go on" : reset.error().message);
  {
    TestStream other(context.faulting());
    const std::string wrong = context.good_job(context.builder(), other);
    context.contained("another stream", wrong.empty(), wrong.empty() ? "another stream of the function" : wrong);
  }
  context.contained();
  context.recover_function();
}

void reset_of_an_invalid_target(ScenarioContext& context) {
  context.bystander();
  Device& faulting = context.faulting();
  (void)context.stream();
  (void)context.builder();
  struct Attempt {
    const char* what;
    Device* by;
    wire::AdminRequest request;
    Status status;
  };
  const auto stream = [](std::uint32_t id, std::uint32_t incarnation) {
    wire::AdminRequest request = test::admin_request(wire::AdminCommand::StreamReset);
    request.arguments.stream = {id, incarnation};
    return request;
  };
  const auto function = [](wire::Target target) {
    return test::function_request(wire::AdminCommand::FunctionReset, target);
  };
  Device& management = context.management();
  const std::vector<Attempt> attempts{
      {"a stream that was never opened", &faulting, stream(100, 1), Status::UnknownStream},
      {"a stream out of range", &faulting, stream(0xFFFF'FFFF, 1), Status::UnknownStream},
      {"an incarnation that is over", &faulting, stream(context.stream().stream(), 0), Status::StaleIncarnation},
      {"a function of the card by one that may not", &faulting, function(wire::target_of_virtual(kBystander)),
       Status::NotPermitted},
      {"a function that does not exist", &management, function(99), Status::UnknownFunction},
      {"stream reset by M", &management, stream(0, 1), Status::NotPermitted}};
  context.trigger();
  std::size_t asked = 0;
  for (const Attempt& attempt : attempts) {
    const auto reply = attempt.by->admin(attempt.request);
    ++asked;
    context.claim(Proof::Detected, attempt.what,
                  reply && reply->outcome == Outcome::Rejected && reply->status == attempt.status,
                  reply ? std::string(wire::name(reply->status)) : reply.error().message);
  }
  context.fired(asked == attempts.size(), std::to_string(asked) + " invalid resets asked for");
  context.contained();
  const std::string unstarted = context.stream().reset() ? std::string() : "a stream without work could not be reset";
  context.recovered("stream without work", unstarted.empty(),
                    unstarted.empty() ? "a stream without work can be reset" : unstarted);
  context.recover_stream();
}

// ---- races ----------------------------------------------------------------------------------------------------------

namespace {

// What chance may not bring: the reset comes while a kernel runs and blocks wait behind it. Empty: each ended once.
std::string reset_under_a_kernel(ScenarioContext& context) {
  const ControlBlock blocks[] = {context.kernel("spin", kManySlices), BlockBuilder::nop(), BlockBuilder::nop()};
  TestStream& stream = context.stream();
  if (!stream.reset() || !stream.submit(blocks) || !stream.wait_started(1, context.timeout())) return "no kernel runs";
  if (const auto reset = stream.reset(); !reset) return reset.error().message;
  return ended_once(stream);
}

// Resets of a stream against submits to it, opens and closes of others, acquires and releases of regions: our driver,
// on threads of its own. Empty: each block ended once.
std::string race_by_driver(ScenarioContext& context) {
  constexpr int kRounds = 40;
  Device& faulting = context.faulting();
  std::atomic<bool> stop{false};
  std::atomic<std::uint64_t> regions{0}, streams{0}, blocks{0}, refused{0};
  int rounds = 0;
  std::string wrong;
  TestStream racer(faulting);
  std::jthread allocates([&] {  // bounded: joined below, with `stop` set
    while (!stop) {
      const auto region = faulting.acquire_region(RegionType::Tensor, wire::kGranuleBytes);
      if (region && faulting.release_region(*region)) ++regions;
    }
  });
  std::jthread opens([&] {  // bounded: joined below, with `stop` set
    while (!stop) {
      const auto stream = faulting.open_stream(StreamPriority::High);
      if (stream && faulting.close_stream(*stream)) ++streams;
    }
  });
  std::jthread submits([&] {  // bounded: joined below, with `stop` set
    while (!stop) {
      try {
        if (racer.submit(BlockBuilder::nop())) ++blocks;
      } catch (const Error&) {
        ++refused;  // while it is being reset
      }
    }
  });
  const auto reset = [&] {
    if (auto done = racer.reset(); !done) wrong = done.error().message;
    ++rounds;
  };
  while (rounds < kRounds && wrong.empty()) reset();
  // On one processor a submit may have met a reset each time: whoever was not served yet is served now, while nothing
  // is reset. Then what it has submitted is.
  const auto limit = ScenarioContext::Clock::now() + context.timeout();
  const auto all_ran = [&] { return regions > 0 && streams > 0 && blocks > 0; };
  while (!all_ran() && wrong.empty() && ScenarioContext::Clock::now() < limit) {
    std::this_thread::sleep_for(campaign_bounds::kLook);  // bounded: a pause of the loop
  }
  if (wrong.empty()) reset();
  stop = true;
  allocates.join();  // bounded: `stop` is set, and each of its calls is bounded
  opens.join();      // bounded: `stop` is set, and each of its calls is bounded
  submits.join();    // bounded: `stop` is set, and each of its calls is bounded
  if (!racer.wait_all(context.timeout())) wrong = "a block never ended";
  if (wrong.empty()) wrong = ended_once(racer);
  context.fired(all_ran(), std::to_string(rounds) + " resets against " + std::to_string(racer.submitted()) +
                               " blocks (" + std::to_string(refused.load()) + " refused), " +
                               std::to_string(regions.load()) + " regions, " + std::to_string(streams.load()) +
                               " streams");
  if (wrong.empty() && !racer.reset()) wrong = "the last reset failed";
  return wrong.empty() ? reset_under_a_kernel(context) : wrong;
}

// Resets against resets, closes, opens, region releases and acquires, all un-awaited, under kernels that never end and
// beside blocks of the next incarnation; with resets of the queue and of the function. A raw client on VF3.
std::string race_by_raw_client(ScenarioContext& context) {
  constexpr unsigned kSteps = 4000, kMostSteps = 20 * kSteps;
  RawClient client(context);
  raw::UnawaitedRequests races(client.driver(),
                               {{kernel_image(context.card(), "spin")}, {kernel_image(context.card(), "empty")}},
                               context.seed());
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
  context.fired(races.requests() > 0 && races.blocks_ok() > 0 && races.queue_resets() > 0,
                std::to_string(races.requests()) + " un-awaited requests, " + std::to_string(races.blocks()) +
                    " blocks, " + std::to_string(races.queue_resets()) + " queue resets");
  if (client.driver().header().boot_epoch != epoch) return "the firmware restarted";
  return client.works();
}

// A function is reset by its driver while one of its streams waits for stream 0. Empty: it works afterwards.
std::string reset_under_a_wait(ScenarioContext& context) {
  RawClient client(context);
  raw::RawDriver& driver = client.driver();
  try {
    if (!driver.bring_up()) return "the function does not come up any more";
    auto waiting = driver.open_stream(), beside = driver.open_stream();
    if (!waiting || !beside) return "a stream was refused";
    driver.submit(driver.event_wait(*waiting, {}, 1));
    for (unsigned run = 0; run < 2; ++run) (void)driver.run(driver.nop(*beside));  // the wait has had its step
    const std::uint64_t epoch = driver.header().boot_epoch;
    const std::string works = client.works();
    return driver.header().boot_epoch == epoch ? works : "the firmware restarted";
  } catch (const raw::Broken& broken) {
    return broken.what();
  }
}

// A stream is closed and opened again in one batch of commands, while more streams wait for it than a quantum has
// steps. Empty: each wait ended as one whose stream was reset.
std::string reopen_under_waiters(ScenarioContext& context) {
  constexpr unsigned kRounds = 4, kWaits = 100;  // chance decides whether both commands are there at once
  RawClient client(context);
  raw::RawDriver& driver = client.driver();
  try {
    for (unsigned round = 0; round < kRounds; ++round) {
      if (!driver.bring_up()) return "the function does not come up any more";
      const auto awaited = driver.open_stream();
      for (unsigned i = 0; i < kWaits; ++i) {
        auto stream = driver.open_stream();
        if (!awaited || !stream) return "a stream was refused";
        driver.submit(driver.event_wait(*stream, *awaited, 1));
      }
      raw::StreamHandle beside;
      for (unsigned run = 0; run < 2; ++run) (void)driver.run(driver.nop(beside));  // all waits have had their step
      const auto close = driver.send_admin(driver.stream_request(wire::AdminCommand::StreamClose, *awaited));
      const auto open = driver.send_admin(driver.admin_request(wire::AdminCommand::StreamOpen));
      const auto ends = driver.wait_for(kWaits);
      const bool all_failed = std::ranges::all_of(ends, [](const raw::Ended& end) {
        return end.completion.outcome == Outcome::Aborted && end.completion.status == Status::EventFailed;
      });
      if (ends.size() != kWaits || !all_failed) return "a wait for a stream that was closed did not fail";
      const auto closed = driver.wait_admin(close), opened = driver.wait_admin(open);
      if (!closed || closed->outcome != Outcome::Ok || !opened || opened->outcome != Outcome::Ok) {
        return "a stream was not closed, or not opened again";
      }
    }
  } catch (const raw::Broken& broken) {
    return broken.what();
  }
  return client.works();
}

}  // namespace

void reset_races(ScenarioContext& context) {
  context.bystander();
  context.trigger();
  std::string wrong = race_by_driver(context);
  if (wrong.empty()) wrong = race_by_raw_client(context);
  context.detected("exactly once", wrong.empty(),
                   wrong.empty() ? "each block ended exactly once, each request was answered" : wrong);
  if (wrong.empty()) {
    const std::string reset = reset_under_a_wait(context);
    context.claim(Proof::Detected, "reset under a wait", reset.empty(), reset);
    const std::string reopened = reset.empty() ? reopen_under_waiters(context) : std::string();
    context.claim(Proof::Detected, "opened again", reopened.empty(), reopened);
  }
  context.contained();
  context.recover_stream();
}

// ---- cancel ---------------------------------------------------------------------------------------------------------

namespace {

Status cancel(Device& device, std::uint32_t stream, std::uint64_t sequence) {
  const auto reply = test::cancel(device, stream, sequence);
  return reply.outcome == Outcome::Ok ? Status::None : reply.status;
}

}  // namespace

void cancel_at_every_stage(ScenarioContext& context) {
  context.bystander();
  const ControlBlock spin = context.kernel("spin", kManySlices);
  TestStream& stream = context.stream();
  value_or_throw(stream.reset());
  const std::size_t before = stream.ended();
  const ControlBlock blocks[] = {spin, BlockBuilder::nop(), BlockBuilder::nop()};
  context.trigger();
  const bool taken = stream.submit(blocks) && stream.wait_started(1, context.timeout());
  context.fired(taken, "a kernel runs, two blocks wait");
  const std::uint32_t number = stream.stream();
  const Status waiting = cancel(context.faulting(), number, 2);
  const Status running = cancel(context.faulting(), number, 1);
  const bool all = stream.wait_all(context.timeout());
  const Status ended = cancel(context.faulting(), number, 1);
  const Status twice = cancel(context.faulting(), number, 2);
  const Status never = cancel(context.faulting(), number, 1000);
  context.detected("cancelled", waiting == Status::None && running == Status::None,
                   "a waiting and a running block were cancelled");
  context.detected("refused",
                   ended == Status::AlreadyEnded && twice == Status::AlreadyEnded && never == Status::AlreadyEnded,
                   "an ended one, one twice, and one that never was: refused");
  std::set<std::string> how;
  const auto endings = stream.endings();
  for (std::size_t i = before; i < endings.size(); ++i) {
    how.insert(std::to_string(endings[i].sequence) + " " + std::string(wire::name(endings[i].outcome)));
  }
  const std::string once = ended_once(stream);
  context.detected("endings", all && once.empty() && how.contains("1 FAULT") && how.contains("2 ABORTED"),
                   once.empty() ? "FAULT for the running one, ABORTED for the waiting one" : once);
  context.contained();
  context.recover_stream();
}

}  // namespace svp::campaign
