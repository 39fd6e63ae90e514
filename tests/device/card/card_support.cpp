// SPDX-License-Identifier: Apache-2.0
#include "tests/device/card/card_support.hpp"

namespace svp::test {

CardOptions small_card(std::string boot_arguments) {
  CardOptions options;
  options.cores = 2;
  options.boot_arguments = std::move(boot_arguments);
  return options;
}

void expect_healthy(Card& card, Device& device) {
  EXPECT_TRUE(card.machine().alive());
  EXPECT_EQ(card.machine().console().find("PANIC"), std::string::npos) << card.machine().console();
  EXPECT_EQ(device.health(), Health::Alive);
  EXPECT_FALSE(device.failure());
  EXPECT_TRUE(device.card_statistics());
}

}  // namespace svp::test
