// SPDX-License-Identifier: Apache-2.0
// One error as a record for machines: what operators collect, count and alarm on (RAS: reliability, availability,
// serviceability). docs/errors.md describes the JSON.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "host_driver/base/error.hpp"
#include "host_driver/ras/codes.hpp"

namespace svp::ras {

// Where it happened, as far as whoever reports it knows.
struct Where {
  std::string device;                   // the card: its name, or "embedded"
  std::string function;                 // "M", "PF", "VF1"
  std::optional<std::uint32_t> stream;  // of the function
  std::optional<std::uint64_t> launch;  // of the stream, from 1
};

struct Counts {
  std::uint64_t occurred = 0;    // with this code in this process, this one included
  std::uint64_t suppressed = 0;  // of them since the last record of this code: counted, not written
  friend bool operator==(const Counts&, const Counts&) = default;
};

struct Record {
  std::chrono::system_clock::time_point time;
  Code code;
  ErrorInfo error;
  Where where;
  Counts counts;
};

// One line without its end. Names of members and their order never change; new ones come last.
std::string to_json(const Record& record);

}  // namespace svp::ras
