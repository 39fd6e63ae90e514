// SPDX-License-Identifier: Apache-2.0
#include "host_driver/bundle/bundle.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "host_driver/base/output_file.hpp"
#include "host_driver/bundle/strict_json.hpp"

namespace svp::bundle {

namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr const char* kFormat = "spyre-failure-bundle";
constexpr Kind kKinds[] = {Kind::Campaign, Kind::FaultRun, Kind::Soak};

struct Refused {
  std::string why;
};

ordered_json figures_json(const Figures& figures) {
  ordered_json groups = ordered_json::object();
  for (const Figure& figure : figures) {
    std::visit([&](const auto& value) { groups[figure.group][figure.name] = value; }, figure.value);
  }
  return groups;
}

Value value_of(const json& value, const std::string& what) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  if (value.is_string()) return value.get<std::string>();
  throw Refused{what + " is neither a text nor a whole number from 0 up"};
}

Figures figures_of(const json& groups) {
  if (!groups.is_object()) throw Refused{"'seen' is not an object"};
  Figures figures;
  for (const auto& [group, members] : groups.items()) {
    if (!members.is_object()) throw Refused{"'seen." + group + "' is not an object"};
    for (const auto& [name, value] : members.items()) {
      if (figures.size() == kMostFigures) throw Refused{"more than " + std::to_string(kMostFigures) + " figures"};
      figures.push_back({group, name, value_of(value, "'seen." + group + "." + name + "'")});
    }
  }
  if (!groups.contains("run") || !groups["run"].contains("verdict")) throw Refused{"'seen' has no verdict of the run"};
  return figures;
}

Kind kind_of(const json& text) {
  for (const Kind kind : kKinds) {
    if (text.is_string() && text.get<std::string>() == name(kind)) return kind;
  }
  throw Refused{"its kind is not known; there are campaign, fault-run and soak"};
}

std::map<std::string, std::string> versions_of(const json& object) {
  if (!object.is_object()) throw Refused{"'versions' is not an object"};
  std::map<std::string, std::string> versions;
  for (const auto& [what, version] : object.items()) {
    if (!version.is_string()) throw Refused{"'versions." + what + "' is not a text"};
    versions[what] = version.get<std::string>();
  }
  return versions;
}

void require_this_version(const json& text) {
  if (!text.is_object()) throw Refused{"not a JSON object"};
  if (!text.contains("format") || text["format"] != kFormat) {
    throw Refused{"no format 'spyre-failure-bundle'"};
  }
  if (!text.contains("format_version") || !text["format_version"].is_number_unsigned()) {
    throw Refused{"no format_version"};
  }
  const auto version = text["format_version"].get<std::uint64_t>();
  if (version == kFormatVersion) return;
  throw Refused{
      fmt::format("it is of version {}, this program reads version {} only: replay it with the program that "
                  "wrote it",
                  version, kFormatVersion)};
}

Bundle bundle_of(const json& text) {
  require_this_version(text);
  const std::string wrong = wrong_members(
      text, "the bundle", {"format", "format_version", "kind", "seed", "script", "versions", "seen"}, {"details"});
  if (!wrong.empty()) throw Refused{wrong};
  if (!text["seed"].is_number_unsigned()) throw Refused{"'seed' is not a whole number from 0 up"};
  if (!text["script"].is_object()) throw Refused{"'script' is not an object"};
  return {.kind = kind_of(text["kind"]),
          .seed = text["seed"].get<std::uint64_t>(),
          .script = text["script"].dump(),
          .versions = versions_of(text["versions"]),
          .seen = figures_of(text["seen"]),
          .details = {}};
}

}  // namespace

std::filesystem::path write(const std::filesystem::path& folder, std::string_view stem, const Bundle& bundle) {
  const ordered_json text = {{"format", kFormat},
                             {"format_version", kFormatVersion},
                             {"kind", name(bundle.kind)},
                             {"seed", bundle.seed},
                             {"script", ordered_json::parse(bundle.script)},
                             {"versions", bundle.versions},
                             {"seen", figures_json(bundle.seen)},
                             {"details", ordered_json::parse(bundle.details)}};
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  const auto path = folder / fmt::format("{}-seed-{}.spyre-bundle.json", stem, bundle.seed);
  // What a firmware wrote to its console need not be UTF-8.
  value_or_throw(write_output_file(path, [&](std::ostream& out) {
    out << text.dump(2, ' ', false, ordered_json::error_handler_t::replace) << "\n";
  }));
  return path;
}

Expected<Bundle> read(const std::filesystem::path& file) {
  auto text = read_strict_json(file);
  if (!text) return std::unexpected(std::move(text.error()));
  try {
    return bundle_of(*text);
  } catch (const Refused& refused) {
    return std::unexpected(bad_bundle(file, refused.why));
  }
}

}  // namespace svp::bundle
