// SPDX-License-Identifier: Apache-2.0
// Runs a test once per instruction set that was compiled in and that this processor has.
#pragma once

#include <gtest/gtest.h>

#include "hwy/targets.h"

namespace svp::testing {

template <typename F>
void on_every_target(F&& test) {
  for (const std::int64_t target : hwy::SupportedAndGeneratedTargets()) {
    SCOPED_TRACE(hwy::TargetName(target));
    hwy::GetChosenTarget().Update(target);
    test();
  }
  hwy::GetChosenTarget().DeInit();  // the next call chooses the best one again
}

}  // namespace svp::testing
