// SPDX-License-Identifier: Apache-2.0
// What a kernel outside of this repository includes: everything of the kernel SDK.
#pragma once

#include "firmware/kernels/sdk.hpp"
#include "firmware/kernels/vector.hpp"
#include "shared/dl16.hpp"
