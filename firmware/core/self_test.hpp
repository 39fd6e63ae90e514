// SPDX-License-Identifier: Apache-2.0
// SELFTEST: the card measures itself (abi::SelfTestKind). Holds hart 0 while it runs, at most abi::kSelfTestTicks.
#pragma once

#include "firmware/core/function.hpp"
#include "shared/admin.hpp"

namespace fw {

void run_self_test(Function& function, const abi::AdminRequest& request, abi::AdminReply& reply);

}  // namespace fw
