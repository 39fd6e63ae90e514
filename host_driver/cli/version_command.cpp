// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/commands.hpp"
#include "host_driver/cli/exit_codes.hpp"
#include "host_driver/cli/output.hpp"
#include "qemu/card.hpp"
#include "shared/version.hpp"

namespace cli {

int version(bool json) {
  const auto firmware = svp::find_firmware();
  if (json) {
    nlohmann::ordered_json object = {{"version", SPYRE_VERSION}, {"contract_version", wire::kAbiVersion}};
    object["firmware"] = firmware ? nlohmann::ordered_json(firmware->string()) : nlohmann::ordered_json();
    print_json(object);
    return firmware ? kOk : kRefused;
  }
  fmt::print("spyre-vp {} (host/card ABI {})\nfirmware: {}\n", SPYRE_VERSION, wire::kAbiVersion,
             firmware ? firmware->string() : svp::describe(firmware.error()));
  return firmware ? kOk : kRefused;
}

}  // namespace cli
