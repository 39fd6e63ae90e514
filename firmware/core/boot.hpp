// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <expected>

namespace fw {

class Card;

// Boots the card from what hal found: options, region pool, functions bound to slots 0 … n + 1, cores. The string is
// the reason of a failed boot.
std::expected<void, const char*> boot(Card& card);

}  // namespace fw
