// SPDX-License-Identifier: Apache-2.0
// Where in a bundle something stands, and the refusal that names it.
#pragma once

#include <string>
#include <string_view>

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

// Throws InvalidPlan: field() is the place, the message is the place and `what`. Both may quote the bundle: they are
// bounded, and what is not printable is replaced.
[[noreturn]] void refuse(const SourcePlace& place, const std::string& what, std::string next_step);
// Of sizes that are not in the bundle: the end of the message, and the next step.
inline constexpr std::string_view kNoSizes = "dynamic sizes are not compiled";
inline constexpr const char* kStaticShapes =
    "compile with static shapes: leave out mark_dynamic, or pass dynamic=False";

// The same with the next step of most refusals: the bundle is not one that this compiler reads.
[[noreturn]] void refuse(const SourcePlace& place, const std::string& what);

}  // namespace svp::compiler
