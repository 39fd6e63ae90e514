// SPDX-License-Identifier: Apache-2.0
// What scenarios ask of M about other functions.
#pragma once

#include "tests/support/admin_requests.hpp"

namespace svp::campaign {

using test::figures_of;
using test::FunctionFigures;
using test::manage;
using test::ok_or_reason;
using test::pool_figures;
using test::PoolFigures;
using test::set_quota;

}  // namespace svp::campaign
