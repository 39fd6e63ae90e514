// SPDX-License-Identifier: Apache-2.0
// A failure bundle: everything that somebody needs to run a run again that did not pass, and to look at it, in one JSON
// file.
//
//   {"format": "spyre-failure-bundle", "format_version": 2, "kind": "fault-run", "seed": 7,
//    "script": {…},                                     what ran; its members depend on the kind
//    "versions": {"program": "…", "emulator": "…"},     what it ran with
//    "seen": {"run": {"verdict": "FAILED"}, …},         what it showed: groups of figures (figures.hpp)
//    "details": {…}}                                    for people; not read back
//
// Versions differ strictly: a bundle of another format_version is refused, never interpreted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/bundle/figures.hpp"

namespace svp::bundle {

inline constexpr unsigned kFormatVersion = 2;  // 1: campaign only, proofs and kinds of outcomes
inline constexpr std::size_t kMostFigures = 4096;

enum class Kind : std::uint8_t { Campaign, FaultRun, Soak };
constexpr std::string_view name(Kind kind) {
  constexpr std::string_view kNames[] = {"campaign", "fault-run", "soak"};
  return kNames[static_cast<std::size_t>(kind)];
}

struct Bundle {
  Kind kind{};
  std::uint64_t seed = 0;
  std::string script;  // JSON text of an object
  std::map<std::string, std::string> versions{};
  Figures seen{};
  std::string details = "{}";  // JSON text of an object; empty after read()
};

// Writes "<stem>-seed-<seed>.spyre-bundle.json" into the folder, which is made when it is missing; what stood there
// under this name is replaced. Throws svp::Error.
std::filesystem::path write(const std::filesystem::path& folder, std::string_view stem, const Bundle& bundle);

// REJECTED with the reason: not readable, not of this format and version, members missing, unknown or of a wrong type,
// no verdict among the figures. The script's members are the kind's to judge.
Expected<Bundle> read(const std::filesystem::path& file);

}  // namespace svp::bundle
