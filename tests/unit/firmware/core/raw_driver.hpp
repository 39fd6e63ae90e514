// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/validation/raw/raw_driver.hpp"

namespace fwtest {
using namespace raw;
}  // namespace fwtest
