// SPDX-License-Identifier: Apache-2.0
// SELFTEST: the card measures itself (wire::SelfTestKind). Holds hart 0 while it runs, at most wire::kSelfTestTicks.
#pragma once

#include "firmware/core/function.hpp"
#include "shared/admin.hpp"

namespace fw {

void run_self_test(Function& function, const wire::AdminRequest& request, wire::AdminReply& reply);

}  // namespace fw
