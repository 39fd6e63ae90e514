// SPDX-License-Identifier: Apache-2.0
// The same as processComputeOnHostCommand(), prepared once for many launches.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <spyrecode-host-functions/spyrecode.h>

#pragma GCC visibility push(default)

namespace deeptools {

struct FastHcmPatchPlan {
  bool valid = false;
  uint32_t output_size = 0;        // bytes of the correction tensor
  std::vector<int> patches;        // where in it an address symbol begins
  uint32_t num_input_symbols = 0;  // addresses that it reads
};

// False: the hcm describes nothing; the plan is not changed then.
bool buildFastHcmPatchPlan(FastHcmPatchPlan& plan, const Hcm& hcm);

// True: by the plan. False: the plan is not valid, or there are other addresses than it reads; the tensor was made by
// processComputeOnHostCommand() then, which throws what that throws.
bool processComputeOnHostCommandFast(const FastHcmPatchPlan& plan, const Hcm& hcm, void* output,
                                     const int64_t* addresses, size_t count);

}  // namespace deeptools

#pragma GCC visibility pop
