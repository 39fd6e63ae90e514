// SPDX-License-Identifier: Apache-2.0
// svp::DeviceProgram: a list of tensor operations for the engine (shared/device_program.hpp), checked. Immutable once
// made, and may be shared by threads. Job (host_driver/runtime/job.hpp) launches it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/device_program.hpp"

namespace svp {

class DeviceProgram {
 public:
  // Checks everything: header, checksum, arguments, each operation. What stands behind program_bytes is cut off. Throws
  // InvalidArgument; its field says which part is wrong ("operation 3 (Add), operand 1: stride", "header: crc"), its
  // message names the program as well.
  DeviceProgram(std::string name, std::vector<std::byte> bytes);

  const std::string& name() const { return name_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  const wire::program::Header& header() const { return header_; }
  // What a launch has to bring, in order.
  std::span<const wire::program::Argument> arguments() const { return arguments_; }
  // A launch has to bring the tables of functions, program::stored_tables().
  bool uses_tables() const { return wire::program::uses_tables(header_); }
  // Memory of one launch; 0: it needs none.
  std::uint64_t workspace_bytes() const { return wire::program::workspace_bytes(header_); }
  // As far as it uses the function's scratchpads; 0: not at all.
  std::uint64_t scratchpads_bytes() const { return wire::program::scratchpads_bytes(header_); }
  // `number` is below header().operation_count.
  wire::program::Operation operation(std::uint32_t number) const;
  // Points of the iteration space of the operation that has most of them, saturated. Tells whether more than one core
  // has something to do.
  std::uint64_t most_points() const { return most_points_; }

  // "operation 3 (Add), operand 1: stride", of a refusal of this program by whoever refused it; with the line of the
  // source that the operation was made from, when it says one.
  std::string describe(const wire::program::Refusal& refusal) const;
  // "operation 3 (Add)", or "operation 3 (Add), operand 1", likewise with its line.
  std::string describe_operation(std::uint32_t number, std::optional<std::uint8_t> operand = std::nullopt) const;

  // "index 40 is outside of argument 1, which has 16 rows: operation 3 (Gather), operand 1", likewise with its line; of
  // a refusal of the engine, Where::Index. A row is what one index names.
  std::string describe_index(const wire::program::Refusal& refusal) const;
  // How many rows the operand has in the first iteration of the loops around it: indices are below that. `operation`
  // and `operand` may be anything; 0: there is none.
  std::uint64_t rows_of(std::uint32_t operation, std::uint8_t operand) const;

  // A byte that a launch accessed: of which memory, and how far from its beginning.
  struct Place {
    wire::program::Base base;
    std::uint8_t argument;  // Base::Argument; else 0
    std::uint64_t offset;   // Base::Scratchpad: in its slice
  };
  // Of the `index`-th operand that the driver adds behind the arguments: tables, workspace or scratchpads.
  Place place_behind_arguments(std::size_t index, std::uint64_t offset) const;
  // Which operand of the operation reaches that byte in any iteration of the loops around it: the output of what was
  // written, else an input. Of several inputs the first. Empty: none does.
  std::optional<std::uint8_t> operand_at(std::uint32_t number, const Place& place, bool written) const;

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
  wire::program::Header header_{};
  std::vector<wire::program::Argument> arguments_;
  std::uint64_t most_points_ = 0;
};

}  // namespace svp
