// SPDX-License-Identifier: Apache-2.0
// Stable codes of errors (docs/errors.md): "SPYRE-F403" is how it ended (F: FAULT) and why (403: stray load). Where the
// card gave no status, the number is the layer's. Letters and numbers never change their meaning and are only appended
// to; tests/unit/host_driver/ras/codes.golden remembers them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "host_driver/base/error.hpp"

namespace svp::ras {

struct Code {
  char letter;
  std::uint16_t number;  // below 100: a layer; else a wire::Status
  friend auto operator<=>(const Code&, const Code&) = default;
};

constexpr char letter_of(wire::Outcome outcome) {
  switch (outcome) {
    case wire::Outcome::Ok: return 'O';
    case wire::Outcome::Rejected: return 'R';
    case wire::Outcome::Fault: return 'F';
    case wire::Outcome::Timeout: return 'T';
    case wire::Outcome::Aborted: return 'A';
    case wire::Outcome::Lost: return 'L';
    case wire::Outcome::Indeterminate: return 'I';
  }
  return 'X';
}

constexpr std::uint16_t number_of(Layer layer) {
  switch (layer) {
    case Layer::Driver: return 1;
    case Layer::Transport: return 2;
    case Layer::Firmware: return 3;
    case Layer::Core: return 4;
    case Layer::Memory: return 5;
    case Layer::Emulator: return 6;
  }
  return 99;
}

constexpr Code code_of(const ErrorInfo& error) {
  const bool known = error.status != wire::Status::None;
  return {letter_of(error.outcome), known ? static_cast<std::uint16_t>(error.status) : number_of(error.layer)};
}

// "SPYRE-F403".
std::string to_string(Code code);

// "stray load", the status' name; "refused by the driver" where there is none.
std::string name_of(const ErrorInfo& error);

}  // namespace svp::ras
