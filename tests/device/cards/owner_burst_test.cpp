// SPDX-License-Identifier: Apache-2.0
// Two hundred owners are killed at random moments of random work, while the owner of the PF works on: the card is
// afterwards what it was before.
#include <fmt/format.h>

#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <optional>
#include <random>

#include "tests/device/cards/cards_support.hpp"
#include "tests/support/admin_requests.hpp"

namespace svp {
namespace {

using namespace std::chrono_literals;
using test::Tenant;

constexpr unsigned kVirtual = 4;
constexpr unsigned kKills = 200;
constexpr std::array kWork{"attach", "dma-loop", "kernel-loop", "admin-loop", "compute", "event-loop"};

bool all_free(const CardDescription& now, unsigned virtual_functions = kVirtual) {
  for (unsigned n = 1; n <= virtual_functions; ++n) {
    if (now.functions[n].use != FunctionUse::Free) return false;
  }
  return true;
}

class OwnerBurst : public testing::Test {
 protected:
  std::mt19937 random_{std::random_device{}()};

  // Half of them while they work, the others at any moment of their beginning.
  void let_work(Tenant& tenant) {
    if (random_() % 2 == 0) (void)tenant.wait_for("working");
  }
};

TEST_F(OwnerBurst, TwoHundredKilledOwnersLeaveTheCardAsItWas) {
  test::ServedCard card(kVirtual);
  const auto physical = value_or_throw(attach(card.folder(), FunctionChoice::physical()));
  const test::Workbench bench(*physical.device);
  const auto work_goes_on = [&](std::uint64_t pattern) {
    ASSERT_EQ(bench.run(test::Workbench::fill(bench.tensor(0), 4096, pattern)).outcome, wire::Outcome::Ok);
    ASSERT_EQ(bench.run(test::Workbench::dma(bench.tensor(0), bench.host(0), 4096)).outcome, wire::Outcome::Ok);
    std::uint64_t word = 0;
    std::memcpy(&word, physical.device->host_memory().data(), sizeof word);
    ASSERT_EQ(word, pattern);
  };
  work_goes_on(1);
  // From its second owner on, a function has a renewed window: the first ones are those of the boot.
  for (unsigned n = 1; n <= kVirtual; ++n) Tenant first(card.folder(), "VF" + std::to_string(n), "attach");
  ASSERT_TRUE(card.wait_until([](const auto& now) { return now.retirements.count == kVirtual && all_free(now); }));
  const auto before = test::count_both(card);
  const auto regions = test::pool_figures(*physical.device);

  std::array<std::optional<Tenant>, kVirtual> owners;
  for (unsigned killed = 0; killed < kKills;) {
    const unsigned n = random_() % kVirtual;
    if (auto& owner = owners[n]; owner) {
      let_work(*owner);
      owner->kill();
      owner.reset();
      ++killed;
      work_goes_on(killed + 2);
    } else {
      owner.emplace(card.folder(), "VF" + std::to_string(n + 1), kWork[random_() % kWork.size()]);
      ASSERT_TRUE(owner->attached.starts_with("attached")) << owner->attached;
    }
  }
  unsigned ended = kVirtual + kKills;
  for (auto& owner : owners) ended += owner ? 1 : 0;
  for (auto& owner : owners) owner.reset();
  ASSERT_TRUE(card.wait_until([](const auto& now) { return all_free(now); }));

  const auto after = card.description();
  EXPECT_EQ(after.retirements.count, ended);
  fmt::print("  {} owners ended; stopped within {} us at most\n", ended, after.retirements.max.count());
  // Memory that they had is clean again, and granted to whoever asks.
  EXPECT_TRUE(card.wait_until([&](const auto&) {
    const auto now = test::pool_figures(*physical.device);
    return now.free_bytes == regions.free_bytes && now.largest_bytes == regions.largest_bytes;
  }));
  EXPECT_EQ(test::left_over(card, before), "");
  for (unsigned n = 1; n <= kVirtual; ++n) {
    Tenant last(card.folder(), "VF" + std::to_string(n), "look");
    EXPECT_EQ(last.wait_for("clean"), "clean") << last.read_line();
  }
  work_goes_on(~std::uint64_t{0});
}

}  // namespace
}  // namespace svp
