// SPDX-License-Identifier: Apache-2.0
// When a broker is at rest: what tests count and compare is counted then.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>

#include "tests/device/cards/cards_support.hpp"

namespace svp {
namespace {

using test::Tenant;

constexpr const char* kNewDescription = "card.json.new";

class BrokerRest : public testing::Test {
 protected:
  test::ServedCard& card() { return card_; }
  std::filesystem::path new_description() { return std::filesystem::path(card_.folder()) / kNewDescription; }

 private:
  test::ServedCard card_{1};
};

TEST_F(BrokerRest, ABrokerWhoseCardFileIsNotWrittenIsNotAtRest) {
  ASSERT_TRUE(card().wait_until_at_rest());
  ASSERT_EQ(::mkdir(new_description().c_str(), 0700), 0);  // in the way of the file
  {
    Tenant owner(card().folder(), "VF1", "attach");
    for (int look = 0; look < 100; ++look) EXPECT_FALSE(card().broker().at_rest());
  }
  ASSERT_EQ(::rmdir(new_description().c_str()), 0);
  EXPECT_TRUE(card().wait_until_at_rest());
  EXPECT_EQ(card().function(wire::target_of_virtual(1)).use, FunctionUse::Free);
}

TEST_F(BrokerRest, AnOwnerThatHasGoneIsNoticedBeforeTheBrokerIsAtRest) {
  const auto target = wire::target_of_virtual(1);
  for (int round = 1; round <= 5; ++round) {
    Tenant(card().folder(), "VF1", "attach").kill();
    ASSERT_TRUE(card().wait_until_at_rest());
    EXPECT_EQ(card().function(target).use, FunctionUse::Free);
    EXPECT_EQ(card().description().retirements.count, round);
  }
}

// A file system that takes its time shows as one descriptor more, for as long as it likes: a pipe in the file's place
// takes the text when it is read.
TEST_F(BrokerRest, WhatIsHeldForAMomentIsNotCounted) {
  Tenant(card().folder(), "VF1", "attach").kill();
  const auto before = test::count_both(card());
  ASSERT_EQ(::mkfifo(new_description().c_str(), 0600), 0);
  UniqueFd pipe{::open(new_description().c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC)};
  ASSERT_TRUE(pipe.valid());
  const std::array<char, 4096> full{};
  while (::write(pipe.get(), full.data(), full.size()) > 0) {  // bounded: until the pipe is full
  }
  {
    Tenant owner(card().folder(), "VF1", "attach");
    const auto opened = [&] { return test::descriptors_of(::getpid())[std::filesystem::canonical(new_description())]; };
    const bool writes = card().wait_until([&](const auto&) { return opened() == 2; });
    const auto held = test::count_own_resources();
    std::array<char, 4096> text{};
    while (::read(pipe.get(), text.data(), text.size()) > 0) {  // bounded: until the pipe is empty
    }
    ASSERT_TRUE(writes);
    EXPECT_EQ(held.descriptors - test::count_both(card()).ours.own.descriptors, 1u) << "the broker's end of the pipe";
  }
  pipe.reset();
  EXPECT_EQ(test::left_over(card(), before), "");
}

}  // namespace
}  // namespace svp
