// SPDX-License-Identifier: Apache-2.0
// docs/device-programs.md says what the headers say. `device_programs_page_test --print-tables` prints the tables for
// the page.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "shared/device_program_check.hpp"
#include "shared/device_program_names.hpp"
#include "tests/unit/docs/contract_tables.hpp"
#include "tests/unit/docs/page_rows.hpp"

namespace {

using namespace wire::program;
using docs::Table;

std::string row(std::size_t offset, std::size_t bytes, const char* field) {
  return fmt::format("| {} | {} | `{}` |", offset, bytes, field);
}
#define FIELD(type, member) row(offsetof(type, member), sizeof(type::member), #member)

Table header_table() {
  return {fmt::format("struct Header ({} bytes)", sizeof(Header)),
          {FIELD(Header, magic), FIELD(Header, version), FIELD(Header, crc32c), FIELD(Header, program_bytes),
           FIELD(Header, argument_count), FIELD(Header, operation_count), FIELD(Header, arguments_offset),
           FIELD(Header, operations_offset), FIELD(Header, data_offset), FIELD(Header, data_bytes),
           FIELD(Header, pool_bytes), FIELD(Header, slices), FIELD(Header, scratchpad_bytes), FIELD(Header, flags),
           FIELD(Header, reserved)}};
}
Table argument_table() {
  return {fmt::format("struct Argument ({} bytes)", sizeof(Argument)),
          {FIELD(Argument, bytes), FIELD(Argument, access), FIELD(Argument, reserved)}};
}
Table operand_table() {
  return {fmt::format("struct Operand ({} bytes)", sizeof(Operand)),
          {FIELD(Operand, base), FIELD(Operand, format), FIELD(Operand, argument), FIELD(Operand, stick_dim),
           FIELD(Operand, present), FIELD(Operand, reserved), FIELD(Operand, offset), FIELD(Operand, stride),
           FIELD(Operand, loop_stride), FIELD(Operand, split), FIELD(Operand, split_stride)}};
}
Table mask_table() {
  return {fmt::format("struct Mask ({} bytes)", sizeof(Mask)),
          {FIELD(Mask, dimension), FIELD(Mask, start), FIELD(Mask, count)}};
}
Table operation_table() {
  return {fmt::format("struct Operation ({} bytes)", sizeof(Operation)),
          {FIELD(Operation, opcode), FIELD(Operation, rank), FIELD(Operation, operand_count), FIELD(Operation, reduced),
           FIELD(Operation, mask_count), FIELD(Operation, reserved0), FIELD(Operation, extent), FIELD(Operation, mask),
           FIELD(Operation, mask_value), FIELD(Operation, constant), FIELD(Operation, source_line),
           FIELD(Operation, page), FIELD(Operation, reserved), FIELD(Operation, operand)}};
}

template <typename Enum>
Table enumeration(const char* title) {
  Table table{fmt::format("enum {}", title), {}};
  for (unsigned i = 0; name(static_cast<Enum>(i)) != "unknown"; ++i) {
    table.rows.push_back(fmt::format("| {} | {} |", i, name(static_cast<Enum>(i))));
  }
  return table;
}

Table limits_table() {
  const auto limit = [](const char* text, std::uint64_t value) { return fmt::format("| {} | {} |", text, value); };
  return {"limits",
          {limit("operations", kMaxOperations), limit("arguments", kMaxArguments),
           limit("operands of an operation", kMaxOperands), limit("dimensions", kMaxRank),
           limit("loops around an operation", kMaxLoops), limit("masks of an operation", kMaxMasks),
           limit("slices", kMaxSlices), limit("bytes of a program", kMaxProgramBytes),
           limit("bytes of an argument", kMaxArgumentBytes), limit("bytes of the pool", kMaxPoolBytes),
           limit("bytes of a slice's scratchpad", kMaxSliceScratchpadBytes),
           limit("positions of an operation (product of its extents)", kMaxPositions),
           limit("executed operations, loops counted", kMaxExecutedOperations)}};
}

std::string formats_text(std::uint8_t formats) {
  if (formats == kAllFormats) return "any";
  std::string text;
  for (unsigned i = 0; i < kFormats; ++i) {
    if (!has_format(formats, static_cast<Format>(i))) continue;
    text += std::string(text.empty() ? "" : ", ") + std::string(name(static_cast<Format>(i)));
  }
  return text.empty() ? "–" : text;
}
std::string rule_text(const OpcodeRow& it) {
  switch (it.rule) {
    case FormatRule::Same: return formats_text(it.inputs);
    case FormatRule::Each: return formats_text(it.inputs) + " → " + formats_text(it.output);
    case FormatRule::SameSize: {
      const std::string to = it.output == it.inputs ? "" : " → " + formats_text(it.output);
      return formats_text(it.inputs) + to + ", of one size";
    }
  }
  return "";
}
std::string roles_text(const OpcodeRow& it) {
  std::string text;
  for (unsigned i = 0; i < it.operands; ++i) text += (i == 0 ? "" : ", ") + std::string(name(it.role[i]));
  return text.empty() ? "–" : text;
}
const char* reduces_text(Reduces reduces) {
  return reduces == Reduces::Nothing      ? "–"
         : reduces == Reduces::OneOfInput ? "one dimension"
                                          : "the one that alternates";
}
const char* masks_text(Masks masks) {
  return masks == Masks::None ? "–" : masks == Masks::Elements ? "elements" : "reduced";
}
Table opcode_table() {
  Table table{"opcodes", {}};
  for (const OpcodeRow& it : kOpcodes) {
    table.rows.push_back(fmt::format("| {:#04x} | {} | {} | {} | {} | {} | {} |", static_cast<unsigned>(it.opcode),
                                     name(it.opcode), roles_text(it), rule_text(it), reduces_text(it.reduces),
                                     masks_text(it.masks), +it.constants));
  }
  return table;
}

std::vector<Table> tables() {
  return {header_table(),
          argument_table(),
          operation_table(),
          mask_table(),
          operand_table(),
          enumeration<Access>("Access"),
          enumeration<Format>("Format"),
          enumeration<Base>("Base"),
          opcode_table(),
          enumeration<Where>("Where"),
          limits_table()};
}

std::string page_text() { return docs::read_page(SPYRE_SOURCE_DIR "/docs/device-programs.md"); }

TEST(DeviceProgramsPage, EveryTableIsWhatTheCompilerSees) {
  const std::string page = page_text();
  ASSERT_FALSE(page.empty());
  for (const Table& table : tables()) {
    EXPECT_THAT(docs::rows_on_page(page, table.name), testing::ElementsAreArray(table.rows)) << table.name;
  }
}

TEST(DeviceProgramsPage, NamesMagicAndVersion) {
  EXPECT_THAT(page_text(), testing::HasSubstr(fmt::format("`{:#018x}`", kMagic)));
  EXPECT_THAT(page_text(), testing::HasSubstr(fmt::format("version **{}**", kVersion)));
  EXPECT_THAT(page_text(), testing::HasSubstr(fmt::format("`{:#06x}`", kStatusMark)));
}

TEST(DeviceProgramsPage, SaysWhatEveryOpcodeMeans) {
  const std::string page = page_text();
  for (const OpcodeRow& it : kOpcodes) {
    EXPECT_THAT(page, testing::HasSubstr("`" + std::string(name(it.opcode)) + "`")) << "the meaning of the operation";
  }
}

const char* heading_of(const Table& table) {
  if (table.name == "opcodes") {
    return "| number | name | operands | formats | `reduced` | masks | constants |\n|---|---|---|---|---|---|---|\n";
  }
  if (table.name == "limits") return "| of | at most |\n|---|---|\n";
  return table.name.starts_with("struct") ? "| offset | bytes | field |\n|---|---|---|\n"
                                          : "| number | name |\n|---|---|\n";
}

void print_tables() {
  for (const Table& table : tables()) {
    std::cout << "**" << table.name << "**\n\n" << heading_of(table);
    for (const std::string& line : table.rows) std::cout << line << "\n";
    std::cout << "\n";
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--print-tables") {
    print_tables();
    return 0;
  }
  testing::InitGoogleMock(&argc, argv);
  return RUN_ALL_TESTS();
}
