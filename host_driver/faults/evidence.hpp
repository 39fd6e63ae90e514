// SPDX-License-Identifier: Apache-2.0
// What became of a fault. A scenario whose fault did not fire is INVALID: it has proved nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/faults/script.hpp"

namespace svp::fault {

struct Evidence {
  std::size_t index = 0;  // in the script
  Fault fault{};          // with its random numbers drawn
  bool was_armed = false;
  bool still_armed = false;   // it may fire again
  std::uint64_t counted = 0;  // occurrences that matched; on the card: as far as it could still be asked
  std::uint64_t fired = 0;
  std::uint64_t first_us = 0;  // since the session began; of the first and the last time that it fired
  std::uint64_t last_us = 0;
  // Of the last time, where the point knows it.
  std::optional<wire::Target> function{};
  std::optional<std::uint32_t> stream{};
  std::optional<std::uint64_t> sequence{};
  std::optional<std::uint32_t> hart{};
  std::optional<std::uint32_t> progress{};  // number of what the kernel was at
  std::optional<std::uint32_t> waiting{};   // cores of the launch at the barrier
  std::string note{};                       // why it could not be carried out, or where the evidence is from
};

bool all_fired(const std::vector<Evidence>& evidence);

// {"fault", "layer", "point", "action", "armed", "counted", "fired", "first_us", "last_us", …}
nlohmann::ordered_json to_json(const Evidence& evidence);
// "firmware dma-step corrupt: fired 1 of 3 at 12.345 ms, VF1 stream 0 sequence 7".
std::string describe(const Evidence& evidence);

}  // namespace svp::fault
