// SPDX-License-Identifier: Apache-2.0
// A boot that cannot go on says why, and the driver's error names the step. The emulator's loader puts damage into the
// card's memory before each boot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <vector>

#include "tests/bounds.hpp"
#include "tests/device/card/card_support.hpp"
#include "tests/validation/campaign/boot_damage.hpp"

namespace svp {
namespace {

using ::testing::HasSubstr;

ErrorInfo error_of(CardOptions options) {
  const auto card = Card::boot(std::move(options));
  if (!card) return card.error();
  const auto device = (*card)->open_physical();
  EXPECT_FALSE(device) << "the card booted";
  return device ? ErrorInfo{} : device.error();
}

CardOptions damaged(const std::vector<std::string>& loader) {
  CardOptions options = test::small_card();
  campaign::append(options.emulator.extra_arguments, loader);
  return options;
}

TEST(BootDamage, AWrongMagicWordIsRefused) {
  const ErrorInfo error = error_of(damaged(campaign::wrong_magic()));
  EXPECT_THAT(error.message, HasSubstr("wrong magic"));
  EXPECT_THAT(error.message, HasSubstr("post 0xe0"));
}

TEST(BootDamage, AnotherVersionIsRefused) {
  EXPECT_THAT(error_of(damaged(campaign::wrong_version())).message, HasSubstr("another version"));
}

TEST(BootDamage, AWrongChecksumIsRefused) {
  EXPECT_THAT(error_of(damaged(campaign::wrong_checksum())).message, HasSubstr("wrong checksum"));
}

struct Stop {
  unsigned code;
  const char* name;
};
constexpr Stop kStops[] = {
    {0x03, "memory"}, {0x07, "region pool"}, {0x06, "slots"}, {0x09, "cores"}, {0x08, "functions"}};

TEST(BootDamage, ABootThatGoesNoFurtherIsNamedByItsStep) {
  // All at the same time: each is given up after Timeouts::post_progress.
  std::vector<std::future<ErrorInfo>> boots;
  for (const Stop& stop : kStops) {
    boots.push_back(std::async(std::launch::async,
                               [&stop] { return error_of(test::small_card("stop_at=" + std::to_string(stop.code))); }));
  }
  for (std::size_t i = 0; i < boots.size(); ++i) {
    ASSERT_EQ(boots[i].wait_for(test_bounds::kWork), std::future_status::ready) << kStops[i].name;
    const ErrorInfo error = boots[i].get();
    EXPECT_THAT(error.message, HasSubstr(kStops[i].name));
    EXPECT_EQ(error.outcome, wire::Outcome::Indeterminate);
  }
}

TEST(BootDamage, AStepThatBootDoesNotPassIsRefused) {
  EXPECT_THAT(error_of(test::small_card("stop_at=1")).message, HasSubstr("boot argument not understood"));
}

TEST(BootDamage, TheSelfTestIsRunWhenItIsAskedFor) {
  const auto card = test::boot(test::small_card("selftest=1"));
  const auto device = svp::value_or_throw(card->open_physical());
  EXPECT_THAT(card->machine().console(), HasSubstr("self-test"));
  test::expect_healthy(*card, *device);
}

}  // namespace
}  // namespace svp
