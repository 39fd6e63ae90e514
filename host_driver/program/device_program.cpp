// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/device_program.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "host_driver/base/error.hpp"
#include "shared/device_program_check.hpp"
#include "shared/device_program_names.hpp"

namespace svp {
namespace {

using wire::program::Header;
using wire::program::Operation;
using wire::program::Refusal;
using wire::program::Where;

std::uint64_t times(std::uint64_t a, std::uint64_t b) {
  std::uint64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? ~std::uint64_t{0} : product;
}

std::uint64_t points_of(const Operation& operation) {
  std::uint64_t points = 1;
  for (unsigned d = 0; d < std::min<unsigned>(operation.rank, wire::program::kMaxRank); ++d) {
    points = times(points, operation.extent[d]);
  }
  return points;
}

// The operation, as far as bytes that may be anything have one.
bool read_operation(std::span<const std::byte> bytes, std::uint32_t number, Operation& operation) {
  Header header;
  if (bytes.size() < sizeof header) return false;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (number >= header.operation_count || header.operations_offset > bytes.size()) return false;
  const std::uint64_t at = header.operations_offset + std::uint64_t{number} * sizeof operation;
  if (bytes.size() - header.operations_offset < (std::uint64_t{number} + 1) * sizeof operation) return false;
  std::memcpy(&operation, bytes.data() + at, sizeof operation);
  return true;
}

// In the header, in an entry of the arguments, or in an operation.
std::string place_of(std::span<const std::byte> bytes, const Refusal& refusal) {
  if (refusal.where == Where::Correction) return "launch";
  if (refusal.operation == wire::program::kWholeProgram) {
    return refusal.operand == wire::program::kNoOperand ? "header" : "argument " + std::to_string(refusal.operand);
  }
  std::string text = "operation " + std::to_string(refusal.operation);
  Operation operation;
  if (read_operation(bytes, refusal.operation, operation)) {
    text += " (" + std::string(wire::program::name(operation.opcode)) + ")";
  }
  if (refusal.operand != wire::program::kNoOperand) text += ", operand " + std::to_string(refusal.operand);
  return text;
}

std::string describe_refusal(std::span<const std::byte> bytes, const Refusal& refusal) {
  return place_of(bytes, refusal) + ": " + std::string(wire::program::name(refusal.where));
}

}  // namespace

DeviceProgram::DeviceProgram(std::string name, std::vector<std::byte> bytes)
    : name_(std::move(name)), bytes_(std::move(bytes)) {
  if (const Refusal refusal = wire::program::check_program(bytes_); !refusal.ok()) {
    const std::string field = describe_refusal(bytes_, refusal);
    throw InvalidArgument(field, "device program " + name_ + " is refused: " + describe(refusal),
                          "make the program again with a compiler of this version (docs/device-programs.md)");
  }
  std::memcpy(&header_, bytes_.data(), sizeof header_);
  bytes_.resize(header_.program_bytes);
  arguments_.resize(header_.argument_count);
  if (!arguments_.empty()) {
    std::memcpy(arguments_.data(), bytes_.data() + header_.arguments_offset, arguments_.size() * sizeof arguments_[0]);
  }
  for (std::uint32_t i = 0; i < header_.operation_count; ++i) {
    most_points_ = std::max(most_points_, points_of(operation(i)));
  }
}

Operation DeviceProgram::operation(std::uint32_t number) const {
  Operation operation{};
  (void)read_operation(bytes_, number, operation);
  return operation;
}

namespace {

std::string line_of(std::span<const std::byte> bytes, std::uint32_t number) {
  Operation operation;
  if (!read_operation(bytes, number, operation) || operation.source_line == 0) return {};
  return " (line " + std::to_string(operation.source_line) + " of its source)";
}

}  // namespace

std::string DeviceProgram::describe(const Refusal& refusal) const {
  return describe_refusal(bytes_, refusal) + line_of(bytes_, refusal.operation);
}

std::string DeviceProgram::describe_operation(std::uint32_t number, std::optional<std::uint8_t> operand) const {
  const Refusal place{.operand = operand.value_or(wire::program::kNoOperand), .operation = number};
  return place_of(bytes_, place) + line_of(bytes_, number);
}

}  // namespace svp
