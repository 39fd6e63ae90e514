// SPDX-License-Identifier: Apache-2.0
// A mapping cannot be revoked: whoever kept the window of a retired slot may write to it for ever. Nobody notices, and
// the card never looks there nor writes there again (protocol §1).

#include <algorithm>
#include <csignal>
#include <cstdlib>

#include "tests/device/cards/cards_support.hpp"
#include "tests/support/process_end.hpp"

namespace svp {
namespace {

using test::Tenant;
using test::Workbench;
using testing::HasSubstr;

// scripts/reliability lets it scribble for a minute.
constexpr const char* kSecondsVariable = "SPYRE_SCRIBBLE_SECONDS";
constexpr std::uint64_t kWindowBytes = 64 * wire::kMiB;  // all of it is written, and so takes memory
constexpr auto kVirtualFunction = wire::target_of_virtual(1);

std::string seconds() {
  const char* named = std::getenv(kSecondsVariable);
  return named != nullptr ? named : "5";
}

// Kills the process that nobody else will: its parent is dead.
struct Orphan {
  explicit Orphan(pid_t id) : pid(id) {}
  ~Orphan() {
    if (qemu::test::is_alive(pid)) svp::test::send_signal(pid, SIGKILL);
    EXPECT_TRUE(qemu::test::wait_for_end(pid, test::kBound));
  }
  Orphan(const Orphan&) = delete;
  Orphan& operator=(const Orphan&) = delete;
  pid_t pid;
};

// A function that holds data in its regions and in its window, and expects to find them.
class Bystander {
 public:
  Bystander(const std::string& folder, const char* function)
      : owner_(value_or_throw(attach(folder, value_or_throw(parse_function_choice(function))))),
        bench_(*owner_.device) {
    const auto memory = owner_.device->host_memory().first(kBytes);
    for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = canary(i);
    for (const auto& at : {bench_.tensor(0), bench_.program(0)}) {
      EXPECT_EQ(bench_.run(Workbench::dma(bench_.host(0), at, kBytes)).outcome, wire::Outcome::Ok);
    }
  }
  void expect_untouched() {
    const auto memory = owner_.device->host_memory();
    for (const auto& at : {bench_.tensor(0), bench_.program(0)}) {
      expect_canary(memory.first(kBytes));
      std::ranges::fill(memory.subspan(kBytes, kBytes), std::byte{0});
      EXPECT_EQ(bench_.run(Workbench::dma(at, bench_.host(kBytes), kBytes)).outcome, wire::Outcome::Ok);
      expect_canary(memory.subspan(kBytes, kBytes));
    }
    EXPECT_EQ(owner_.device->health(), Health::Alive);
    EXPECT_FALSE(owner_.device->failure());
    const auto counted = value_or_throw(owner_.device->card_statistics()).values.stats;
    EXPECT_EQ(counted.ring_violations, 0u);
    EXPECT_EQ(counted.rejected + counted.failed + counted.aborted, 0u);
  }

 private:
  static constexpr std::uint64_t kBytes = 1 * wire::kMiB;
  static std::byte canary(std::size_t i) { return static_cast<std::byte>(i * 13 + i / 253); }
  static void expect_canary(std::span<const std::byte> bytes) {
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < bytes.size(); ++i) wrong += bytes[i] != canary(i) ? 1 : 0;
    EXPECT_EQ(wrong, 0u) << "bytes changed";
  }

  AttachedFunction owner_;
  Workbench bench_;
};

bool free_with_another_window(const CardDescription& now, std::uint32_t old_serial) {
  const FunctionDescription& function = now.functions[kVirtualFunction - wire::kTargetPhysical];
  return function.use == FunctionUse::Free && function.serial != old_serial;
}

// An owner of VF 1 dies and leaves its window to a child; the next owner computes all the while the child scribbles.
void let_a_child_scribble(const test::ServedCard& card) {
  test::HelperProcess scribbler(SPYRE_SCRIBBLER, {card.folder(), "VF1", seconds()});
  const std::string child = scribbler.read_line();
  ASSERT_THAT(child, testing::StartsWith("child"));
  const Orphan orphan(std::stoi(child.substr(6)));
  const auto old_serial = card.function(kVirtualFunction).serial;
  scribbler.kill();
  ASSERT_TRUE(card.wait_until([&](const auto& now) { return free_with_another_window(now, old_serial); }));

  Tenant next(card.folder(), "VF1", "compute-until-told");
  ASSERT_EQ(next.wait_for("working"), "working") << next.attached;
  scribbler.close_input();  // from now on the child counts
  const auto bound = std::chrono::seconds(std::stol(seconds())) + test::kBound;
  const std::string verdict = scribbler.read_line(bound);
  EXPECT_THAT(verdict, testing::StartsWith("kept"));
  testing::Test::RecordProperty("scribbler", verdict);
  next.close_input();
  const std::string computed = next.wait_for("computed");
  EXPECT_THAT(computed, HasSubstr("rounds")) << "a result was wrong, or the card was gone";
  testing::Test::RecordProperty("next_owner", computed);
  EXPECT_EQ(next.wait_exit(), 0);
}

TEST(RetiredWindow, ScribbledOnDisturbsNobody) {
  const test::NothingIsLeft nothing;
  test::ServedCard card(2, 8, kWindowBytes);
  Bystander pf(card.folder(), "PF");
  Bystander neighbour(card.folder(), "VF2");
  // From its second owner on, a function has a renewed window: the first ones are those of the boot.
  Tenant(card.folder(), "VF1", "attach").kill();
  ASSERT_TRUE(card.wait_until([](const auto& now) { return now.retirements.count == 1; }));
  const auto processes = test::count_both(card);
  const auto before = card.description();
  ASSERT_NO_FATAL_FAILURE(let_a_child_scribble(card));
  pf.expect_untouched();
  neighbour.expect_untouched();

  // Both owners have ended, and the windows of both are renewed. Nothing else has changed.
  EXPECT_TRUE(card.wait_until([&](const auto& now) { return now.retirements.count == before.retirements.count + 2; }));
  EXPECT_TRUE(card.wait_until([&](const auto& now) { return now.functions[1].use == FunctionUse::Free; }));
  EXPECT_TRUE(card.wait_until_at_rest());
  const auto after = card.description();
  EXPECT_EQ(after.retirements.count, before.retirements.count + 2);
  EXPECT_EQ(after.state, CardState::Running);
  EXPECT_EQ(after.functions[0], before.functions[0]);
  EXPECT_EQ(after.functions[2], before.functions[2]);
  EXPECT_EQ(test::left_over(card, processes), "");
}

}  // namespace
}  // namespace svp
