// SPDX-License-Identifier: Apache-2.0
// F33: a function leaves as much behind as it can; a foreign function and its next owner look everywhere.
//
// The card of this scenario has quotas, so that there is memory that no function is guaranteed. The quotas are lifted,
// and the faulting function holds all of that memory and all of its own share. Whoever holds all of it afterwards holds
// the same memory: that is how two tenants are known to have had the same granules, though the card tells nobody where
// a region lies.
#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <vector>

#include "tests/validation/campaign/engine_tenant.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/management.hpp"
#include "tests/validation/campaign/raw_client.hpp"
#include "tests/validation/campaign/resources.hpp"
#include "tests/validation/campaign/scenarios.hpp"
#include "tests/validation/campaign/standing.hpp"

namespace svp::campaign {

namespace {

using wire::AdminCommand;
using wire::ControlBlock;
using wire::Outcome;
using wire::Status;

constexpr std::uint64_t kSecret = 0x5EC2'E7D0'5EC2'E7D0;
constexpr std::uint64_t kHeadBytes = 4 * wire::kMiB;  // of each region: made dirty, and looked at
constexpr std::uint64_t kMostBytes = std::uint64_t{1} << wire::kRegionShift;
// In the Tensor region of the kernel that leaves things behind: its flags, and its gate (dirty.cpp).
constexpr std::uint64_t kFlagsAt = 3 * wire::kMiB, kFlagBytes = 2 * wire::kKiB;
constexpr std::uint64_t kKernelAt = 1 * wire::kMiB;  // in Program regions

constexpr wire::Target kForeign = wire::target_of_virtual(kThird);

// What the kernel "residue" looks at (residue.cpp), by claim.
struct Trace {
  const char* name;
  std::uint64_t found;
};
constexpr Trace kTraces[] = {
    {"registers", 1 | 2 | 4 | 8 | 16 | 32}, {"stack", 64}, {"scratchpad", 128}, {"pages", 256}};
constexpr std::uint64_t kNotEnded = ~std::uint64_t{0};

// Everything that the device can have beside what it holds, in regions that are as large as can be.
std::vector<Region> take_everything(Device& device) {
  std::vector<Region> all;
  for (;;) {  // bounded: the function's table of regions
    const std::uint64_t most = pool_figures(device).largest_bytes;
    if (most == 0) return all;
    all.push_back(value_or_throw(device.acquire_region(RegionType::Tensor, std::min(most, kMostBytes))));
  }
}

bool holds_everything(Device& device, std::uint64_t granted_bytes) {
  const auto figures = pool_figures(device);
  return figures.free_bytes == 0 && granted_bytes == figures.total_bytes && figures.total_bytes > figures.share_bytes;
}

// ---- the one that leaves things behind ------------------------------------------------------------------------------

class Leaver {
 public:
  explicit Leaver(ScenarioContext& context)
      : context_(context), device_(context.faulting()), stream_(context.stream()), builder_(context.builder()) {}

  // Memory, window, kernels' own memory and registers. True: all of it is in place, and a kernel runs with it.
  bool leave_traces() {
    regions_ = take_everything(device_);
    for (const Region* region : {&builder_.tensor(), &builder_.program()}) fill(*region);
    for (const Region& region : regions_) fill(region);
    std::ranges::fill(builder_.host_words(0, kHeadBytes), kSecret);
    (void)stream_.run(BlockBuilder::fill(builder_.tensor(kFlagsAt), kFlagBytes, 0), context_.timeout());
    const std::array symbols{address_symbol(0, builder_.tensor(), kFlagsAt), dimension_symbol(0, 0)};
    const ControlBlock kernel =
        load_kernel(builder_, stream_, context_.card(), "dirty", kKernelAt, symbols, kBothCores);
    TestStream beside(device_);
    (void)stream_.submit(kernel);
    (void)stream_.submit(std::vector<ControlBlock>(8, BlockBuilder::nop()));  // queued behind it
    return whole_ && waits_at_gate(beside);
  }
  const Region& tensor() const { return builder_.tensor(); }

 private:
  void fill(const Region& region) {
    const auto end = stream_.run(BlockBuilder::fill(endpoint_of(region), std::min(region.bytes, kHeadBytes), kSecret),
                                 context_.timeout());
    whole_ = whole_ && end && end->outcome == Outcome::Ok;
  }
  // Behind its flag the kernel has every register in use, on each core.
  bool waits_at_gate(TestStream& beside) {
    const auto limit = ScenarioContext::Clock::now() + context_.timeout();
    constexpr std::uint64_t kBack = 25 * wire::kMiB;
    while (ScenarioContext::Clock::now() < limit) {
      (void)beside.run(BlockBuilder::dma(builder_.tensor(kFlagsAt), builder_.host(kBack), kFlagBytes),
                       context_.timeout());
      const auto flags = builder_.host_words(kBack, kFlagBytes);
      if (flags[0] != 0 && flags[1] != 0) return true;
    }
    return false;
  }

  ScenarioContext& context_;
  Device& device_;
  TestStream& stream_;
  BlockBuilder& builder_;
  std::vector<Region> regions_;
  bool whole_ = true;
};

// ---- those that look ------------------------------------------------------------------------------------------------

struct Found {
  std::uint64_t words = 0;   // of memory that are not 0
  std::uint64_t kernel = 0;  // bits of kTraces
  bool everything = false;   // all memory that the function can reach was looked at
};

// Words that are not 0 at the beginning of the region.
std::uint64_t look_at(ScenarioContext& context, const BlockBuilder& builder, TestStream& stream, const Region& region) {
  const std::uint64_t bytes = std::min(region.bytes, kHeadBytes);
  const auto back = builder.host_words(kHeadBytes, bytes);
  std::ranges::fill(back, kSecret);
  const auto read =
      stream.run(BlockBuilder::dma(endpoint_of(region), builder.host(kHeadBytes), bytes), context.timeout());
  if (!read || read->outcome != Outcome::Ok) return bytes / 8;
  return static_cast<std::uint64_t>(std::ranges::count_if(back, [](std::uint64_t word) { return word != 0; }));
}

std::uint64_t look_with_a_kernel(ScenarioContext& context, const BlockBuilder& builder, TestStream& stream) {
  const auto end =
      stream.run(load_kernel(builder, stream, context.card(), "residue", kKernelAt, {}, kBothCores), context.timeout());
  if (!end) return kNotEnded;
  if (end->outcome == Outcome::Ok) return 0;
  return end->status == Status::KernelStatus ? end->fault.argument : kNotEnded;
}

Found look(ScenarioContext& context, Device& device, const BlockBuilder& builder, TestStream& stream,
           wire::Target self) {
  Found found;
  found.words =
      look_at(context, builder, stream, builder.tensor()) + look_at(context, builder, stream, builder.program());
  const auto regions = take_everything(device);
  for (const Region& region : regions) found.words += look_at(context, builder, stream, region);
  found.everything = holds_everything(device, figures_of(context.management(), self).granted_bytes);
  found.kernel = look_with_a_kernel(context, builder, stream);
  return found;
}

void wait_until_clean(ScenarioContext& context) {
  (void)count_card_resources(context.management(), std::chrono::ceil<std::chrono::milliseconds>(context.timeout()));
}

// ---- rings ----------------------------------------------------------------------------------------------------------

// What a former owner publishes in the rings that it had is not taken: the card looks at none of them.
std::string look_at_old_rings(ScenarioContext& context) {
  constexpr int kRoundTrips = 64;  // of M: in each of them hart 0 polled everybody
  RawClient former(context);
  raw::RawDriver& driver = former.driver();
  if (!driver.bring_up()) return "the function does not come up";
  raw::StreamHandle stream;
  if (driver.run(driver.nop(stream)).outcome != Outcome::Ok) return "its rings do not work before the reset";
  std::string reason = ok_or_reason(manage(context.management(), AdminCommand::FunctionReset, kForeign));
  if (!reason.empty()) return reason;
  driver.submit(driver.nop(stream));
  const std::uint16_t asked = driver.send_admin(driver.admin_request(AdminCommand::Query));
  for (int i = 0; i < kRoundTrips; ++i) {
    former.slot().pump();
    (void)figures_of(context.management(), kForeign);
  }
  const auto stats = manage(context.management(), AdminCommand::Stats, kForeign).values.stats;
  if (!driver.collect().empty() || stats.completed + stats.rejected != 0) return "a block of the old ring was taken";
  return driver.take_admin(asked) ? "a command of the old ring was answered" : std::string();
}

// ---- the reset ------------------------------------------------------------------------------------------------------

void reset_the_leaver(ScenarioContext& context) {
  Device& faulting = context.faulting();
  const std::string reason = ok_or_reason(manage(context.management(), AdminCommand::FunctionReset, kFaultingTarget));
  context.claim(Proof::Detected, "reset", reason.empty(), reason);
  const bool typed = told_of_reset(context, faulting, context.stream());
  context.claim(Proof::Detected, "typed", typed, "the driver was not told, or a block never ended");
  // Nobody has attached since: what is found now is what the reset itself left.
  const auto figures = figures_of(context.management(), kFaultingTarget);
  context.claim(Proof::Contained, "region table", figures.granted_bytes == 0,
                std::to_string(figures.granted_bytes) + " bytes still granted");
  const auto stats = manage(context.management(), AdminCommand::Stats, kFaultingTarget).values.stats;
  context.claim(Proof::Contained, "statistics",
                stats.completed + stats.launches + stats.aborted + stats.failed + stats.bytes_on_device == 0);
  const auto* window = faulting.host_memory().data() - faulting.host_memory_offset();
  const std::span started(reinterpret_cast<const std::uint64_t*>(window + wire::kStartedSequences.offset),
                          wire::kStreamsPerFunction);
  context.claim(Proof::Contained, "started sequences",
                std::ranges::all_of(started, [](auto word) { return word == 0; }));
}

}  // namespace

void reset_clears_everything(ScenarioContext& context) {
  context.bystander();
  const std::uint64_t quota = figures_of(context.management(), kFaultingTarget).quota_bytes;
  for (const wire::Target target : {kFaultingTarget, kForeign}) (void)set_quota(context.management(), target, 0);
  const std::string rings = look_at_old_rings(context);
  Leaver leaver(context);
  context.claim(Proof::Fired, "traces left", leaver.leave_traces());
  context.claim(Proof::Fired, "all memory held",
                holds_everything(context.faulting(), figures_of(context.management(), kFaultingTarget).granted_bytes));
  const Region old = leaver.tensor();
  context.trigger();
  reset_the_leaver(context);
  context.close_faulting();
  context.claim(Proof::Contained, "rings", rings.empty(), rings);
  wait_until_clean(context);
  Found foreign, next;
  {
    const auto device = context.open(kThird);
    const BlockBuilder builder(*device);
    TestStream stream(*device);
    foreign = look(context, *device, builder, stream, kForeign);
  }
  wait_until_clean(context);
  next = look(context, context.faulting(), context.builder(), context.stream(), kFaultingTarget);
  context.claim(Proof::Fired, "same memory granted again", foreign.everything && next.everything);
  context.claim(Proof::Contained, "memory", foreign.words == 0,
                std::to_string(foreign.words) + " words found by another function");
  context.claim(Proof::Contained, "memory of the next owner", next.words == 0,
                std::to_string(next.words) + " words found");
  for (const Trace& trace : kTraces) {
    context.claim(Proof::Contained, trace.name, ((foreign.kernel | next.kernel) & trace.found) == 0,
                  "found by a kernel of " +
                      std::string((foreign.kernel & trace.found) != 0 ? "another function" : "the next owner"));
  }
  if (next.kernel != 0) (void)context.stream().reset();
  const auto forged =
      context.stream().run(BlockBuilder::fill(endpoint_of(old), wire::kStickBytes, kSecret), context.timeout());
  context.claim(Proof::Contained, "old handles", forged && forged->outcome == Outcome::Rejected,
                "a region of the last owner was written");
  (void)context.stream().reset();
  context.contained();
  for (const wire::Target target : {kFaultingTarget, kForeign}) (void)set_quota(context.management(), target, quota);
  const std::string wrong = context.good_job();
  context.claim(Proof::Recovered, "good job", wrong.empty(), wrong);
}

}  // namespace svp::campaign
