// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spyrecode-host-functions/spyrecode.h>

#pragma GCC visibility push(default)

namespace deeptools {

// Writes the correction tensor to `output`, which has as many bytes as the ComputeOnHost says: 128, and 32 for each
// symbol, rounded up to 128. `input` is the address of
// a std::vector<int64_t> of device addresses (DMVA), one per inputSym_ or one per tensor of the launch; null: zeros.
// Throws std::runtime_error: "Expect one DCI" for an hcm that describes nothing; fewer addresses than it reads; an
// address that is in no tensor segment.
void processComputeOnHostCommand(Hcm& hcm, void* output, const void* input);

}  // namespace deeptools

#pragma GCC visibility pop
