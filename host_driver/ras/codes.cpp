// SPDX-License-Identifier: Apache-2.0
#include "host_driver/ras/codes.hpp"

#include <cstdio>

namespace svp::ras {

namespace {

std::string_view phrase_of(wire::Outcome outcome) {
  switch (outcome) {
    case wire::Outcome::Ok: return "no error of the ";
    case wire::Outcome::Rejected: return "refused by the ";
    case wire::Outcome::Fault: return "failed in the ";
    case wire::Outcome::Timeout: return "out of time in the ";
    case wire::Outcome::Aborted: return "removed by the ";
    case wire::Outcome::Lost: return "lost with the ";
    case wire::Outcome::Indeterminate: return "begun and lost with the ";
  }
  return "unknown end in the ";
}

}  // namespace

std::string to_string(Code code) {
  char text[16];
  std::snprintf(text, sizeof text, "SPYRE-%c%03u", code.letter, unsigned{code.number});
  return text;
}

std::string name_of(const ErrorInfo& error) {
  if (error.status != wire::Status::None) return std::string(wire::name(error.status));
  return std::string(phrase_of(error.outcome)).append(name(error.layer));
}

}  // namespace svp::ras
