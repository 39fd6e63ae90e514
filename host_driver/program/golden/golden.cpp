// SPDX-License-Identifier: Apache-2.0
#include "host_driver/program/golden/golden.hpp"

#include <cstring>
#include <stdexcept>
#include <string>

#include "host_driver/program/golden/families.hpp"
#include "shared/device_program_check.hpp"
#include "shared/device_program_names.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

std::string text_of(const Refusal& refusal) {
  std::string text = "golden model: ";
  if (refusal.operation != kWholeProgram) text += "operation " + std::to_string(refusal.operation) + ", ";
  if (refusal.operand != kNoOperand) text += "operand " + std::to_string(refusal.operand) + ", ";
  return text + std::string(name(refusal.where)) + " is wrong";
}

template <typename T>
T copy_of(std::span<const std::byte> bytes, std::uint64_t at) {
  T value;
  std::memcpy(&value, bytes.subspan(at, sizeof value).data(), sizeof value);
  return value;
}

const OpcodeRow& row_of(const Operation& operation) {
  if (const OpcodeRow* row = find_opcode(operation.opcode)) return *row;
  throw std::logic_error("golden model: an opcode that the checker does not know");
}

void execute(const Step& step) {
  switch (step.row.family) {
    case Family::Copy: return run_copy(step);
    case Family::Relayout: return run_restickify(step);
    case Family::Stagger: return run_stagger(step);
    case Family::Pointwise:
    case Family::Function: return run_pointwise(step);
    case Family::Indexed: return run_indexed(step);
    case Family::Reduction: return run_reduction(step);
    case Family::LayerNorm: return run_layer_norm(step);
    case Family::MatMul: return run_matmul(step);
    case Family::TopK: return run_top_k(step);
    case Family::Loop: break;
  }
}

class Interpreter {
 public:
  Interpreter(std::span<const std::byte> program, const Header& header, Memory& memory, Order order)
      : program_(program), header_(header), memory_(memory), order_(order) {}

  // Executes from an operation to the end of the loop that it is in, or of the program. Returns where it ended.
  std::uint32_t run(std::uint32_t at, unsigned depth) {
    for (; at < header_.operation_count; ++at) {
      const auto operation = copy_of<Operation>(program_, header_.operations_offset + at * sizeof(Operation));
      if (operation.opcode == Opcode::LoopEnd) return at;
      if (operation.opcode == Opcode::LoopBegin) {
        const std::uint32_t body = at + 1;
        for (std::uint32_t i = 0; i < operation.extent[0]; ++i) {
          iteration_[depth] = i;
          at = run(body, depth + 1);
        }
        iteration_[depth] = 0;
      } else {
        execute({operation, row_of(operation), at, iteration_, memory_, order_});
      }
    }
    return at;
  }

 private:
  std::span<const std::byte> program_;
  const Header& header_;
  Memory& memory_;
  Order order_;
  std::array<std::uint32_t, kMaxLoops> iteration_{};
};

void require_arguments(std::span<const std::byte> program, const Header& header,
                       std::span<const std::span<std::byte>> arguments) {
  const auto refuse = [](const std::string& message) {
    throw InvalidArgument("arguments", "golden model: " + message,
                          "give what the argument entries of the program name");
  };
  if (arguments.size() != header.argument_count) {
    refuse(std::to_string(arguments.size()) + " arguments for a program with " + std::to_string(header.argument_count));
  }
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const auto entry = copy_of<Argument>(program, header.arguments_offset + i * sizeof(Argument));
    if (arguments[i].size() < entry.bytes) {
      refuse("argument " + std::to_string(i) + " has " + std::to_string(arguments[i].size()) +
             " bytes, the program needs " + std::to_string(entry.bytes));
    }
  }
}

}  // namespace

Refused::Refused(Refusal refusal)
    : InvalidArgument("program", text_of(refusal), "compare the operation with the rules of docs/device-programs.md"),
      refusal_(refusal) {}

void run(std::span<const std::byte> program, std::span<const std::span<std::byte>> arguments, Order order,
         Scratchpads* scratchpads) {
  if (const Refusal refusal = check_program(program); !refusal.ok()) throw Refused(refusal);
  const auto header = copy_of<Header>(program, 0);
  require_arguments(program, header, arguments);
  Memory memory(program, header, arguments, scratchpads);
  Interpreter(program, header, memory, order).run(0, 0);
}

}  // namespace svp::program::golden
