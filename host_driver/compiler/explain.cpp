// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/explain.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <iterator>

#include "host_driver/base/printable.hpp"
#include "host_driver/compiler/layout.hpp"
#include "shared/device_program_names.hpp"

namespace svp::compiler {

namespace {

namespace format = wire::program;
using Text = std::back_insert_iterator<std::string>;

std::string indent(std::size_t loops) { return std::string(2 * loops, ' '); }

// ---- a statement ----------------------------------------------------------------------------------------------------

std::string space_of(const Sdsc& sdsc) {
  std::string text;
  for (const Dimension& dimension : sdsc.dimensions) {
    if (!text.empty()) text += ", ";
    text += fmt::format("{} {}", printable(dimension.name), dimension.extent);
    if (dimension.slices > 1) text += fmt::format(" ({} slices of {})", dimension.slices, dimension.per_core);
  }
  return text;
}

// Dimensions outermost first, with bytes from one index to the next.
std::string layout_of(const Sdsc& sdsc, const SdscTensor& tensor, const Steps& steps) {
  std::string text = std::string(format::name(tensor.format)) + " [";
  for (auto d = tensor.order.rbegin(); d != tensor.order.rend(); ++d) {
    if (d != tensor.order.rbegin()) text += ", ";
    text += printable(sdsc.dimensions[*d].name);
    switch (tensor.scale[*d]) {
      case Scale::Present: text += fmt::format(" {}", sdsc.dimensions[*d].extent); break;
      case Scale::Absent: text += " absent"; continue;
      case Scale::AbsentStick: text += " lane 0 of a stick"; continue;
      case Scale::None: continue;
    }
    if (const std::uint32_t lanes = stick_elements(tensor, *d); lanes > 1)
      text += fmt::format(" in sticks of {}", lanes);
    if (tensor.gap[*d] != 0) text += fmt::format(" gap {}", tensor.gap[*d]);
    text += fmt::format(" step {}", steps.step[*d]);
  }
  return text + "]";
}

std::string place_of(const Execution& execution, const SdscTensor& tensor) {
  if (tensor.start.empty()) return "nowhere";
  if (tensor.memory == Memory::Lx) {
    const auto [least, most] = std::ranges::minmax(tensor.start);
    return least == most ? fmt::format("lx {}", least) : fmt::format("lx {} to {}", least, most);
  }
  return text_of(address_of(execution, tensor.start[0]));
}

std::string role_of(const Sdsc& sdsc, std::size_t tensor) {
  if (tensor == sdsc.output) return "output";
  return std::ranges::find(sdsc.indices, tensor) != sdsc.indices.end() ? "index" : "input";
}

void describe_tensors(const Execution& execution, const Sdsc& sdsc, const std::string& margin, Text out) {
  for (std::size_t t = 0; t < sdsc.tensors.size(); ++t) {
    const SdscTensor& tensor = sdsc.tensors[t];
    // The formula alone: what an operation knows better stands in the program.
    const Steps steps = steps_of(sdsc, tensor);
    fmt::format_to(out, "{}  {:<7} {} at {}, {}\n", margin, role_of(sdsc, t), printable(tensor.name),
                   place_of(execution, tensor), layout_of(sdsc, tensor, steps));
  }
}

void describe(const Execution& execution, const Sdsc& sdsc, std::size_t loops, Text out) {
  const std::string margin = indent(loops);
  fmt::format_to(out, "{}bundle.mlir:{}: {} of {}, {} {}\n", margin, execution.line, name_of(sdsc.op),
                 printable(execution.sdsc_file), sdsc.cores, sdsc.cores == 1 ? "core" : "cores");
  fmt::format_to(out, "{}  over    {}\n", margin, space_of(sdsc));
  describe_tensors(execution, sdsc, margin, out);
  for (const MaskRange& mask : sdsc.masks) {
    fmt::format_to(out, "{}  masked  {} from {}, {} elements\n", margin,
                   printable(sdsc.dimensions[mask.dimension].name), mask.start, mask.count);
  }
  for (const auto& [name, value] : sdsc.constants) {
    fmt::format_to(out, "{}  constant {} = {}\n", margin, printable(name), value);
  }
}

void describe(const Bundle& bundle, const std::vector<Statement>& body, std::size_t loops, Text out) {
  for (const Statement& statement : body) {
    if (const auto* loop = std::get_if<Loop>(&statement.what)) {
      fmt::format_to(out, "{}bundle.mlir:{}: loop i{} of {} iterations\n", indent(loops), loop->line, loops,
                     loop->count);
      describe(bundle, loop->body, loops + 1, out);
    } else {
      const auto& execution = std::get<Execution>(statement.what);
      describe(execution, bundle.of(execution), loops, out);
    }
  }
}

// ---- the program ----------------------------------------------------------------------------------------------------

std::string text_of(const format::Operand& operand) {
  std::string text(format::name(operand.base));
  if (operand.base == format::Base::Argument) text = fmt::format("arg{}", operand.argument);
  if (operand.offset != 0) text += fmt::format(" + {}", operand.offset);
  for (std::size_t l = 0; l < std::size(operand.loop_stride); ++l) {
    if (operand.loop_stride[l] != 0) text += fmt::format(" + {} i{}", operand.loop_stride[l], l);
  }
  return fmt::format("{} {}", text, format::name(operand.format));
}

std::string text_of(const format::Operation& operation) {
  std::string text(format::name(operation.opcode));
  for (unsigned d = 0; d < operation.rank; ++d) text += fmt::format("{}{}", d == 0 ? " [" : ", ", operation.extent[d]);
  if (operation.rank != 0) text += ']';
  if (operation.reduced != 0) text += fmt::format(" along {}", std::countr_zero(operation.reduced));
  for (unsigned o = 0; o < operation.operand_count; ++o) {
    text += (o + 1u == operation.operand_count ? " -> " : o == 0 ? " of " : ", ") + text_of(operation.operand[o]);
  }
  return text;
}

}  // namespace

std::string text_of(const SymbolicAddress& address) {
  std::string text;
  switch (address.base) {
    case SymbolicAddress::Base::None: break;
    case SymbolicAddress::Base::Argument: text = fmt::format("arg{}", address.argument); break;
    case SymbolicAddress::Base::Pool: text = "pool"; break;
  }
  if (address.offset != 0 || text.empty()) text += fmt::format("{}{}", text.empty() ? "" : " + ", address.offset);
  for (const LoopTerm& term : address.loops) text += fmt::format(" + {} i{}", term.factor, term.loop);
  return text;
}

std::string explain(const Bundle& bundle, const DeviceProgram* program) {
  std::string text;
  for (std::size_t i = 0; i < bundle.text.parameters.size(); ++i) {
    text += fmt::format("arg{:<4} {}", i, printable(bundle.text.parameters[i]));
    if (program != nullptr) {
      const format::Argument& argument = program->arguments()[i];
      text += fmt::format(", {} bytes, {}", argument.bytes, format::name(argument.access));
    }
    text += '\n';
  }
  if (bundle.text.pool_bytes != 0) text += fmt::format("pool     {} bytes\n", bundle.text.pool_bytes);
  describe(bundle, bundle.text.body, 0, std::back_inserter(text));
  return text;
}

std::string explain(const DeviceProgram& program) {
  std::string text;
  std::size_t loops = 0;
  for (std::uint32_t i = 0; i < program.header().operation_count; ++i) {
    const format::Operation operation = program.operation(i);
    if (operation.opcode == format::Opcode::LoopEnd) {
      --loops;
      continue;
    }
    if (operation.opcode == format::Opcode::LoopBegin) {
      text += fmt::format("{:>4} {}loop i{} of {} iterations\n", i, indent(loops), loops, operation.extent[0]);
      ++loops;
    } else {
      text += fmt::format("{:>4} {}{} (bundle.mlir:{})\n", i, indent(loops), text_of(operation), operation.source_line);
    }
  }
  return text;
}

}  // namespace svp::compiler
