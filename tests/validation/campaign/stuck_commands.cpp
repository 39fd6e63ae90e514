// SPDX-License-Identifier: Apache-2.0
// F26: an admin command does not come to its end, and a reset is asked for meanwhile. Its reply is lost; or it waits on
// the card for something that takes longer: an ACQUIRE for memory that is being scrubbed, a RELEASE for a launch that
// uses the region. The reset is M's, or the function's own.
#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/base/timeouts.hpp"
#include "shared/memory_order.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::AdminCommand;
using wire::ControlBlock;
using wire::Outcome;

// Granules: from milliseconds of scrubbing to a fifth of a second.
constexpr std::uint64_t kFewestScrubbed = 24, kMostScrubbed = 16 * kFewestScrubbed;
// As many address spaces of a function wait for their launches; the next region that a launch uses has to wait itself.
constexpr unsigned kRetiredSpaces = 3;

wire::AdminReply ask(ScenarioContext& context, AdminCommand command) {
  return manage(context.management(), command, wire::target_of_virtual(kFaulting));
}

void lost_reply(ScenarioContext& context) {
  (void)context.stream();
  const auto fault =
      context.arm(ScenarioContext::fault_at_faulting(wire::FaultPoint::AdminReply, wire::FaultAction::Suppress));
  const auto region = context.faulting().acquire_region(RegionType::Tensor, wire::kGranuleBytes);
  context.fired(fault);
  context.claim(Proof::Detected, "lost-reply", !region && region.error().outcome == Outcome::Indeterminate,
                region ? "nobody noticed" : region.error().message);
  const auto reset = ask(context, AdminCommand::FunctionReset);
  context.claim(Proof::Contained, "lost-reply/reset-by-M", reset.outcome == Outcome::Ok,
                std::string(wire::name(reset.status)));
  context.close_faulting();
}

// One admin command of the faulting function, on a thread of its own.
class StuckCommand {
 public:
  StuckCommand(Device& device, AdminCommand command, std::function<Expected<void>()> call)
      : device_(device), command_(command), worker_([this, call = std::move(call)] {
          outcome_ = call();
          done_.store(true, std::memory_order_release);
        }) {}

  // The card has taken it, and has not answered. What the card answers behind it is the proof: commands are begun in
  // order.
  bool waits_on_the_card(std::chrono::nanoseconds bound) {
    const auto limit = Device::Clock::now() + bound;
    std::optional<unsigned> slot;
    while (!(slot = find()) && !done_.load(std::memory_order_acquire) && Device::Clock::now() < limit) {
      std::this_thread::yield();
    }
    return slot && device_.card_statistics() && !answered(*slot) && !done_.load(std::memory_order_acquire);
  }
  // Ends by itself: an admin command is bounded by Timeouts::admin.
  const Expected<void>& outcome() {
    if (worker_.joinable()) worker_.join();  // bounded: its call is, by Timeouts::admin
    return outcome_;
  }

 private:
  template <typename T>
  const T& at(std::uint64_t offset) const {
    const std::byte* window = device_.host_memory().data() - device_.host_memory_offset();
    return *reinterpret_cast<const T*>(window + offset);
  }
  // A request of this kind whose reply has not been written. Its first word is magic, command and no flags.
  std::optional<unsigned> find() const {
    const std::uint64_t wanted = wire::kAdminMagic | std::uint64_t{static_cast<std::uint16_t>(command_)} << 32;
    for (unsigned slot = 0; slot < wire::kAdminSlots; ++slot) {
      const auto& first = at<std::uint64_t>(wire::kAdminRequests.offset + slot * wire::kStickBytes);
      if (wire::load_acquire(first) == wanted && !answered(slot)) return slot;
    }
    return std::nullopt;
  }
  bool answered(unsigned slot) const {
    const auto& request = at<wire::AdminRequest>(wire::kAdminRequests.offset + slot * wire::kStickBytes);
    const auto& reply = at<wire::AdminReply>(wire::kAdminReplies.offset + slot * wire::kStickBytes);
    return wire::load_acquire(reply.cookie) == wire::load_acquire(request.cookie);
  }

  Device& device_;
  AdminCommand command_;
  Expected<void> outcome_{};
  std::atomic<bool> done_{false};
  std::jthread worker_;  // bounded: one admin command, by Timeouts::admin
};

enum class By : std::uint8_t { Management, Owner };

std::string perform(ScenarioContext& context, By by) {
  if (by == By::Owner) {
    context.faulting().close();
    return {};
  }
  const auto reset = ask(context, AdminCommand::FunctionReset);
  return reset.outcome == Outcome::Ok ? std::string() : std::string(wire::name(reset.status));
}

// How a command may end by a reset. "Was not answered" would be its time-out.
std::string judge_outcome(const Expected<void>& outcome, By by, bool may_be_done) {
  if (outcome) return may_be_done ? std::string() : "it ended OK";
  const ErrorInfo& error = outcome.error();
  const Outcome wanted = by == By::Management ? Outcome::Indeterminate : Outcome::Aborted;
  if (error.outcome == wanted && !error.message.contains("was not answered")) return {};
  return std::string(wire::name(error.outcome)) + ", " + error.message;
}

// The reset is carried out, the command ends, and nothing is left of it.
std::string judge(ScenarioContext& context, StuckCommand& command, By by, bool may_be_done) {
  const std::string refused = perform(context, by);
  if (!refused.empty()) return refused;
  const std::string wrong = judge_outcome(command.outcome(), by, may_be_done);
  if (!wrong.empty()) return wrong;
  const auto function = ask(context, AdminCommand::FunctionQuery).values.function;
  return function.granted_bytes == 0 ? std::string() : std::to_string(function.granted_bytes) + " bytes are granted";
}

void claim_stuck(ScenarioContext& context, const std::string& name, By by, bool stuck, StuckCommand& command,
                 bool may_be_done = false) {
  const std::string full = name + (by == By::Management ? "/reset-by-M" : "/own-reset");
  context.claim(Proof::Fired, full, stuck, "it did not wait");
  const std::string wrong = judge(context, command, by, may_be_done);
  context.claim(Proof::Detected, full, wrong.empty(), wrong);
}

// ---- an ACQUIRE that waits for a scrub ------------------------------------------------------------------------------

// The whole quota is acquired, dirtied and released: it counts until it is clean again.
void dirty_and_release(ScenarioContext& context, std::uint64_t bytes) {
  const Region region = value_or_throw(context.faulting().acquire_region(RegionType::Tensor, bytes));
  std::vector<ControlBlock> fills;
  for (std::uint64_t at = 0; at < bytes; at += wire::kGranuleBytes) {
    fills.push_back(BlockBuilder::fill(endpoint_of(region, at), wire::kStickBytes, 1));
    if (fills.size() < wire::kStreamCredits && at + wire::kGranuleBytes < bytes) continue;
    (void)context.stream().submit(fills);
    (void)context.stream().wait_all(context.timeout());
    fills.clear();
  }
  value_or_throw(context.faulting().release_region(region));
}

void acquire_behind_scrub(ScenarioContext& context, By by) {
  // The scrub may be over before the card gets the command: then that has ended OK, and it is tried again with twice as
  // much memory, because on a busy machine the command may come any time later.
  const auto last_attempt = ScenarioContext::Clock::now() + context.timeout();
  for (std::uint64_t granules = kFewestScrubbed;; granules = std::min(2 * granules, kMostScrubbed)) {
    const std::uint64_t bytes = granules * wire::kGranuleBytes;
    context.set_quota(bytes);
    dirty_and_release(context, bytes);
    Region got{};
    Device& faulting = context.faulting();
    StuckCommand command(faulting, AdminCommand::RegionAcquire, [&]() -> Expected<void> {
      auto region = faulting.acquire_region(RegionType::Tensor, bytes);
      if (!region) return std::unexpected(std::move(region.error()));
      got = *region;
      return {};
    });
    const bool stuck = command.waits_on_the_card(context.timeout());
    if (stuck || ScenarioContext::Clock::now() >= last_attempt) {
      claim_stuck(context, "acquire-behind-scrub", by, stuck, command);
      break;
    }
    if (command.outcome()) value_or_throw(faulting.release_region(got));
  }
  context.close_faulting();
  context.set_quota(0);
}

// ---- a RELEASE that waits for a launch ------------------------------------------------------------------------------

void release_behind_launch(ScenarioContext& context, By by) {
  const ControlBlock spin = context.kernel("spin", kManySlices);
  Device& faulting = context.faulting();
  std::vector<Region> regions;
  for (unsigned i = 0; i <= kRetiredSpaces; ++i) {
    regions.push_back(value_or_throw(faulting.acquire_region(RegionType::Tensor, wire::kGranuleBytes)));
  }
  std::vector<std::unique_ptr<TestStream>> streams;
  for (unsigned i = 0; i <= kRetiredSpaces; ++i) {
    streams.push_back(std::make_unique<TestStream>(faulting));
    (void)streams.back()->submit(spin);
    (void)streams.back()->wait_started(1, context.timeout());
    if (i < kRetiredSpaces) value_or_throw(faulting.release_region(regions[i]));
  }
  {
    StuckCommand command(faulting, AdminCommand::RegionRelease,
                         [&] { return faulting.release_region(regions.back()); });
    const bool stuck = command.waits_on_the_card(context.timeout());
    // An owner that leaves resets its queue first: that stops the launches, and the release may end OK.
    claim_stuck(context, "release-behind-launch", by, stuck, command, by == By::Owner);
  }
  for (const auto& stream : streams) context.keep_trace(*stream);
  streams.clear();
  context.close_faulting();
}

}  // namespace

void stuck_admin_command(ScenarioContext& context) {
  context.bystander();
  context.trigger();
  lost_reply(context);
  for (const By by : {By::Management, By::Owner}) {
    acquire_behind_scrub(context, by);
    release_behind_launch(context, by);
  }
  context.contained();
  context.recover_function();
}

}  // namespace svp::campaign
