// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <span>

#include "host_driver/compiler/lowering.hpp"
#include "host_driver/program/function_tables.hpp"
#include "shared/dl16.hpp"
#include "shared/units.hpp"

namespace svp::compiler {

using wire::program::Base;
using wire::program::Format;
using wire::program::Opcode;

namespace {

bool is_element_wise(Opcode opcode) {
  if (opcode == Opcode::Copy || opcode == Opcode::LayerNormScale || opcode == Opcode::LayerNormNorm) return true;
  return opcode >= Opcode::Add && opcode < Opcode::Sum;
}

// A copy between sticks of one element copies all bytes of them: they may be the pair that exx2 leaves.
TensorOp with_whole_sticks(TensorOp op) {
  const bool alone = op.opcode == Opcode::Copy && std::ranges::all_of(op.operands, [&](const TensorUse& use) {
                       return use.stick == kNoStick && use.format == op.operands[0].format;
                     });
  if (!alone) return op;
  auto place = static_cast<unsigned>(std::ranges::find(op.extent, 1u) - op.extent.begin());
  if (place == kMaxRank) {
    refuse({.file = kBundleFileName, .line = op.line, .path = {}},
           "a copy between tensors with one element in each stick, along 8 dimensions");
  }
  if (place == op.extent.size()) op.extent.push_back(1);
  op.extent[place] = wire::kStickBytes;
  for (TensorUse& use : op.operands) {
    use.format = Format::Int8;
    use.present[place] = true;
    use.stick = place;
    use.stride[place] = wire::kStickBytes;
    use.split[place] = 1;
    use.split_stride[place] = 0;
  }
  return op;
}

}  // namespace

ProgramBuilder::ProgramBuilder(const Bundle& bundle, const std::vector<std::uint64_t>& lengths,
                               std::uint64_t pool_bytes)
    : lengths_(lengths), own_pool_bytes_(pool_bytes) {
  program_.arguments = static_cast<std::uint32_t>(bundle.text.parameters.size());
  program_.pool_bytes = pool_bytes;
}

std::optional<std::uint64_t> ProgramBuilder::length_of(std::uint32_t argument) const {
  if (argument >= lengths_.size() || lengths_[argument] == 0) return std::nullopt;
  return lengths_[argument];
}

void ProgramBuilder::take(std::uint32_t argument, std::uint64_t bytes) {
  program_.argument_bytes.resize(program_.arguments);
  program_.argument_bytes[argument] = std::max(program_.argument_bytes[argument], bytes);
}

// At once, so that a bundle of many windows ends here and not where memory ends.
void ProgramBuilder::add(TensorOp op) {
  if (program_.operations.size() == wire::program::kMaxOperations) {
    refuse({.file = kBundleFileName, .line = op.line, .path = {}},
           "more than " + std::to_string(wire::program::kMaxOperations) + " operations in a program",
           "compile smaller graphs");
  }
  program_.operations.push_back(std::move(op));
}

void ProgramBuilder::begin_loop(std::uint32_t count, unsigned line) {
  loops_.push_back(count);
  add({.opcode = Opcode::LoopBegin, .extent = {count}, .operands = {}, .line = line});
}

void ProgramBuilder::end_loop(unsigned line) {
  loops_.pop_back();
  add({.opcode = Opcode::LoopEnd, .extent = {}, .operands = {}, .line = line});
}

// The output lies over an input, not element by element. What a launch brings as two arguments may be one memory, too:
// that is the launch's to judge.
bool ProgramBuilder::must_not_overwrite(const TensorOp& op) const {
  if (op.operands.empty() || op.opcode == Opcode::Scatter) return false;
  const TensorUse& output = op.operands.back();
  return std::ranges::any_of(op.operands.begin(), op.operands.end() - 1, [&](const TensorUse& input) {
    return overlap(input, output, op.extent) && (!is_element_wise(op.opcode) || input != output);
  });
}

bool ProgramBuilder::overlap(const TensorUse& a, const TensorUse& b, const std::vector<std::uint32_t>& extent) const {
  if (a.base != b.base || a.argument != b.argument || a.base == Base::Data || a.base == Base::Tables) return false;
  const auto of_a = reach_of(a, extent, loops_), of_b = reach_of(b, extent, loops_);
  return of_a.second > of_b.first && of_b.second > of_a.first;
}

void ProgramBuilder::emit(TensorOp op) {
  op = with_whole_sticks(std::move(op));
  if (!must_not_overwrite(op)) return add(std::move(op));
  const TensorUse output = op.operands.back();
  op.operands.back() = temporary(output.format, op.extent, output.present, output.stick);
  TensorOp copy{.opcode = Opcode::Copy, .extent = op.extent, .operands = {op.operands.back(), output}, .line = op.line};
  for (unsigned d = 0; d < copy.extent.size(); ++d) {
    if (!output.present[d]) copy.extent[d] = 1;
  }
  add(std::move(op));
  add(with_whole_sticks(std::move(copy)));
}

TensorUse ProgramBuilder::temporary(Format format, const std::vector<std::uint32_t>& extent,
                                    const std::array<bool, kMaxRank>& present, unsigned stick) {
  TensorUse use{.base = Base::Pool, .format = format, .stick = stick, .present = present};
  use.offset = static_cast<std::int64_t>(program_.pool_bytes);
  std::uint64_t step = wire::kStickBytes;
  for (unsigned d = 0; d < extent.size(); ++d) {
    if (!present[d]) continue;
    use.stride[d] = static_cast<std::int64_t>(step);
    const unsigned lanes = wire::program::lanes_of(format);
    const std::uint64_t count = d == stick ? (std::uint64_t{extent[d]} + lanes - 1) / lanes : extent[d];
    if (__builtin_mul_overflow(step, count, &step) || step > wire::program::kMaxPoolBytes) {
      refuse({.file = kBundleFileName, .line = line_, .path = {}}, "an intermediate result that is larger than a pool",
             "compile smaller tensors");
    }
  }
  program_.pool_bytes += step;
  return use;
}

TensorUse ProgramBuilder::table(Opcode function, const std::vector<float>& constants) {
  const program::FunctionConstants of = program::constants_of(constants);
  if (program::in_all_tables(function, of)) {
    const std::uint64_t offset = wire::program::table_offset(function);
    return {.base = Base::Tables, .format = Format::Dl16, .offset = static_cast<std::int64_t>(offset)};
  }
  const auto [entry, is_new] = tables_.try_emplace({function, constants}, program_.data.size());
  if (is_new) {
    const std::vector<wire::Dl16> table = program::function_table(function, of);
    const auto bytes = std::as_bytes(std::span(table));
    program_.data.insert(program_.data.end(), bytes.begin(), bytes.end());
  }
  return {.base = Base::Data, .format = Format::Dl16, .offset = static_cast<std::int64_t>(entry->second)};
}

TensorUse ProgramBuilder::number(Format format, float value) {
  const TensorUse use{.base = Base::Data, .format = format, .offset = static_cast<std::int64_t>(program_.data.size())};
  std::array<std::byte, wire::kStickBytes> stick{};
  const wire::Dl16 code = wire::dl16_from_fp32(value);
  if (format == Format::Fp32) {
    std::memcpy(stick.data(), &value, sizeof value);
  } else {
    std::memcpy(stick.data(), &code, sizeof code);
  }
  program_.data.insert(program_.data.end(), stick.begin(), stick.end());
  return use;
}

}  // namespace svp::compiler
