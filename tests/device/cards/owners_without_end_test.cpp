// SPDX-License-Identifier: Apache-2.0
// Owners of one card without a power cycle: 1000, or as many as SPYRE_OWNERS says (scripts/reliability: 10 000), a
// third of them killed at a random moment, while the owner of the PF works on. Each finds nothing of the last; at the
// end the card, its broker and its emulator hold what they held at the beginning.
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <vector>

#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using test::Workbench;
using testing::HasSubstr;

constexpr std::uint64_t kWindowBytes = 4 * wire::kMiB;
constexpr unsigned kVirtual = 2;
constexpr unsigned kSpares = 4;
// Of the emulator's resident memory: its table of peers grows by 8 MiB for 65 535 ids, its translations and allocator
// wander by a few MiB.
constexpr std::uint64_t kMoreResidentBytes = 32 * wire::kMiB;

unsigned owners_wanted() {
  const char* wanted = std::getenv("SPYRE_OWNERS");
  return wanted == nullptr ? 1000 : static_cast<unsigned>(std::stoul(wanted));
}

std::uint64_t resident_bytes(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    std::uint64_t kib = 0;
    status >> kib;
    return kib * wire::kKiB;
  }
  return 0;
}

void work(const Workbench& bench, std::uint64_t pattern) {
  ASSERT_EQ(bench.run(Workbench::fill(bench.tensor(0), 4096, pattern)).outcome, wire::Outcome::Ok);
  ASSERT_EQ(bench.run(Workbench::dma(bench.tensor(0), bench.host(0), 4096)).outcome, wire::Outcome::Ok);
  std::uint64_t word = 0;
  std::memcpy(&word, bench.device().host_memory().data(), sizeof word);
  ASSERT_EQ(word, pattern);
}

// One series of owners per virtual function, side by side; the PF works while they go on.
void let_owners_come_and_go(const test::ServedCard& card, const Workbench& bench, unsigned owners) {
  std::vector<std::unique_ptr<test::HelperProcess>> series;
  for (unsigned n = 1; n <= kVirtual; ++n) {
    series.push_back(std::make_unique<test::HelperProcess>(
        SPYRE_OWNER_SERIES,
        std::vector<std::string>{card.folder(), "VF" + std::to_string(n), std::to_string(owners / kVirtual),
                                 std::to_string(std::random_device{}())}));
  }
  std::uint64_t pattern = 0;
  for (auto& one : series) {
    std::string line;
    do {
      line = one->read_line();
      ASSERT_TRUE(line.starts_with("owners") || line.starts_with("ended")) << line;
      ASSERT_NO_FATAL_FAILURE(work(bench, ++pattern));
    } while (!line.starts_with("ended"));
    fmt::print("  {}\n", line);
    EXPECT_EQ(one->wait_exit(), 0);
  }
}

TEST(OwnersWithoutEnd, OfOneCardLeaveNothingBehind) {
  const test::NothingIsLeft nothing;
  test::ServedCard card(kVirtual, kSpares, kWindowBytes);
  const auto physical = value_or_throw(attach(card.folder(), FunctionChoice::physical()));
  const Workbench bench(*physical.device);
  // From its second owner on, a function has a renewed window: the first ones are those of the boot.
  ASSERT_NO_FATAL_FAILURE(let_owners_come_and_go(card, bench, 10 * kVirtual));
  const pid_t emulator = card.description().emulator;
  const auto before = test::count_both(card);
  const std::uint64_t resident = resident_bytes(emulator);
  const auto retired = card.description().retirements.count;

  const unsigned owners = owners_wanted();
  ASSERT_NO_FATAL_FAILURE(let_owners_come_and_go(card, bench, owners));
  ASSERT_TRUE(card.wait_until_at_rest());
  const auto after = card.description();
  EXPECT_GE(after.retirements.count, retired + owners);
  EXPECT_EQ(after.power_cycles, 0u);
  EXPECT_EQ(after.emulator, emulator);
  EXPECT_EQ(test::left_over(card, before), "");
  const std::uint64_t now = resident_bytes(emulator);
  EXPECT_LT(now, resident + kMoreResidentBytes);
  fmt::print("  {} retired; the emulator's resident memory {} -> {} KiB\n", after.retirements.count - retired,
             resident / wire::kKiB, now / wire::kKiB);
}

// Without windows in reserve each owner waits until one is plugged: it is delayed, not refused.
TEST(OwnersWithoutEnd, WithoutSparesAreOnlyDelayed) {
  test::ServedCard card(1, 0, kWindowBytes);
  for (int owner = 0; owner < 20; ++owner) {
    const auto owned = value_or_throw(attach(card.folder(), FunctionChoice::virtual_function(1)));
    work(Workbench(*owned.device), 1);
  }
  EXPECT_GE(card.description().retirements.count, 19u);
}

TEST(LastOwners, AreATypedErrorAndAPowerCycleLetsWorkGoOn) {
  constexpr unsigned kLeft = 4;
  const test::NothingIsLeft nothing;
  qemu::test::TemporaryFolder runtime_folder;
  auto options = test::small_broker(runtime_folder.path(), "card0", 2, kSpares, kWindowBytes);
  options.card.emulator.first_renewed_peer = qemu::kLastPeer - kLeft + 1;
  const auto broker = value_or_throw(Broker::start(std::move(options)));
  const std::string folder = broker->folder().string();
  for (unsigned owner = 0; owner <= kLeft; ++owner) {
    const auto owned = value_or_throw(attach(folder, FunctionChoice::virtual_function(1)));
    work(Workbench(*owned.device), owner);
  }
  const auto refused = attach(folder, FunctionChoice::virtual_function(1));
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, HasSubstr("has no slot for another owner: it has had 65535 owners"));
  EXPECT_EQ(refused.error().next_step, "power-cycle the card");
  EXPECT_FALSE(refused.error().recoverable);
  EXPECT_EQ(broker->description().functions[1].use, FunctionUse::NoSlot);
  // Ids are the function's, not the card's.
  work(Workbench(*value_or_throw(attach(folder, FunctionChoice::virtual_function(2))).device), 7);
  work(Workbench(*value_or_throw(attach(folder, FunctionChoice::physical())).device), 8);
  value_or_throw(power_cycle_card(folder));
  work(Workbench(*value_or_throw(attach(folder, FunctionChoice::virtual_function(1))).device), 9);
}

}  // namespace
}  // namespace svp
