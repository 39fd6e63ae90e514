// SPDX-License-Identifier: Apache-2.0
// The files of a bundle as a binary brings them (docs/spyrecode.md, version 3).
#pragma once

#include "host_driver/compiler/bundle.hpp"

namespace svp::compiler {

// `files` are what read_bundle() has read. SDSCs lose `debug_handle_`, which says where in the user's sources and in
// torch-spyre's intermediate forms an operation was made: no program and no message depends on it, and it makes the
// binaries of equal kernels differ. Messages name the SDSC, its operation and the line of bundle.mlir, which stay.
BundleFiles archived_files(const BundleFiles& files);

}  // namespace svp::compiler
