// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "host_driver/raw/raw_driver.hpp"

namespace fwtest {
using namespace raw;
}  // namespace fwtest
