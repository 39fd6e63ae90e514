// SPDX-License-Identifier: Apache-2.0
// The reset escalation (spyre/recovery.hpp, protocol §9). What each reset level leaves behind: docs/recovery.md.
#pragma once

#include <spyre/recovery.hpp>

namespace svp {

using spyre::above;
using spyre::kLevels;
using spyre::level_named;
using spyre::name;
using spyre::ResetLevel;

}  // namespace svp
