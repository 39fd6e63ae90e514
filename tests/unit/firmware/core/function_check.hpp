// SPDX-License-Identifier: Apache-2.0
// What holds of a function's streams, lists of waits and command buffers whatever its driver does, between any two
// iterations of the card and slices of its cores.
#pragma once

#include <string>

#include "firmware/core/card.hpp"

namespace fwtest {

// What does not hold; empty: everything does.
std::string broken_property(fw::Card& card, fw::Function& function);

}  // namespace fwtest
