// SPDX-License-Identifier: Apache-2.0
// A pass over the compiler's intermediate form: readers of a copy read the source of it, and the copy goes, when
// nothing else needs what it has written.
#pragma once

#include "host_driver/compiler/tensor_program.hpp"

namespace svp::compiler {

// What a copy writes has to end with the bundle: it lies in the pool, or in a scratchpad where something else is
// written over all of it, because scratchpads stay for later bundles. Every reader has to find each stick in the source
// by steps of its own, and the source has to stay as it is until the last of them. Arguments may be one storage: one
// that is written counts as a change of all others. Programs with loops, gathers or scatters stay as they are.
// Every byte of every argument, and of the scratchpads at the end, is the same as without.
void forward_copies(TensorProgram& program);

}  // namespace svp::compiler
