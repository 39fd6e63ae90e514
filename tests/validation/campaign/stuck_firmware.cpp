// SPDX-License-Identifier: Apache-2.0
// F16: hart 0's loop stands still; the heartbeat shows it, whoever notices. On the shared card another hart notices,
// and leaves a record: which fault fired, where hart 0 was last. A hart that stands still cannot be asked for its
// registers by another one. On a card where no hart watches, the host notices, and reads the pc out of the emulator.
#include <algorithm>
#include <string>
#include <thread>

#include "host_driver/debug/collect.hpp"
#include "host_driver/debug/fatal_report.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/memory_order.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::FaultAction;
using wire::FaultPoint;
using wire::Outcome;

bool fault_is_recorded(const wire::FatalRecord& record) {
  return std::ranges::any_of(record.events, [](const wire::RecordedEvent& event) {
    return event.kind == wire::RecordedEventKind::FaultFired &&
           event.a == static_cast<std::uint32_t>(FaultPoint::Dispatcher) &&
           event.b == static_cast<std::uint64_t>(FaultAction::Stall);
  });
}

// What the boot that stood still left behind: none of it from the driver that noticed.
void claim_record(ScenarioContext& context, const std::optional<wire::FatalRecord>& record, const ElfImage& image) {
  context.claim(Proof::Detected, "record/fault", record && fault_is_recorded(*record), "no such fault in the record");
  context.claim(Proof::Detected, "record/watchdog",
                record && record->kind == wire::FatalKind::Watchdog && record->source == 0,
                record ? std::string(wire::name(record->kind)) : "no record");
  context.claim(Proof::Detected, "record/no-answer", record && (record->waiting_for & 1) != 0, "hart 0 is not named");
  const auto waypoint = record ? record->harts[0].waypoint : wire::Waypoint::None;
  context.claim(Proof::Detected, "record/waypoint", waypoint >= wire::Waypoint::Control,
                std::string(wire::name(waypoint)));
  // Of the hart that noticed, which has registers.
  const wire::RecordedHart watcher = record ? record->harts[1] : wire::RecordedHart{};
  context.claim(Proof::Detected, "record/pc-of-the-watcher",
                watcher.state == wire::HartState::Firmware && image.function_at(watcher.pc) != nullptr,
                "not in the firmware's text");
  const std::string report = record ? to_text(*record, &image) : std::string();
  context.claim(Proof::Detected, "record/report",
                report.contains("hart  0: no answer, last in \"" + std::string(wire::name(waypoint))) &&
                    report.contains(image.describe(watcher.pc)),
                report);
}

const wire::WindowHeader& header_of(const Device& device) {
  const std::byte* window = device.host_memory().data() - device.host_memory_offset();
  return *reinterpret_cast<const wire::WindowHeader*>(window);
}
std::uint64_t heartbeat_of(const Device& device) { return wire::load_relaxed(header_of(device).heartbeat); }

// How far the heartbeat gets before the card boots again.
class HeartbeatWatch {
 public:
  explicit HeartbeatWatch(const Device& device)
      : header_(header_of(device)), epoch_(wire::load_acquire(header_.boot_epoch)), first_(last_look()) {}
  std::uint64_t beats() {
    thread_.request_stop();
    if (thread_.joinable()) thread_.join();  // bounded: it looks at its stop token between two looks
    return last_ - first_;
  }

 private:
  std::uint64_t last_look() {
    const std::uint64_t beat = wire::load_acquire(header_.heartbeat);
    if (wire::load_acquire(header_.boot_epoch) == epoch_) last_ = std::max(last_, beat);
    return last_;
  }
  void watch(const std::stop_token& stop) {
    // bounded: it looks at its stop token, which beats() and the destructor set
    while (!stop.stop_requested() && wire::load_acquire(header_.boot_epoch) == epoch_) {
      (void)last_look();
      std::this_thread::sleep_for(campaign_bounds::kLook);  // bounded: the time between two looks
    }
  }

  const wire::WindowHeader& header_;
  const std::uint64_t epoch_;
  std::uint64_t last_ = 0;
  const std::uint64_t first_;
  std::jthread thread_{[this](const std::stop_token& stop) { watch(stop); }};  // bounded: it looks at its stop token
};

// The card takes the order and stands still in the next iteration of its loop: it beats once more at most, and once
// again if the answer overtook a beat.
constexpr std::uint64_t kBeatsBehindTheOrder = 2;

void on_a_card_that_watches(ScenarioContext& context) {
  Observer observer(context);
  (void)context.management();
  context.trigger();
  (void)context.arm(ScenarioContext::any_fault(FaultPoint::Dispatcher, FaultAction::Stall));
  HeartbeatWatch heartbeat(observer.device());
  const auto failure = observer.wait_for_failure();
  const std::uint64_t beats = heartbeat.beats();
  context.claim(Proof::Fired, "heartbeat", beats <= kBeatsBehindTheOrder, std::to_string(beats) + " beats");
  context.claim(Proof::Detected, "driver", failure.has_value(), "the driver did not notice");
  context.claim(Proof::Contained, "each-ended-once", observer.typed().empty(), observer.typed());
  const auto image = value_or_throw(ElfImage::open(context.card().options().firmware));
  context.close();
  // A card that did not boot again shows no record.
  claim_record(context, failure ? context.record_of_last_boot() : std::nullopt, image);
  if (failure) context.recover_function();
}

// What the emulator says of hart 0. Empty: it does not say.
std::string place_of_hart_0(Card& card, const ElfImage& image) {
  const auto snapshot = collect_snapshot(card, image);
  if (!snapshot || snapshot->harts.empty()) return {};
  const Symbol* function = image.function_at(snapshot->harts.front().pc);
  return function == nullptr ? std::string() : function->name;
}

// A loop that asks for the time, for ever: fw::stand_still() and what it calls.
bool stands_still(const std::string& place) {
  return place.contains("stand_still") || place.contains("break_loop") || place.contains("hal::now");
}

void arm_stall(Card& card) {
  const auto management = value_or_throw(card.open_management());
  const auto spec = ScenarioContext::any_fault(FaultPoint::Dispatcher, FaultAction::Stall);
  // The answer may stand still with the card.
  (void)fault::FaultClient(*management).arm(ScenarioContext::checked(spec));
}

void on_a_card_that_does_not(ScenarioContext& context) {
  CardOptions options = card_options(context.fixture_options());
  options.boot_arguments += " " + std::string(wire::boot::kLoopWatchdogMs) + "=0";
  // reached: hart 0 stands still, as was seen before
  options.timeouts.silent = options.timeouts.detach = campaign_bounds::kNothingComes;
  const auto card = value_or_throw(Card::boot(std::move(options)));
  const auto image = value_or_throw(ElfImage::open(card->options().firmware));
  auto device = value_or_throw(card->open_virtual(kFaulting));
  {
    TestStream stream(*device);
    arm_stall(*card);
    (void)stream.submit(BlockBuilder::nop());  // somebody has to wait: else silence is no fault
    const auto limit = ScenarioContext::Clock::now() + context.timeout();
    std::string place;
    do {
      place = place_of_hart_0(*card, image);
    } while (!stands_still(place) && ScenarioContext::Clock::now() < limit);
    const std::uint64_t before = heartbeat_of(*device);
    while (device->health() != Health::Silent && ScenarioContext::Clock::now() < limit) {
      (void)device->wait_until([] { return false; }, ScenarioContext::Clock::now() + campaign_bounds::kLook);
      device->check();
    }
    context.claim(Proof::Fired, "unwatched/heartbeat", stands_still(place) && heartbeat_of(*device) == before,
                  "it goes on");
    context.claim(Proof::Detected, "unwatched/silent", device->health() == Health::Silent, "the driver did not notice");
    place = place_of_hart_0(*card, image);
    context.claim(Proof::Detected, "unwatched/pc", stands_still(place), "hart 0 is in " + place);
    context.claim(Proof::Recovered, "unwatched/card-reset", card->reset().has_value(), "the card does not come back");
  }
  device.reset();
  device = value_or_throw(card->open_virtual(kFaulting));
  BlockBuilder builder(*device);
  TestStream stream(*device);
  const std::string job = context.good_job(builder, stream);
  context.claim(Proof::Recovered, "unwatched/good-job", job.empty(), job);
}

}  // namespace

void firmware_stuck(ScenarioContext& context) {
  on_a_card_that_does_not(context);
  on_a_card_that_watches(context);
}

}  // namespace svp::campaign
