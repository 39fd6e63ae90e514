// SPDX-License-Identifier: Apache-2.0
// Bring-up of a real card, and every way in which it fails (scenario F32): quickly, typed, naming step, POST code, the
// card's own reason and what to do next; and nothing is left behind.
#include <functional>
#include <thread>

#include "host_driver/transport/window.hpp"
#include "shared/memory_order.hpp"
#include "shared/post_codes.hpp"
#include "shared/version.hpp"
#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/unit/qemu/test_support.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::boot;
using test::small_card;

constexpr unsigned kPhysicalSlot = 1;

wire::WindowHeader& header_of(Window& window) { return window.at<wire::WindowHeader>(0); }

std::shared_ptr<Window> map_slot(Card& card, unsigned slot) {
  auto handle = card.machine().slot(slot);
  if (!handle) throw std::runtime_error(qemu::to_string(handle.error()));
  return value_or_throw(Window::map(handle->window_fd(), handle->window_bytes()));
}

bool appears(const std::function<bool()>& condition, std::chrono::milliseconds bound = test_bounds::kEmulator) {
  for (const auto end = Device::Clock::now() + bound; Device::Clock::now() < end;
       std::this_thread::sleep_for(test_bounds::kLook)) {  // bounded: a pause of the bounded loop
    if (condition()) return true;
  }
  return condition();
}

// What attaching to the physical function says when it fails.
struct Refusal {
  ErrorInfo error;
  bool names(std::string_view text) const { return error.message.find(text) != std::string::npos; }
};
Refusal refusal_of(Card& card) {
  auto device = card.open_physical();
  if (device) throw std::runtime_error("the card was attached");
  Refusal refusal{device.error()};
  EXPECT_FALSE(refusal.error.next_step.empty());
  EXPECT_FALSE(refusal.error.recoverable);
  SCOPED_TRACE(describe(refusal.error));
  return refusal;
}

// A driver that would wait for ever for a new POST code: what is refused at once is refused all the same, and what is
// waited out hangs until the test's own time-out ends it.
CardOptions patient_card(std::string boot_arguments = {}) {
  CardOptions options = small_card(std::move(boot_arguments));
  options.timeouts.post_progress = std::chrono::hours{24};
  return options;
}

TEST(BringUp, TwentySixSlotsAreMappedAndEachHeaderTellsWhoItIs) {
  const test::NothingIsLeft nothing;
  CardOptions options = small_card("mapall=1");
  options.virtual_functions = 16;
  options.spare_slots = 8;
  const auto card = boot(options);
  ASSERT_EQ(card->machine().slot_count(), 26u);
  const auto physical = map_slot(*card, kPhysicalSlot);
  ASSERT_TRUE(appears([&] { return physical->header().post_code == wire::PostCode::Ready; }));
  for (unsigned slot = 0; slot < 26; ++slot) {
    const auto window = map_slot(*card, slot);
    ASSERT_TRUE(appears([&] { return window->header().magic == wire::kWindowMagic; })) << "slot " << slot;
    const auto& header = header_of(*window);
    const auto kind = slot == 0    ? wire::FunctionKind::Management
                      : slot == 1  ? wire::FunctionKind::Physical
                      : slot <= 17 ? wire::FunctionKind::Virtual
                                   : wire::FunctionKind::Unbound;
    EXPECT_EQ(header.kind, kind) << "slot " << slot;
    EXPECT_EQ(header.slot, slot);
    EXPECT_EQ(header.function_index, kind == wire::FunctionKind::Virtual ? slot - 1 : 0u);
    EXPECT_EQ(header.abi_version, wire::kAbiVersion);
    EXPECT_EQ(header.window_bytes, window->bytes().size());
    EXPECT_NE(header.boot_epoch, 0u);
  }
  // The first and the last function work.
  for (const unsigned vf : {1u, 16u}) {
    const auto device = value_or_throw(card->open_virtual(vf));
    EXPECT_EQ(device->config().function_index, vf);
    EXPECT_EQ(test::Workbench(*device).run(test::Blocks::nop()).outcome, wire::Outcome::Ok);
  }
}

TEST(BringUp, ABadBootArgumentIsToldWithPostCodeAndReason) {
  const test::NothingIsLeft nothing;
  // The last: firmware that is shipped leaves no check out.
  for (const char* bad : {"watchdgo=3", "watchdog=0", "timers=2", "mapall", "vfs=x", "mutant=1"}) {
    const auto card = boot(patient_card(bad));
    const Refusal refusal = refusal_of(*card);
    EXPECT_TRUE(refusal.names("failed")) << describe(refusal.error);
    EXPECT_TRUE(refusal.names("boot argument not understood")) << describe(refusal.error);
    EXPECT_EQ(refusal.error.outcome, wire::Outcome::Lost);
  }
}

TEST(BringUp, MoreFunctionsThanSlotsIsTold) {
  const test::NothingIsLeft nothing;
  const auto card = boot(small_card("vfs=9"));
  EXPECT_TRUE(refusal_of(*card).names("fewer slots than functions"));
}

TEST(BringUp, ACardOfAnotherAbiIsRefusedNamingBothVersions) {
  const test::NothingIsLeft nothing;
  const auto card = boot(patient_card());
  const auto window = map_slot(*card, kPhysicalSlot);
  ASSERT_TRUE(appears([&] { return window->header().post_code == wire::PostCode::Ready; }));
  wire::store_relaxed<std::uint32_t>(header_of(*window).abi_version, 4711);
  const Refusal refusal = refusal_of(*card);
  EXPECT_TRUE(refusal.names("ABI version 4711")) << describe(refusal.error);
  EXPECT_TRUE(refusal.names("version " + std::to_string(wire::kAbiVersion))) << describe(refusal.error);
  EXPECT_EQ(refusal.error.outcome, wire::Outcome::Rejected);

  wire::store_relaxed<std::uint32_t>(header_of(*window).abi_version, wire::kAbiVersion);
  EXPECT_TRUE(card->open_physical()) << "the refusal changed something";
}

TEST(BringUp, AWindowWithoutMagicIsATimeout) {
  const test::NothingIsLeft nothing;
  const auto card = boot(small_card());
  const auto window = map_slot(*card, kPhysicalSlot);
  ASSERT_TRUE(appears([&] { return window->header().post_code == wire::PostCode::Ready; }));
  wire::store_relaxed<std::uint64_t>(header_of(*window).magic, wire::kWindowMagic ^ 1);
  const Refusal refusal = refusal_of(*card);
  EXPECT_TRUE(refusal.names("has not set up this window")) << describe(refusal.error);
}

TEST(BringUp, AnUnboundSlotIsRefused) {
  const test::NothingIsLeft nothing;
  CardOptions options = small_card("mapall=1");
  options.spare_slots = 1;
  const auto card = boot(options);
  auto handle = card->machine().slot(card->machine().slot_count() - 1);  // the spare
  ASSERT_TRUE(handle);
  DeviceOptions device_options;
  device_options.timeouts.post_progress = 300ms;  // reached: nobody sets up the window of a spare slot
  const auto device = Device::attach(*std::move(handle), std::move(device_options));
  ASSERT_FALSE(device);
  SCOPED_TRACE(describe(device.error()));
  EXPECT_FALSE(device.error().next_step.empty());
}

TEST(BringUp, ACardThatStandsStillIsATimeoutNamingItsPostCode) {
  const test::NothingIsLeft nothing;
  CardOptions options = small_card();
  options.emulator.start_paused = true;
  const auto card = boot(options);
  {
    const Refusal refusal = refusal_of(*card);
    EXPECT_TRUE(refusal.names("POST 0 (none)")) << describe(refusal.error);
    EXPECT_TRUE(refusal.names("has not set up this window")) << describe(refusal.error);
    EXPECT_EQ(refusal.error.outcome, wire::Outcome::Indeterminate);
  }
  // The window as a card leaves it that hangs while it starts its functions.
  const auto window = map_slot(*card, kPhysicalSlot);
  header_of(*window).abi_version = wire::kAbiVersion;
  header_of(*window).post_code = static_cast<std::uint32_t>(wire::PostCode::Functions);
  wire::store_release(header_of(*window).magic, wire::kWindowMagic);
  {
    const Refusal refusal = refusal_of(*card);
    EXPECT_TRUE(refusal.names("POST 8 (functions)")) << describe(refusal.error);
    EXPECT_TRUE(refusal.names("no new POST code in")) << describe(refusal.error);
  }
  ASSERT_TRUE(card->machine().cont());
  const auto device = value_or_throw(card->open_physical());
  EXPECT_EQ(test::Workbench(*device).run(test::Blocks::nop()).outcome, wire::Outcome::Ok);
}

TEST(BringUp, ACardThatStopsAfterBringUpIsSilentAndComesBack) {
  CardOptions options = small_card();
  options.timeouts.silent = 100ms;  // reached: the emulator is stopped
  const auto card = boot(options);
  const auto device = value_or_throw(card->open_physical());
  test::CompletionRecorder recorder;
  const auto block = test::Blocks::nop();
  const ControlBlockRequest request{&block, &recorder};
  ASSERT_TRUE(card->machine().stop());
  ASSERT_EQ(value_or_throw(device->submit(0, {&request, 1})), 1u);
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Silent; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(recorder.ended(), 0u);
  EXPECT_FALSE(device->failure()) << "nothing has been given up";
  ASSERT_TRUE(card->machine().cont());
  EXPECT_EQ(device->wait_until([&] { return recorder.ended() == 1; }, test::soon()), WaitStatus::Done);
  EXPECT_EQ(recorder.all()[0].outcome, wire::Outcome::Ok);
  EXPECT_EQ(device->wait_until([&] { return device->health() == Health::Alive; }, test::soon()), WaitStatus::Done);
}

TEST(BringUp, FirmwareThatIsMissingOrNoProgramIsRefusedByName) {
  const test::NothingIsLeft nothing;
  const qemu::test::TemporaryFolder folder;
  const std::string text = folder.file("notes.elf", "this is no program");
  for (const std::string& path : {folder.path().string() + "/nowhere.elf", text, folder.path().string()}) {
    CardOptions options = small_card();
    options.firmware = path;
    const auto card = Card::boot(options);
    ASSERT_FALSE(card) << path;
    EXPECT_EQ(card.error().source, "firmware-missing");
    EXPECT_NE(card.error().message.find(path), std::string::npos) << describe(card.error());
    EXPECT_FALSE(card.error().next_step.empty());
  }
}

TEST(BringUp, AnOpenFunctionIsRefusedAndFreeAgainAfterwards) {
  const auto card = boot();
  auto device = value_or_throw(card->open_physical());
  const auto second = card->open_physical();
  ASSERT_FALSE(second);
  EXPECT_NE(second.error().message.find("open already"), std::string::npos) << describe(second.error());
  EXPECT_FALSE(card->open_virtual(0));
  EXPECT_FALSE(card->open_virtual(card->options().virtual_functions + 1));
  device.reset();
  for (int i = 0; i < 5; ++i)
    EXPECT_EQ(test::Workbench(*value_or_throw(card->open_physical())).run(test::Blocks::nop()).outcome,
              wire::Outcome::Ok);
}

}  // namespace
}  // namespace svp
