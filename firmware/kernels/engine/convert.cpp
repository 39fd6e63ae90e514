// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/families.hpp"
namespace kernel::engine {
Refusal convert(const Work& work) { return work.refuse(Where::Unsupported); }
}  // namespace kernel::engine
