// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "host_driver/base/error.hpp"
#include "host_driver/cli/commands.hpp"
#include "qemu/card.hpp"
#include "shared/version.hpp"

namespace cli {

int version() {
  const auto firmware = svp::find_firmware();
  fmt::print("spyre-vp {} (host/card ABI {})\nfirmware: {}\n", SPYRE_VERSION, wire::kAbiVersion,
             firmware ? firmware->string() : svp::describe(firmware.error()));
  return firmware ? 0 : 2;
}

}  // namespace cli
