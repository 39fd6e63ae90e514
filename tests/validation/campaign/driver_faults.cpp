// SPDX-License-Identifier: Apache-2.0
// F1 to F4: the driver's own resources, and what it does when they fail.
#include <array>
#include <memory>
#include <new>
#include <string>
#include <vector>

#include "host_driver/device/bring_up.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::Outcome;
using wire::Status;

// Opens a function with the n-th occurrence of a point failing, for n = 1, 2, … until none fires. Each attempt has to
// end with a typed error that says what to do.
struct Attempts {
  std::size_t fired = 0;
  std::string wrong;
};
Attempts fail_every_occurrence(ScenarioContext& context, fault::Point point, std::size_t most) {
  Attempts found;
  for (std::size_t n = 1; n <= most; ++n) {
    OpenOptions options;
    options.faults.injector = std::make_shared<HostFaults>();
    HostFault fault;
    fault.point = point;
    fault.action = fault::Action::Fail;
    fault.trigger.first = n;
    fault.argument = ENOMEM;
    const auto row = options.faults.injector->arm(fault);
    const auto injector = options.faults.injector;
    Expected<std::unique_ptr<Device>> device;
    try {
      device = context.card().open_virtual(kFaulting, std::move(options));
    } catch (const std::exception& untyped) {
      ++found.fired;
      found.wrong = "occurrence " + std::to_string(n) + ": an untyped exception left the driver: " + untyped.what();
      return found;
    }
    if (!row || injector->evidence(*row).fired == 0) {
      if (!device) found.wrong = "open failed without a fault: " + device.error().message;
      return found;
    }
    ++found.fired;
    if (device || device.error().next_step.empty()) {
      found.wrong =
          "occurrence " + std::to_string(n) + (device ? ": open succeeded" : ": an error without a next step");
      return found;
    }
  }
  found.wrong = "more occurrences than expected";
  return found;
}

// Blocks, a wait, commands, resets and the end of a function, with the n-th allocation of the driver failing. Every
// block that was taken ends once, every error says what to do.
struct Load {
  std::string wrong;
  bool fired = false;
};
Load load_with_failure(ScenarioContext& context, std::size_t n) {
  OpenOptions options;
  const auto injector = options.faults.injector = std::make_shared<HostFaults>();
  auto device = context.card().open_virtual(kFaulting, std::move(options));
  if (!device) return {.wrong = "open failed without a fault: " + device.error().message};
  const auto row = injector->arm({.point = fault::Point::Allocation, .trigger = wire::occurrences(n)});
  Load load;
  const auto typed = [&](const auto& result) {
    if (!result && result.error().next_step.empty()) load.wrong = "an error without a next step";
  };
  constexpr std::size_t kBlocks = 32;
  test::CompletionCounter count;
  std::size_t taken = 0;
  {
    const DriverCall marked(injector.get(), wire::kTargetPhysical + kFaulting);
    try {
      for (int round = 0; round < 2; ++round) {
        std::array<wire::ControlBlock, kBlocks> blocks{};
        std::array<ControlBlockRequest, kBlocks> requests;
        for (std::size_t i = 0; i < kBlocks; ++i) requests[i] = {&blocks[i], &count};
        const auto submitted = (*device)->submit(0, requests);
        typed(submitted);
        if (submitted) taken += *submitted;
        if (round == 0) typed((*device)->card_statistics());
        typed(round == 0 ? (*device)->reset_stream(0) : (*device)->reset_queues());
      }
    } catch (const std::bad_alloc&) {
      // Of this thread's own call, which did nothing.
    }
  }
  (*device)->close();
  if (count.ended() != taken) {
    load.wrong = std::to_string(taken) + " blocks were taken, " + std::to_string(count.ended()) + " ended";
  }
  load.fired = row && injector->evidence(*row).fired != 0;
  return load;
}

Attempts fail_every_allocation_under_load(ScenarioContext& context, std::size_t most) {
  Attempts found;
  for (std::size_t n = 1; n <= most; ++n) {
    const Load load = load_with_failure(context, n);
    if (!load.wrong.empty()) {
      found.wrong = "allocation " + std::to_string(n) + " under load: " + load.wrong;
      return found;
    }
    if (!load.fired) return found;
    ++found.fired;
  }
  found.wrong = "more allocations under load than expected";
  return found;
}

void prove_attempts(ScenarioContext& context, const Attempts& found, const std::string& what) {
  context.fired(found.fired != 0, std::to_string(found.fired) + " " + what);
  context.detected("typed errors", found.wrong.empty(),
                   found.wrong.empty() ? "each a typed error that says what to do" : found.wrong);
  context.contained();
  const std::string job = context.good_job();
  context.recovered("next open", job.empty(), job.empty() ? "the next open works, good job" : job);
}

}  // namespace

void allocation_fails_during_open(ScenarioContext& context) {
  constexpr std::size_t kMost = 2000;
  context.bystander();
  context.trigger();
  Attempts found = fail_every_occurrence(context, fault::Point::Allocation, kMost);
  if (found.wrong.empty()) {
    const Attempts loaded = fail_every_allocation_under_load(context, kMost);
    found.fired += loaded.fired;
    found.wrong = loaded.wrong;
  }
  prove_attempts(context, found, "allocations");
}

void bring_up_step_fails(ScenarioContext& context) {
  context.bystander();
  context.trigger();
  const Attempts found = fail_every_occurrence(context, fault::Point::BringUpStep, kBringUpSteps + 1);
  context.detected("each step", found.fired == kBringUpSteps - 2, {});  // all but the two ends
  prove_attempts(context, found, "steps");
}

void creation_fails(ScenarioContext& context) {
  constexpr std::uint64_t kQuota = 16 * wire::kMiB;
  context.bystander();
  context.set_quota(kQuota);
  context.trigger();
  std::vector<std::uint32_t> streams;
  std::string no_stream, no_region;
  while (no_stream.empty() && streams.size() <= wire::kStreamsPerFunction) {
    const auto stream = context.faulting().open_stream(StreamPriority::Low);
    if (stream) {
      streams.push_back(*stream);
    } else {
      no_stream = stream.error().message;
    }
  }
  std::vector<Region> regions;
  while (no_region.empty() && regions.size() <= wire::kRegionsPerFunction) {
    const auto region = context.faulting().acquire_region(RegionType::Tensor, 4 * wire::kMiB);
    if (region) {
      regions.push_back(*region);
    } else {
      no_region = region.error().message;
    }
  }
  context.fired(!no_stream.empty() && !no_region.empty(), std::to_string(streams.size()) + " streams and " +
                                                              std::to_string(regions.size()) + " regions, no more");
  context.detected("streams", no_stream.contains(wire::name(Status::OutOfStreams)), no_stream);
  context.detected("regions", no_region.contains(wire::name(Status::QuotaExceeded)), no_region);
  context.contained();
  for (const Region& region : regions) value_or_throw(context.faulting().release_region(region));
  for (const std::uint32_t stream : streams) value_or_throw(context.faulting().close_stream(stream));
  const std::string job = context.good_job();  // with the quota: what is still held leaves no room for it
  context.set_quota(0);
  context.recovered("given back", job.empty(), job.empty() ? "what was given back can be had again" : job);
}

void reply_lost_after_success(ScenarioContext& context) {
  context.bystander();
  (void)context.builder();
  const auto fault =
      context.arm(ScenarioContext::fault_at_faulting(wire::FaultPoint::AdminReply, wire::FaultAction::Suppress));
  context.trigger();
  const auto region = context.faulting().acquire_region(RegionType::Tensor, wire::kGranuleBytes);
  context.fired(fault);
  context.detected("lost reply", !region && region.error().outcome == Outcome::Indeterminate,
                   region ? "nobody noticed" : region.error().message);
  // The command's slot stays aside; others work, and what the lost reply granted comes back with the function.
  const std::string job = context.good_job();
  context.contained("other commands", job.empty(), job.empty() ? "other commands and jobs of the function work" : job);
  context.contained();
  context.recover_function();
}

}  // namespace svp::campaign
