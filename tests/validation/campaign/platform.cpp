// SPDX-License-Identifier: Apache-2.0
// F32 and F38: cards that do not come up, and that go away.
#include <algorithm>
#include <string>
#include <thread>
#include <vector>

#include "host_driver/transport/window.hpp"
#include "shared/boot_arguments.hpp"
#include "shared/memory_order.hpp"
#include "shared/post_codes.hpp"
#include "shared/version.hpp"
#include "shared/window.hpp"
#include "tests/validation/campaign/boot_damage.hpp"
#include "tests/validation/campaign/scenarios.hpp"

namespace svp::campaign {

namespace {

using wire::Outcome;
using wire::PostCode;

CardOptions options_of(ScenarioContext& context, const std::string& words) {
  CardOptions options = card_options(context.fixture_options());
  options.boot_arguments += " " + words;
  return options;
}

// A window whose header is not what this driver was built for is not touched. Empty: so it is.
std::string forged_headers(Card& card) {
  const SlotHandle slot = value_or_throw(card.slot(wire::target_of_virtual(kFaulting)));
  const auto window = value_or_throw(Window::map(slot.window_fd(), slot.window_bytes()));
  auto& header = window->at<wire::WindowHeader>(0);
  const auto refused = [&](const std::string& named) {
    const auto device = card.open_virtual(kFaulting);
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

// Empty: the card does not come up, with an error that names this and says what to do.
std::string refused_boot(const CardOptions& options, const std::string& named) {
  try {
    const auto card = Card::boot(options);
    const auto device = card ? (*card)->open_virtual(kFaulting) : std::unexpected(card.error());
    if (device) return "the function came up";
    const ErrorInfo& error = device.error();
    const bool refused = !error.next_step.empty() && (error.message + error.source).contains(named);
    return refused ? std::string() : error.message + " (" + error.source + ")";
  } catch (const std::exception& error) {
    return std::string("untyped: ") + error.what();
  }
}

}  // namespace

void boot_failures(ScenarioContext& context) {
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
  const auto good = value_or_throw(Card::boot(options_of(context, {})));
  Bystander bystander(value_or_throw(good->open_virtual(kBystander)));
  bystander.begin();
  context.trigger();
  // At the same time: those that stop are given up after Timeouts::post_progress each.
  constexpr const char* kNotTried = "not tried";
  std::vector<std::string> wrong(all.size(), kNotTried);
  {
    std::vector<std::jthread> boots;  // each boot is bounded, by Timeouts::post_progress
    for (std::size_t i = 0; i < all.size(); ++i) {
      CardOptions options = options_of(context, all[i].words);
      append(options.emulator.extra_arguments, all[i].loader);
      boots.emplace_back([&, i, options] { wrong[i] = refused_boot(options, all[i].named); });
    }
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    context.claim(Proof::Detected, all[i].what, wrong[i].empty(), wrong[i]);
  }
  const auto tried =
      static_cast<std::size_t>(std::ranges::count_if(wrong, [](const std::string& w) { return w != kNotTried; }));
  context.fired(tried == all.size(), std::to_string(tried) + " cards that do not come up");
  const std::string header = forged_headers(*good);
  context.detected("headers", header.empty(), header.empty() ? "and a header of another kind or version" : header);
  const std::string disturbed = bystander.end(context.timeout());
  context.contained(
      "neighbour", disturbed.empty(),
      disturbed.empty() ? std::to_string(bystander.rounds()) + " rounds on a card beside them" : disturbed);
  const auto card = value_or_throw(Card::boot(options_of(context, {})));
  const auto device = value_or_throw(card->open_virtual(kFaulting));
  BlockBuilder builder(*device);
  TestStream stream(*device);
  const std::string job = context.good_job(builder, stream);
  context.recovered("next card", job.empty(), job.empty() ? "the next card comes up and works" : job);
}

void hot_unplug(ScenarioContext& context) {
  CardFixture fixture(context.fixture_options());
  auto device = value_or_throw(fixture.card()->open_virtual(kFaulting));
  auto idle = value_or_throw(fixture.card()->open_virtual(kBystander));
  {
    BlockBuilder builder(*device);
    TestStream stream(*device);
    const auto image = kernel_image(*fixture.card(), "spin");
    load_image(builder, stream, 0, image);
    const std::size_t before = stream.ended();
    const wire::ControlBlock blocks[] = {builder.compute(0, image.size(), 1, 1'000'000), BlockBuilder::nop(),
                                         BlockBuilder::nop()};
    const bool running = stream.submit(blocks) && stream.wait_started(before + 1, context.timeout());
    context.trigger();
    const auto killed = fixture.card()->machine().kill();
    context.fired(running && killed.has_value(), "the emulator was killed under a kernel and two blocks");
    const auto status = device->wait_until([&] { return stream.ended() == stream.submitted(); },
                                           ScenarioContext::Clock::now() + context.timeout());
    const auto failure = device->failure();
    context.detected("noticed", failure.has_value() && status != WaitStatus::TimedOut,
                     failure ? failure->message : "unnoticed");
    const auto all = stream.endings();
    const bool typed = all.size() == before + 3 && all[before].outcome == Outcome::Indeterminate &&
                       all[before + 1].outcome == Outcome::Lost && all[before + 2].outcome == Outcome::Lost;
    context.contained("each ended once", typed, "INDETERMINATE for what had begun, LOST for the rest");
    const auto refused = idle->acquire_region(RegionType::Tensor, wire::kGranuleBytes);
    context.contained("idle owner", !refused && refused.error().outcome == Outcome::Lost,
                      "an idle owner's next call fails by what happened");
    context.keep_trace(stream);
  }
  device.reset();
  idle.reset();
  CardFixture next(context.fixture_options());
  device = value_or_throw(next.card()->open_virtual(kFaulting));
  BlockBuilder builder(*device);
  TestStream stream(*device);
  const std::string job = context.good_job(builder, stream);
  context.recovered("next card", job.empty(), job.empty() ? "a new card works" : job);
}

}  // namespace svp::campaign
