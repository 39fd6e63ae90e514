// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "firmware/platform/virt/device_tree.hpp"

namespace virt {

// Finds the ivshmem devices (hal/board.hpp: slots) and takes possession of the PCIe windows.
void find_slots(const BoardDescription& board);

}  // namespace virt
