// SPDX-License-Identifier: Apache-2.0
// Programs that hold waits, grants, calls and captures are killed at random moments, beside an observer that must not
// notice: its tensor stays, its work ends OK, and the card is in the same boot at the end.
//
// SPYRE_KILLS: how many are killed (default 100; the whole proof is 1000). SPYRE_SEED: which and when, as far as the
// test decides it; else a new one in each run, which is printed.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "host_driver/discovery/attached_source.hpp"
#include "host_driver/runtime/event.hpp"
#include "host_driver/runtime/runtime.hpp"
#include "tests/device/cards/cards_support.hpp"
#include "tests/device/cards/event_text.hpp"
#include "tests/support/gate.hpp"

namespace svp {
namespace {

constexpr unsigned kVirtual = 3;

unsigned kills_wanted() {
  const char* const text = std::getenv("SPYRE_KILLS");
  return text == nullptr ? 100 : static_cast<unsigned>(std::strtoul(text, nullptr, 0));
}

std::uint64_t seed() {
  const char* const text = std::getenv("SPYRE_SEED");
  const bool given = text != nullptr && *text != '\0';
  return given ? std::strtoull(text, nullptr, 0) : std::random_device{}();
}

class KilledWaiters : public testing::Test {
 protected:
  static constexpr std::uint64_t kBytes = 64 * wire::kKiB;

  KilledWaiters() {
    auto attached = value_or_throw(attach(card_.folder(), FunctionChoice::physical()));
    device_ = attached.device.get();
    auto source = source_of(attached, card_.folder(), {});
    observer_.emplace(std::move(attached.device), RuntimeOptions{}, std::move(source));
    memory_ = observer_->allocator().allocate(kBytes);
    epoch_ = boot_epoch();
    fmt::print("  kills with seed {}; SPYRE_SEED={} repeats them\n", seed_, seed_);
  }

  std::uint64_t boot_epoch() const {
    return reinterpret_cast<const wire::WindowHeader*>(test::window_of(*device_))->boot_epoch;
  }
  // Every word is written, read back on another stream behind an event, and compared. What it notices is counted.
  void observer_works(std::uint64_t pattern) {
    ++looks_;
    try {
      noticed_ += sees_its_pattern(pattern) && boot_epoch() == epoch_ ? 0 : 1;
    } catch (const Error& error) {
      ++noticed_;
      ADD_FAILURE() << error.what();
    }
  }
  bool sees_its_pattern(std::uint64_t pattern) {
    FlexStream& stream = observer_->default_stream();
    FlexStream& reader = observer_->next_stream(StreamPriority::Low);
    stream.Launch(Job::fill(memory_, kBytes, pattern), {});
    reader.Wait(stream.Record());
    std::vector<std::uint64_t> words(kBytes / 8);
    reader.Launch(Job::from_device(words.data(), memory_, kBytes), {});
    reader.Synchronize();
    return std::ranges::all_of(words, [&](std::uint64_t word) { return word == pattern; });
  }

  test::ServedCard card_{kVirtual};
  Device* device_ = nullptr;
  std::optional<Runtime> observer_;
  AllocationIndex memory_;
  std::uint64_t epoch_ = 0;
  std::uint64_t looks_ = 0;
  std::uint64_t noticed_ = 0;  // of them: an error, a wrong word, or another boot of the card
  const std::uint64_t seed_ = seed();
  std::mt19937_64 random_{seed_};
};

TEST_F(KilledWaiters, AnObserverNeverNotices) {
  // An event that is never signalled while the others live: their granted waits stand when they are killed.
  FlexStream& held = observer_->next_stream(StreamPriority::High);
  test::Gate gate;
  held.LaunchHost(gate.passing());
  const std::string event = test::text_of(held.Record()->share());

  std::array<std::optional<test::Tenant>, kVirtual> tenants;
  const unsigned wanted = kills_wanted();
  unsigned killed = 0, at_work = 0;
  while (killed < wanted && noticed_ == 0 && !HasFailure()) {
    const auto n = static_cast<unsigned>(random_() % kVirtual);
    auto& tenant = tenants[n];
    if (!tenant) {
      tenant.emplace(card_.folder(), "VF" + std::to_string(n + 1), "wait-loop:" + event);
      EXPECT_TRUE(tenant->attached.starts_with("attached")) << tenant->attached;
      continue;
    }
    // Most of them while they work, the others at any moment of their beginning.
    if (random_() % 4 != 0) at_work += tenant->wait_for("working") == "working" ? 1 : 0;
    observer_works(killed + 1);
    tenant->kill();
    tenant.reset();
    ++killed;
    observer_works(~std::uint64_t{killed});
  }
  for (auto& tenant : tenants) tenant.reset();
  gate.open();
  observer_works(7);
  fmt::print("  {} killed, {} of them at work, {} looks of the observer, {} noticed\n", killed, at_work, looks_,
             noticed_);
  EXPECT_EQ(noticed_, 0u) << "SPYRE_SEED=" << seed_ << ": kill " << killed;
  EXPECT_EQ(looks_, 2 * killed + 1);
  EXPECT_EQ(killed, wanted);
  EXPECT_GE(at_work, wanted / 4) << "they have to be killed while they wait";
}

}  // namespace
}  // namespace svp
