// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/source_place.hpp"

#include <utility>

namespace svp::compiler {

namespace {

constexpr std::size_t kMostShownPlace = 400;
constexpr std::size_t kMostShownText = 800;

std::string printable(std::string text, std::size_t most) {
  if (text.size() > most) text = text.substr(0, most) + "...";
  for (char& c : text) {
    if (c < ' ' || c > '~') c = '?';
  }
  return text;
}

}  // namespace

std::string text_of(const SourcePlace& place) {
  std::string text = place.file;
  if (place.line != 0) text += ":" + std::to_string(place.line);
  if (!place.path.empty()) text += ": " + place.path;
  return text;
}

void refuse(const SourcePlace& place, const std::string& what, std::string next_step) {
  const std::string where = printable(text_of(place), kMostShownPlace);
  throw InvalidPlan(where, where + ": " + printable(what, kMostShownText), std::move(next_step));
}

void refuse(const SourcePlace& place, const std::string& what) {
  refuse(place, what, "compile the operation again with a torch-spyre that this compiler knows (docs/torch-spyre.md)");
}

}  // namespace svp::compiler
