// SPDX-License-Identifier: Apache-2.0
// How a submitted unit ends, on the wire. The two enumerations are part of the library's API as well, and the API
// includes nothing of this folder: they are defined there and taken over here. A number is one byte (Outcome) or two
// (Status).
#pragma once

#include <spyre/outcome.hpp>

namespace wire {

using spyre::kOutcomeCount;
using spyre::name;
using spyre::Outcome;
using spyre::Status;

}  // namespace wire
