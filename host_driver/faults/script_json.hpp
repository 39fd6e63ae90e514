// SPDX-License-Identifier: Apache-2.0
// Scripts on disk.
//
//   {
//     "seed": 7,
//     "faults": [
//       {
//         "layer": "firmware",
//         "point": "dma-step",
//         "action": "corrupt",
//         "argument": 17,
//         "trigger": {"first": 3, "function": "VF1", "opcode": "DMA"}
//       },
//       {"layer": "emulator", "point": "kill", "action": "kill", "trigger": {"first": {"random": [50, 200]}}}
//     ]
//   }
//
// Members: layer, point, action; argument where the action takes one; trigger {first, every, shots, not_before_us,
// function, stream, opcode, sequence, core, progress, waiting}; region, offset, hart, segment. What has a default may
// be left out. first, not_before_us, argument and offset may be {"random": [low, high]}: the seed decides.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"
#include "host_driver/faults/script.hpp"

namespace svp::fault {

// `name` is how errors call the text. An error's source is "name:line"; its message says what is wrong there: not JSON,
// an unknown or repeated key, a wrong type, an unknown point or action, a pair that makes no sense, a number out of
// range.
Expected<Script> parse_script(std::string_view text, std::string_view name = "script");
Expected<Script> load_script(const std::filesystem::path& file);

// parse_script() of it is the same script.
std::string to_json(const Script& script);

}  // namespace svp::fault
