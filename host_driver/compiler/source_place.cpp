// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/source_place.hpp"

#include <utility>

namespace svp::compiler {

std::string text_of(const SourcePlace& place) {
  std::string text = place.file;
  if (place.line != 0) text += ":" + std::to_string(place.line);
  if (!place.path.empty()) text += ": " + place.path;
  return text;
}

void refuse(const SourcePlace& place, const std::string& what, std::string next_step) {
  const std::string where = text_of(place);
  throw InvalidPlan(where, where + ": " + what, std::move(next_step));
}

void refuse(const SourcePlace& place, const std::string& what) {
  refuse(place, what, "compile the operation again with a torch-spyre that this compiler knows (docs/torch-spyre.md)");
}

}  // namespace svp::compiler
