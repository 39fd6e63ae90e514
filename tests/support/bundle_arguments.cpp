// SPDX-License-Identifier: Apache-2.0
#include "tests/support/bundle_arguments.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <numeric>
#include <random>

#include "shared/dl16.hpp"
#include "shared/units.hpp"

namespace test {

namespace {

using namespace svp::compiler;

constexpr std::uint64_t kSticksBehind = 2;

enum class Content : std::uint8_t { Dl16, Fp32, Index };

void find_contents(const Bundle& bundle, const std::vector<Statement>& body, std::vector<Content>& contents) {
  for (const Statement& statement : body) {
    if (const auto* loop = std::get_if<Loop>(&statement.what)) {
      find_contents(bundle, loop->body, contents);
      continue;
    }
    const auto& execution = std::get<Execution>(statement.what);
    for (const SdscTensor& tensor : bundle.of(execution).tensors) {
      if (tensor.memory == Memory::Lx) continue;
      const SymbolicAddress& address = address_of(execution, tensor.start[0]);
      if (address.base != SymbolicAddress::Base::Argument) continue;
      if (tensor.indirection == Indirection::Index) contents.at(address.argument) = Content::Index;
      if (tensor.format == wire::program::Format::Fp32) contents.at(address.argument) = Content::Fp32;
    }
  }
}

template <typename Number>
void fill(std::vector<std::byte>& bytes, std::mt19937_64& random, Numbers numbers, Number (*number)(float)) {
  for (std::size_t at = 0; at + sizeof(Number) <= bytes.size(); at += sizeof(Number)) {
    constexpr float kSpecial[] = {HUGE_VALF, -HUGE_VALF, NAN};
    const bool special = numbers == Numbers::All && random() % 24 == 0;
    const float quarters = static_cast<float>(static_cast<int>(random() % 65) - 32) / 4;
    const Number code = number(special ? kSpecial[random() % std::size(kSpecial)] : quarters);
    std::memcpy(bytes.data() + at, &code, sizeof code);
  }
}

// Of the table that the index in this argument selects from.
std::uint64_t rows_of(const svp::DeviceProgram& program, std::size_t index) {
  for (std::uint32_t i = 0; i < program.header().operation_count; ++i) {
    const auto operation = program.operation(i);
    const bool gathers = operation.opcode == wire::program::Opcode::Gather;
    if (!gathers && operation.opcode != wire::program::Opcode::Scatter) continue;
    const auto& table = operation.operand[gathers ? 1 : 2];
    if (operation.operand[0].argument != index || table.base != wire::program::Base::Argument) continue;
    return std::max<std::uint64_t>(1, (program.arguments()[table.argument].bytes - table.offset) / operation.page);
  }
  return 1;
}

void fill_rows(std::vector<std::byte>& bytes, std::mt19937_64& random, std::uint64_t rows) {
  std::vector<std::int32_t> order(rows);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::shuffle(order, random);
  for (std::size_t i = 0; (i + 1) * sizeof order[0] <= bytes.size(); ++i) {
    std::memcpy(bytes.data() + i * sizeof order[0], &order[i % rows], sizeof order[0]);
  }
}

}  // namespace

std::vector<std::vector<std::byte>> arguments_of(const Bundle& bundle, const svp::DeviceProgram& program,
                                                 std::uint64_t seed, Numbers numbers) {
  std::vector<Content> contents(program.arguments().size());
  find_contents(bundle, bundle.text.body, contents);
  std::mt19937_64 random(seed);
  std::vector<std::vector<std::byte>> result;
  result.reserve(contents.size());
  for (std::size_t i = 0; i < contents.size(); ++i) {
    std::vector<std::byte>& bytes =
        result.emplace_back(program.arguments()[i].bytes + kSticksBehind * wire::kStickBytes);
    if (contents[i] == Content::Dl16) {
      fill<wire::Dl16>(bytes, random, numbers, [](float x) { return wire::dl16_from_fp32(x); });
    }
    if (contents[i] == Content::Fp32) fill<float>(bytes, random, numbers, [](float x) { return x; });
    if (contents[i] == Content::Index) fill_rows(bytes, random, rows_of(program, i));
  }
  return result;
}

std::string first_difference(const std::vector<ReferenceMemory>& expected,
                             const std::vector<std::vector<std::byte>>& got) {
  for (std::size_t argument = 0; argument < expected.size(); ++argument) {
    const ReferenceMemory& memory = expected[argument];
    for (std::size_t at = 0; at < memory.bytes.size(); ++at) {
      const bool open = memory.states[at] == ByteState::Unspecified;
      if (open || (at < got[argument].size() && memory.bytes[at] == got[argument][at])) continue;
      char text[128];
      std::snprintf(text, sizeof text, "argument %zu, byte %zu of %zu, %s: %02x, not %02x", argument, at,
                    memory.bytes.size(), memory.states[at] == ByteState::Defined ? "written" : "not to be written",
                    at < got[argument].size() ? static_cast<unsigned>(got[argument][at]) : 0x100,
                    static_cast<unsigned>(memory.bytes[at]));
      return text;
    }
  }
  return {};
}

}  // namespace test
