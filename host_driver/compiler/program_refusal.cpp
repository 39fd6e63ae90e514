// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/program_refusal.hpp"

#include <algorithm>
#include <cstring>
#include <string>

#include "host_driver/compiler/source_place.hpp"
#include "shared/device_program_check.hpp"
#include "shared/device_program_names.hpp"

namespace svp::compiler {

namespace {

using wire::program::Where;

constexpr const char* kReport = "this combination is not supported; report it with the bundle";

struct Message {
  Where where;
  const char* text;
};
const Message kMessages[] = {
    Message{Where::Format, "has a format that the operation does not take with those of the other tensors"},
    Message{Where::StickDim, "has its sticks along another dimension than the operation takes"},
    Message{Where::Present, "has a dimension that the result does not have, and the operation reduces none"},
    Message{Where::Split, "is divided among scratchpads inside of a stick, or has two parts in one of them"},
    Message{Where::Access, "overlaps the result, and other elements of it are still to be read"},
    Message{Where::Loop, "is executed too often: a launch executes at most 4194304 operations, loops counted"},
    Message{Where::Pool, "the pool would have more than 14 GiB"},
    Message{Where::Slices, "a scratchpad would need more than 2 MiB"},
    Message{Where::ArgumentEntry, "a launch takes at most 16 GiB for one tensor"},
};

const Execution* execution_at(const std::vector<Statement>& body, unsigned line) {
  for (const Statement& statement : body) {
    const auto* const execution = std::get_if<Execution>(&statement.what);
    if (execution != nullptr && execution->line == line) return execution;
    if (execution != nullptr) continue;
    if (const Execution* found = execution_at(std::get<Loop>(statement.what).body, line)) return found;
  }
  return nullptr;
}

wire::program::Operation operation_of(std::span<const std::byte> bytes, std::uint32_t number) {
  wire::program::Header header;
  wire::program::Operation operation;
  std::memcpy(&header, bytes.data(), sizeof header);
  const std::size_t at = header.operations_offset + std::size_t{number} * sizeof operation;
  std::memcpy(&operation, bytes.data() + at, sizeof operation);
  return operation;
}

std::string rule_of(const wire::program::Refusal& refusal) {
  const auto* const found = std::ranges::find(kMessages, refusal.where, &Message::where);
  if (found != std::end(kMessages)) return found->text;
  return "breaks the rule '" + std::string(name(refusal.where)) + "' of device programs";
}

}  // namespace

void refuse_program(const Bundle& bundle, std::span<const std::byte> bytes) {
  const wire::program::Refusal refusal = wire::program::check_program(bytes);
  SourcePlace place{.file = kBundleFileName, .line = 0, .path = {}};
  if (refusal.operation == wire::program::kWholeProgram) {
    const bool argument = refusal.where == Where::ArgumentEntry && refusal.operand < bundle.text.parameters.size();
    const std::string of = argument ? "parameter " + bundle.text.parameters[refusal.operand] + ": " : "";
    refuse(place, of + rule_of(refusal), "compile smaller graphs or tensors");
  }
  const wire::program::Operation operation = operation_of(bytes, refusal.operation);
  place.line = operation.source_line;
  std::string what;
  if (const Execution* const execution = execution_at(bundle.text.body, place.line)) {
    const Sdsc& sdsc = bundle.of(*execution);
    what = sdsc.file + ": " + sdsc.name + ": ";
  }
  what += std::string(name(operation.opcode));
  if (refusal.operand != wire::program::kNoOperand) what += ", operand " + std::to_string(refusal.operand);
  refuse(place, what + ": " + rule_of(refusal), kReport);
}

}  // namespace svp::compiler
