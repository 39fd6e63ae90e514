// SPDX-License-Identifier: Apache-2.0
// F32 and F38: cards that do not come up, and that go away.
#include <string>

#include "host_driver/transport/window.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/memory_order.hpp"
#include "shared/post_codes.hpp"
#include "shared/version.hpp"
#include "shared/window.hpp"
#include "tests/validation/bounds.hpp"
#include "tests/validation/campaign/boot_damage.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::Outcome;
using wire::PostCode;

constexpr auto kPostProgress = campaign_bounds::kPostProgress;

CardOptions options_of(Trial& trial, std::string words) {
  CardOptions options = card_options(trial.stage_options());
  options.boot_arguments += " " + words;
  return options;
}

// A window whose header is not what this driver was built for is not touched. Empty: so it is.
std::string forged_headers(Card& card) {
  const SlotHandle slot = value_or_throw(card.slot(wire::target_of_virtual(kGuilty)));
  const auto window = value_or_throw(Window::map(slot.window_fd(), slot.window_bytes()));
  auto& header = window->at<wire::WindowHeader>(0);
  const auto refused = [&](const std::string& named) {
    const auto device = card.open_virtual(kGuilty);
    if (device) return "a header with another " + named + " was accepted";
    return device.error().message.contains(named) ? std::string() : device.error().message;
  };
  wire::store_relaxed(header.abi_version, wire::kAbiVersion + 1);
  std::string wrong = refused("ABI version");
  wire::store_relaxed(header.abi_version, wire::kAbiVersion);
  wire::store_relaxed(header.magic, wire::kWindowMagic + 1);
  if (wrong.empty()) wrong = refused("window");
  wire::store_relaxed(header.magic, wire::kWindowMagic);
  return wrong;
}

}  // namespace

void boot_failures(Trial& trial) {
  struct Bad {
    std::string what;
    std::string words;
    std::string named;  // by the error
    std::vector<std::string> loader{};
  };
  std::vector<Bad> all;
  for (const PostCode code : {PostCode::Memory, PostCode::RegionPool, PostCode::Slots, PostCode::Functions}) {
    const auto number = static_cast<unsigned>(code);
    all.push_back({"stuck behind '" + std::string(wire::name(code)) + "'",
                   std::string(wire::boot::kStopAt) + "=" + std::to_string(number), std::string(wire::name(code))});
  }
  all.push_back({"a word that it does not know", "no_such_word=1", "boot"});
  all.push_back({"a value out of range", "vfs=99", "boot"});
  all.push_back({"memory with a wrong magic word", {}, "wrong magic", wrong_magic()});
  all.push_back({"memory of another version", {}, "another version", wrong_version()});
  all.push_back({"memory with a wrong checksum", {}, "wrong checksum", wrong_checksum()});
  CardOptions working = options_of(trial, {});
  working.timeouts.post_progress = kPostProgress;
  const auto good = value_or_throw(Card::boot(std::move(working)));
  Innocent innocent(value_or_throw(good->open_virtual(kInnocent)));
  innocent.begin();
  trial.let_loose();
  std::size_t tried = 0;
  for (const Bad& bad : all) {
    CardOptions options = options_of(trial, bad.words);
    append(options.emulator.extra_arguments, bad.loader);
    options.timeouts.post_progress = kPostProgress;
    const auto card = Card::boot(std::move(options));
    ++tried;
    const auto device = card ? (*card)->open_virtual(kGuilty) : std::unexpected(card.error());
    const bool refused = !device && !device.error().next_step.empty() &&
                         (device.error().message + device.error().culprit).contains(bad.named);
    trial.claim(Proof::Detected, bad.what, refused, device ? "the function came up" : device.error().message);
  }
  trial.fired(tried == all.size(), std::to_string(tried) + " cards that do not come up");
  const std::string header = forged_headers(*good);
  trial.detected("headers", header.empty(), header.empty() ? "and a header of another kind or version" : header);
  const std::string disturbed = innocent.end(trial.patience());
  trial.contained("neighbour", disturbed.empty(),
                  disturbed.empty() ? std::to_string(innocent.rounds()) + " rounds on a card beside them" : disturbed);
  const auto card = value_or_throw(Card::boot(options_of(trial, {})));
  const auto device = value_or_throw(card->open_virtual(kGuilty));
  Desk desk(*device);
  Lane lane(*device);
  const std::string job = trial.good_job(desk, lane);
  trial.recovered("next card", job.empty(), job.empty() ? "the next card comes up and works" : job);
}

void hot_unplug(Trial& trial) {
  Stage stage(trial.stage_options());
  auto device = value_or_throw(stage.card()->open_virtual(kGuilty));
  auto idle = value_or_throw(stage.card()->open_virtual(kInnocent));
  {
    Desk desk(*device);
    Lane lane(*device);
    const auto image = kernel_image(*stage.card(), "spin");
    desk.load(lane, 0, image);
    const std::size_t before = lane.ended();
    const wire::ControlBlock blocks[] = {desk.compute(0, image.size(), 1'000'000), Desk::nop(), Desk::nop()};
    const bool running = lane.submit(blocks) && lane.wait_started(before + 1, trial.patience());
    trial.let_loose();
    const auto killed = stage.card()->machine().kill();
    trial.fired(running && killed.has_value(), "the emulator was killed under a kernel and two blocks");
    const auto status =
        device->wait_until([&] { return lane.ended() == lane.submitted(); }, Trial::Clock::now() + trial.patience());
    const auto failure = device->failure();
    trial.detected("noticed", failure.has_value() && status != WaitStatus::TimedOut,
                   failure ? failure->message : "unnoticed");
    const auto all = lane.endings();
    const bool typed = all.size() == before + 3 && all[before].outcome == Outcome::Indeterminate &&
                       all[before + 1].outcome == Outcome::Lost && all[before + 2].outcome == Outcome::Lost;
    trial.contained("each ended once", typed, "INDETERMINATE for what had begun, LOST for the rest");
    const auto refused = idle->acquire_region(RegionType::Tensor, wire::kGranuleBytes);
    trial.contained("idle owner", !refused && refused.error().outcome == Outcome::Lost,
                    "an idle owner's next call fails by what happened");
    trial.keep_trace(lane);
  }
  device.reset();
  idle.reset();
  Stage next(trial.stage_options());
  device = value_or_throw(next.card()->open_virtual(kGuilty));
  Desk desk(*device);
  Lane lane(*device);
  const std::string job = trial.good_job(desk, lane);
  trial.recovered("next card", job.empty(), job.empty() ? "a new card works" : job);
}

}  // namespace svp::campaign
