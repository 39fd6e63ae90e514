// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/tensor/element_format.hpp"

namespace svp {

// A copy to the card makes int64 elements int32, saturating, or rounds them: told once per process, as a record of the
// RAS log with outcome OK (docs/errors.md).
void warn_of_narrowing(ElementFormat from, ElementFormat to);

}  // namespace svp
