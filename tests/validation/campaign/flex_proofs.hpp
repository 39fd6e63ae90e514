// SPDX-License-Identifier: Apache-2.0
// What scenarios with programs of libflex have in common.
#pragma once

#include <string>

#include "host_driver/discovery/function_statistics.hpp"
#include "shared/admin.hpp"
#include "tests/validation/campaign/flex_process.hpp"
#include "tests/validation/campaign/long_lived_card.hpp"

namespace svp::campaign {

// The function of the program that meets the fault.
inline constexpr wire::Target kProgram = wire::target_of_virtual(kFaulting);
// How the program answers "state": every stream has failed; none has, and none has work.
inline constexpr const char* kAllFailed = "ok error 1 failed 1 other 1";
inline constexpr const char* kNoneFailed = "ok error 0 failed 0 other 0 idle 1";

// What M has counted of that function. Throws svp::Error.
FunctionStatistics program_statistics(const LongLivedCard& card);

// Throws svp::Error that says what is wrong. Empty: nothing is.
void require_right(const std::string& wrong);

// There is no reset in this interface: a runtime is let go. Empty: the next one works.
std::string wrong_in_next_runtime(FlexProcess& program);
// Empty: no stream has failed, and the program ends by itself.
std::string wrong_at_end(FlexProcess& program);

void prove_neighbour(ScenarioContext& context, Bystander& bystander);

}  // namespace svp::campaign
