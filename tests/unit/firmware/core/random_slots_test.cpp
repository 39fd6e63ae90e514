// SPDX-License-Identifier: Apache-2.0
// Random SLOT_BIND, SLOT_RETIRE, plugging and resets of the card, also in the middle of a retirement, against a model:
// a window serves one owner, whatever is asked for and repeated.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <vector>

#include "firmware/hal/board.hpp"
#include "tests/unit/firmware/core/test_card.hpp"

namespace {

using fwtest::RawDriver;
using wire::AdminCommand;
using wire::AdminReply;
using wire::Outcome;

constexpr unsigned kVirtual = 2;
constexpr unsigned kFunctions = 2 + kVirtual;  // M too
constexpr unsigned kPorts = 3;
constexpr unsigned kSlots = kFunctions + kPorts;

// What was asked for, and of a function that is bound: what it has.
struct Model {
  std::map<unsigned, fw::Place> bound;          // by function
  std::array<std::uint32_t, kSlots> largest{};  // serial that was bound in a slot
  std::array<bool, kSlots> plugged{};
  std::array<bool, kFunctions> fixed_used{};

  bool doorbell_free(std::uint32_t doorbell) const {
    return std::ranges::none_of(bound, [&](const auto& one) { return one.second.doorbell == doorbell; });
  }
  bool window_free(std::uint32_t slot) const {
    return std::ranges::none_of(bound, [&](const auto& one) { return one.second.slot == slot; });
  }
  bool accepts(unsigned function, const fw::Place& place) const {
    if (const auto has = bound.find(function); has != bound.end()) return has->second == place;
    if (place.slot < kFunctions || place.slot >= kSlots || !window_free(place.slot)) return false;
    return plugged[place.slot] && place.serial > largest[place.slot] && place.doorbell > 0 &&
           place.doorbell < kFunctions && doorbell_free(place.doorbell) && place.peer != wire::kCardPeer &&
           place.peer <= wire::kLastPeer;
  }
};

class RandomSlots : public testing::TestWithParam<unsigned> {
 protected:
  RandomSlots() : card_({.virtual_functions = kVirtual, .ports = kPorts, .window_bytes = wire::kMinWindowBytes}) {
    EXPECT_TRUE(manager_.bring_up());
    for (unsigned f = 0; f < kFunctions; ++f) model_.bound[f] = {.slot = f, .doorbell = f};
  }

  std::uint32_t below(std::uint32_t limit) { return static_cast<std::uint32_t>(random_() % limit); }
  unsigned some_function() { return 1 + below(kFunctions - 1); }

  AdminReply ask(AdminCommand command, unsigned function, const fw::Place& place = {}) {
    auto request = manager_.admin_request(command);
    request.arguments.bind = {function, place.slot, place.serial, place.doorbell, place.peer};
    return manager_.admin(request);
  }

  // Mostly what could be, now and then anything, and what was asked for before.
  fw::Place some_place(unsigned function) {
    if (!asked_.empty() && below(4) == 0) return asked_[below(static_cast<std::uint32_t>(asked_.size()))];
    const unsigned slot = kFunctions + below(kPorts);
    fw::Place place{.slot = slot,
                    .serial = model_.largest[slot] + below(3),
                    .doorbell = below(3) == 0 ? below(kSlots + 1) : function,
                    .peer = below(8) == 0 ? wire::kCardPeer : 2 + below(1000)};
    if (below(8) == 0) place.slot = below(kSlots + 2);
    if (place.slot < kFunctions) place = {.slot = place.slot};  // a fixed slot as its function's
    return place;
  }

  void plug() {
    const unsigned slot = kFunctions + below(kPorts);
    if (std::exchange(model_.plugged[slot], true)) return;
    windows_[slot] = &card_.plug(slot);
  }

  void bind() {
    const unsigned function = some_function();
    const fw::Place place = some_place(function);
    const bool had = model_.bound.contains(function);
    const bool fixed = place.slot < kFunctions && had && model_.bound[function].slot == place.slot;
    const auto reply = ask(AdminCommand::SlotBind, function, place);
    asked_.push_back(place);
    if (fixed) return;  // its own of the boot, repeated: accepted or, with other words, refused; nothing changes
    ASSERT_EQ(reply.outcome == Outcome::Ok, model_.accepts(function, place))
        << "function " << function << ", slot " << place.slot << ", serial " << place.serial << ", doorbell "
        << place.doorbell << ", peer " << place.peer << ": " << wire::name(reply.status);
    if (reply.outcome != Outcome::Ok || had) return;
    ASSERT_FALSE(served_.contains(windows_[place.slot])) << "a window served two owners";
    served_[windows_[place.slot]] = function;
    model_.bound[function] = place;
    model_.largest[place.slot] = place.serial;
    EXPECT_EQ(card_.last_peer(place.doorbell), place.peer);
  }

  void unplugged(unsigned function) {
    const auto has = model_.bound.find(function);
    if (has == model_.bound.end()) return;
    if (has->second.slot >= kFunctions) model_.plugged[has->second.slot] = false;
    model_.bound.erase(has);
  }

  void retire() {
    const unsigned function = some_function();
    ASSERT_EQ(ask(AdminCommand::SlotRetire, function).outcome, Outcome::Ok);
    unplugged(function);
  }

  void reset() {
    if (below(2) == 0) {  // in the middle of a retirement
      const unsigned function = some_function();
      card_.card().slots.retire(function);
      unplugged(function);
    }
    card_.warm_reset();
    ASSERT_TRUE(manager_.bring_up());
  }

  void compare() {
    for (unsigned function = 1; function < kFunctions; ++function) {
      const auto reply = ask(AdminCommand::FunctionQuery, function).values.function;
      const auto has = model_.bound.find(function);
      ASSERT_EQ(reply.state != wire::FunctionState::Unbound, has != model_.bound.end()) << function;
      if (has == model_.bound.end()) continue;
      EXPECT_EQ(reply.slot, has->second.slot);
      EXPECT_EQ(reply.serial, has->second.serial);
    }
    for (unsigned slot = kFunctions; slot < kSlots; ++slot) {
      const unsigned plugs = static_cast<unsigned>(model_.plugged[slot]);
      EXPECT_EQ(card_.board().plugged(slot), plugs != 0) << slot;
    }
  }

  std::mt19937 random_{GetParam()};
  fwtest::TestCard card_;
  RawDriver& manager_ = card_.driver(0);
  Model model_;
  std::vector<fw::Place> asked_;
  std::array<RawDriver*, kSlots> windows_{};
  std::map<RawDriver*, unsigned> served_;
};

TEST_P(RandomSlots, AWindowServesOneOwner) {
  for (int step = 0; step < 400; ++step) {
    const auto what = below(100);
    if (what < 35) {
      ASSERT_NO_FATAL_FAILURE(plug());
    } else if (what < 75) {
      ASSERT_NO_FATAL_FAILURE(bind());
    } else if (what < 97) {
      ASSERT_NO_FATAL_FAILURE(retire());
    } else {
      ASSERT_NO_FATAL_FAILURE(reset());
    }
    ASSERT_NO_FATAL_FAILURE(compare());
  }
  EXPECT_GT(served_.size(), 10u) << "the test did not come to its subject";
}

INSTANTIATE_TEST_SUITE_P(Seeds, RandomSlots, testing::Range(1u, 9u));

}  // namespace
