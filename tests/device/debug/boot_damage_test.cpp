// SPDX-License-Identifier: Apache-2.0
// A boot that cannot go on says why, and the driver's error names the step. The emulator's loader puts damage into the
// card's memory before each boot.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

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
class StopAt : public ::testing::TestWithParam<Stop> {};

TEST_P(StopAt, ABootThatGoesNoFurtherIsNamedByItsStep) {
  CardOptions options = test::small_card("stop_at=" + std::to_string(GetParam().code));
  options.timeouts.post_progress = std::chrono::milliseconds(500);
  const ErrorInfo error = error_of(options);
  EXPECT_THAT(error.message, HasSubstr(GetParam().name));
  EXPECT_EQ(error.outcome, wire::Outcome::Indeterminate);
}

INSTANTIATE_TEST_SUITE_P(Steps, StopAt,
                         ::testing::Values(Stop{0x03, "memory"}, Stop{0x07, "region pool"}, Stop{0x06, "slots"},
                                           Stop{0x09, "cores"}, Stop{0x08, "functions"}),
                         [](const auto& info) { return "Code" + std::to_string(info.param.code); });

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
