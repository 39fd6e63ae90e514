// SPDX-License-Identifier: Apache-2.0
// F25: the reset of a function does not end. The level above it helps; a card that dies again and again is wedged. A
// bystander with work in flight notices nothing of the levels below the firmware's restart. When the card goes, each of
// its blocks ends once.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "host_driver/recovery/escalation.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/kernel_jobs.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::ControlBlock;
using wire::Outcome;

constexpr std::uint64_t kCanaryBytes = 256 * wire::kKiB;
constexpr std::uint64_t kReadBack = 1 * wire::kMiB;

// A function with canaries in its memory and its window, and blocks in flight behind a kernel that does not end.
class BusyBystander {
 public:
  explicit BusyBystander(Card& card) : device_(value_or_throw(card.open_virtual(kBystander))), builder_(*device_) {
    for (auto& word : builder_.host_words(0, kCanaryBytes)) word = kCanary;
    const auto image = kernel_image(card, "spin");
    load_image(builder_, jobs_, 0, image);
    (void)jobs_.run(BlockBuilder::fill(builder_.tensor(0), kCanaryBytes, kCanary), campaign_bounds::kBlock);
    std::vector<ControlBlock> blocks(kBlocks, BlockBuilder::nop());
    blocks.front() = builder_.compute(0, image.size(), 1, kManySlices);
    works_ = in_flight_.submit(blocks) && in_flight_.wait_started(1, campaign_bounds::kBlock);
  }

  bool works() const { return works_; }
  // Its kernel runs, what waits behind it waits, its other stream works, its canaries are whole. Empty: so it is.
  std::string unaffected() {
    if (const auto failure = device_->failure()) return failure->message;
    if (in_flight_.ended() != 0) return "a block in flight has ended";
    const auto read = jobs_.run(BlockBuilder::dma(builder_.tensor(0), builder_.host(kReadBack), kCanaryBytes),
                                campaign_bounds::kBlock);
    if (!read || read->outcome != Outcome::Ok) return "its other stream does not work";
    const auto whole = [&](std::uint64_t at) {
      return std::ranges::all_of(builder_.host_words(at, kCanaryBytes),
                                 [](std::uint64_t word) { return word == kCanary; });
    };
    if (!whole(kReadBack)) return "its memory changed";
    return whole(0) ? std::string() : "its window changed";
  }
  // When the card has gone: each block once, and by what the driver can know.
  std::string ended_once() {
    (void)device_->wait_until([&] { return device_->failure().has_value(); },
                              ScenarioContext::Clock::now() + campaign_bounds::kTimeout);
    if (!device_->failure()) return "the driver did not notice";
    (void)in_flight_.wait_all(campaign_bounds::kTimeout);
    const auto all = in_flight_.endings();
    if (all.size() != kBlocks) return std::to_string(all.size()) + " of " + std::to_string(kBlocks) + " blocks ended";
    std::set<std::uint64_t> sequences;
    for (const auto& end : all) {
      if (!sequences.insert(end.sequence).second) return "a block ended twice";
      // What had begun has not ended by anybody's word; what had not is LOST or, when the window is no proof, neither.
      const bool began = end.sequence == 1;
      if (end.outcome == Outcome::Indeterminate || (end.outcome == Outcome::Lost && !began)) continue;
      return "block " + std::to_string(end.sequence) + " ended " + std::string(wire::name(end.outcome));
    }
    return {};
  }

 private:
  static constexpr std::uint64_t kCanary = 0xB757'A4DE'CA4A'2100;
  static constexpr std::size_t kBlocks = 16;

  std::unique_ptr<Device> device_;
  BlockBuilder builder_;
  TestStream jobs_{*device_};
  TestStream in_flight_{*device_};
  bool works_ = false;
};

// The faulting function's reset stalls for ever, from now on. What it saw so far.
wire::FaultEvidence stall_resets(ScenarioContext& context, Card& card, std::unique_ptr<Device>& device) {
  auto spec = ScenarioContext::fault_at_faulting(wire::FaultPoint::FunctionReset, wire::FaultAction::Stall);
  spec.trigger.shots = 0;
  spec.trigger.every = 1;
  const auto management = value_or_throw(card.open_management());
  fault::FaultClient faults(*management);
  value_or_throw(faults.arm(ScenarioContext::checked(spec)));
  context.trigger();
  device.reset();
  return value_or_throw(faults.query(spec.fault));
}

// From the function's reset upwards. The bystander goes with the firmware's restart.
void escalate(ScenarioContext& context, Card& card, std::unique_ptr<Device>& device, BusyBystander& bystander) {
  std::optional<std::string> affected;  // before anything above the function's reset
  const auto report =
      svp::escalate(ResetLevel::Function, ResetLevel::PowerCycle, [&](ResetLevel level) -> Expected<void> {
        if (level != ResetLevel::Function) {
          if (!affected) affected = bystander.unaffected();
          if (auto raised = card.raise(level, card.boots(), true); !raised) return raised;
        }
        auto opened = card.open_virtual(kFaulting);
        if (!opened) return std::unexpected(std::move(opened.error()));
        device = *std::move(opened);
        return {};
      });
  if (!affected) affected = bystander.unaffected();
  context.claim(Proof::Contained, "bystander/below-the-firmware", affected->empty(), *affected);
  context.claim(Proof::Detected, "escalated",
                report && report->attempts.size() > 1 && report->level() == ResetLevel::Firmware,
                report ? describe(*report) : report.error().message);
}

// A card that dies again and again is wedged: every call fails with that error, and no emulator is started for it.
void wedge(ScenarioContext& context, Card& card) {
  std::optional<ErrorInfo> wedged;
  for (unsigned death = 0; death <= card.options().timeouts.wedge_deaths && !wedged; ++death) {
    (void)card.machine().kill();
    const auto raised = card.raise(ResetLevel::PowerCycle, card.boots(), false);
    if (!raised) wedged = raised.error();
  }
  context.claim(Proof::Detected, "wedged", wedged.has_value(), "never wedged");
  const std::uint64_t boots = card.boots();
  const auto refused = card.open_virtual(kFaulting);
  const bool same = wedged && !refused && refused.error().message == wedged->message;
  context.claim(Proof::Contained, "wedged/fails-at-once", same && card.boots() == boots && !card.machine().alive(),
                refused ? "a function came up" : refused.error().message);
}

}  // namespace

void the_reset_fails(ScenarioContext& context) {
  CardOptions options = card_options(context.fixture_options());
  options.timeouts.function_reset = campaign_bounds::kStuckReset;  // reached: the resets stall
  const auto card = value_or_throw(Card::boot(std::move(options)));
  {
    BusyBystander bystander(*card);
    context.claim(Proof::Fired, "bystander-works", bystander.works(), "its kernel never began");
    auto device = value_or_throw(card->open_virtual(kFaulting));
    const auto evidence = stall_resets(context, *card, device);
    context.claim(Proof::Fired, "resets-stuck", evidence.fired != 0, "no reset was stuck");
    escalate(context, *card, device, bystander);
    if (!device) return;
    const std::string ended = bystander.ended_once();
    context.claim(Proof::Contained, "bystander/firmware-restart", ended.empty(), ended);
    BlockBuilder builder(*device);
    TestStream stream(*device);
    const std::string job = context.good_job(builder, stream);
    context.claim(Proof::Recovered, "after-the-restart", job.empty(), job);
  }
  BusyBystander bystander(*card);
  context.claim(Proof::Recovered, "bystander", bystander.works() && bystander.unaffected().empty(), "it does not work");
  wedge(context, *card);
  const std::string ended = bystander.ended_once();
  context.claim(Proof::Contained, "bystander/card-died", ended.empty(), ended);
}

}  // namespace svp::campaign
