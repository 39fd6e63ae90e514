// SPDX-License-Identifier: Apache-2.0
// Where in a bundle something stands, and the refusal that names it.
#pragma once

#include <string>

#include "host_driver/base/error.hpp"

namespace svp::compiler {

using spyre::InvalidPlan;

struct SourcePlace {
  std::string file;   // "bundle.mlir", "sdsc_0.json"
  unsigned line = 0;  // from 1; 0: none
  std::string path;   // of a JSON member: "0_add.dscs_[0].add.N_.mb_"; empty: none
};

// "bundle.mlir:12", "sdsc_0.json: 0_add.dscs_[0].add.N_".
std::string text_of(const SourcePlace& place);

// Throws InvalidPlan: field() is the place, the message is the place and `what`.
[[noreturn]] void refuse(const SourcePlace& place, const std::string& what, std::string next_step);
// Of sizes that are not in the bundle.
inline constexpr const char* kStaticShapes =
    "compile with static shapes: leave out mark_dynamic, or pass dynamic=False";

// The same with the next step of most refusals: the bundle is not one that this compiler reads.
[[noreturn]] void refuse(const SourcePlace& place, const std::string& what);

}  // namespace svp::compiler
