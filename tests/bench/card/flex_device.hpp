// SPDX-License-Identifier: Apache-2.0
// Which device libflex gets in spyre_bench. It is linked with what libflex.so consists of, so that both interfaces can
// be measured over one card.
#pragma once

#include "host_driver/frontend/context.hpp"

namespace bench {

// Over this context from the next initializeRuntime() on; it must outlive that runtime. Null: a card of its own, as in
// libflex.so when no card runs.
void share_with_flex(svp::Context* context);

}  // namespace bench
