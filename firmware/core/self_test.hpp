// SPDX-License-Identifier: Apache-2.0
// SELFTEST: the card measures itself (wire::SelfTestKind). Holds hart 0 while it runs: at most wire::kSelfTestTicks,
// and only while nobody else wants anything of it; then it ends early and tells how far it came.
#pragma once

#include <expected>

#include "firmware/core/function.hpp"
#include "shared/admin.hpp"

namespace fw {

class Card;

// What a boot proves that was asked to, or that follows a boot that broke: the checksum that tables and blocks rely on,
// moves of memory, and the way into a kernel and back. The string is what failed.
std::expected<void, const char*> run_boot_self_test();

void run_self_test(Card& card, Function& function, const wire::AdminRequest& request, wire::AdminReply& reply);

}  // namespace fw
