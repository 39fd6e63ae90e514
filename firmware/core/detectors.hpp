// SPDX-License-Identifier: Apache-2.0
// What the boot word `blind` switched off (wire::Detector). A scenario of a broken card must fail when the detector that
// it relies on does not look; a blind card is for proving that, and may die of what it does not see.
#pragma once

#include <cstdint>

#include "shared/fault.hpp"

namespace fw {

// Written by boot() before any other hart looks; constant afterwards. Not part of Card: the resolver and the pool, which
// know no card, ask it too.
inline std::uint32_t blind_detectors = 0;

// Asked behind the finding and not before it: what is in order never gets here.
inline bool detects(wire::Detector detector) { return (blind_detectors & detector) == 0; }

}  // namespace fw
