// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "qemu/card.hpp"
#include "shared/array.hpp"
#include "shared/version.hpp"

namespace cli {

namespace {

// Of cards that are booted now.
std::string array_text(const svp::Expected<svp::FoundArray>& array) {
  if (!array) return svp::describe(array.error());
  if (array->plugin.empty()) return "none";
  return fmt::format("{} (contract {})", array->plugin.string(), wire::array::kVersion);
}

}  // namespace

int version(bool json) {
  const auto firmware = svp::find_firmware();
  const auto array = svp::find_array();
  if (json) {
    const auto path = [](const std::filesystem::path& file) {
      return file.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(file.string());
    };
    print_json(nlohmann::ordered_json{{"version", SPYRE_VERSION},
                                      {"contract_version", wire::kAbiVersion},
                                      {"firmware", path(firmware.value_or(""))},
                                      {"array", path(array.value_or(svp::FoundArray{}).plugin)},
                                      {"array_contract_version", wire::array::kVersion}});
  } else {
    fmt::print("spyre-vp {} (host/card ABI {})\nfirmware: {}\ncompute array: {}\n", SPYRE_VERSION, wire::kAbiVersion,
               firmware ? firmware->string() : svp::describe(firmware.error()), array_text(array));
  }
  return firmware && array ? kOk : kRefused;
}

}  // namespace cli
