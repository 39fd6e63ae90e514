// SPDX-License-Identifier: Apache-2.0
// Enters and exits: the cost of a launch, and the smallest kernel there is.
#include "firmware/kernels/sdk.hpp"

SPYRE_KERNEL({.name = "empty"});

std::uint64_t kernel::compute(const wire::KernelArguments&) { return 0; }
