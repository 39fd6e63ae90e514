// SPDX-License-Identifier: Apache-2.0
// What the tests of this folder share: small cards, their health, and the images of kernels.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "qemu/card.hpp"
#include "tests/conformance/workbench.hpp"
#include "tests/device/card/left_overs.hpp"
#include "tests/support/kernel_image.hpp"

namespace svp::test {

// Two cores, whatever the machine has: kernels run on hart 0 and on another one.
CardOptions small_card(std::string boot_arguments = {});

inline std::unique_ptr<Card> boot(CardOptions options = small_card()) {
  return value_or_throw(Card::boot(std::move(options)));
}

// No firmware has panicked, and hart 0 still serves: what every attack ends with.
void expect_healthy(Card& card, Device& device);

}  // namespace svp::test
