// SPDX-License-Identifier: Apache-2.0
// What most test programs read, compiled once for all of them (toolchain/cmake/spyre_precompiled.cmake).
#pragma once

#include "toolchain/precompiled/library.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
