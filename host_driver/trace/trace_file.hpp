// SPDX-License-Identifier: Apache-2.0
// Reads what a process recorded (record.hpp). The process may have been killed, and the file may be anything: nothing
// of it is believed before it was checked.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "host_driver/base/error.hpp"
#include "host_driver/trace/record.hpp"

namespace svp::trace {

// A record as a value.
struct Entry {
  Kind kind = Kind::None;
  std::uint8_t opcode = 0;
  std::uint8_t outcome = 0;
  std::uint32_t thread = 0;
  std::uint32_t stream = kNoStream;
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
  std::uint64_t device_begin = 0;
  std::uint64_t device_end = 0;
  std::uint64_t launch = 0;
  std::uint32_t tile = 0;
  std::uint32_t step = 0;
  std::uint64_t sequence = 0;
  std::uint64_t bytes = 0;
  std::uint32_t card = 0;
  std::uint16_t core = 0;
  std::uint16_t status = 0;
  std::string text;
};

struct ProcessTrace {
  std::uint32_t process = 0;
  std::string program;
  std::vector<Entry> entries;   // in the order in which they were taken
  std::uint64_t lost = 0;       // found no room
  std::uint64_t unwritten = 0;  // were being written when the process ended
  std::uint64_t damaged = 0;    // of a kind that is not known, or that end before they begin: left out
};

// Errors: it cannot be read, or it is no trace.
Expected<ProcessTrace> read_file(const std::filesystem::path& path);

// All traces of a folder, by the names of their files; files that are no traces are left out.
Expected<std::vector<ProcessTrace>> read_folder(const std::filesystem::path& folder);

}  // namespace svp::trace
