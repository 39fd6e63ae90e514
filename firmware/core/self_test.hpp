// SPDX-License-Identifier: Apache-2.0
// SELFTEST: the card measures itself (wire::SelfTestKind). Holds hart 0 while it runs: at most wire::kSelfTestTicks, and
// only while nobody else wants anything of it; then it ends early and tells how far it came.
#pragma once

#include "firmware/core/function.hpp"
#include "shared/admin.hpp"

namespace fw {

struct Card;

void run_self_test(Card& card, Function& function, const wire::AdminRequest& request, wire::AdminReply& reply);

}  // namespace fw
