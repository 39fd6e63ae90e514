// SPDX-License-Identifier: Apache-2.0
// docs/array.md says what shared/array.hpp says. `array_page_test --print-tables` prints the tables for the page.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <iostream>
#include <string>
#include <vector>

#include "shared/array.hpp"
#include "shared/array_moves.hpp"
#include "tests/unit/docs/contract_tables.hpp"
#include "tests/unit/docs/page_rows.hpp"

namespace {

using namespace wire::array;
using docs::Table;

std::string row(std::size_t offset, std::size_t bytes, const char* field) {
  return fmt::format("| {} | {} | `{}` |", offset, bytes, field);
}
#define FIELD(type, member) row(offsetof(type, member), sizeof(type::member), #member)
#define ANSWER(type) FIELD(type, outcome), FIELD(type, operand), FIELD(type, done), FIELD(type, address)

std::vector<Table> tables() {
  const auto limit = [](const char* text, std::uint64_t value) { return fmt::format("| {} | {} |", text, value); };
  return {
      {fmt::format("struct Hello ({} bytes)", sizeof(Hello)),
       {FIELD(Hello, magic), FIELD(Hello, version), FIELD(Hello, harts), FIELD(Hello, ram_base),
        FIELD(Hello, ram_bytes), FIELD(Hello, hart_local), FIELD(Hello, hart_stride), FIELD(Hello, root_at),
        FIELD(Hello, context_at), FIELD(Hello, arguments_at), FIELD(Hello, answer), FIELD(Hello, orders_at),
        FIELD(Hello, move), FIELD(Hello, regions_begin)}},
      {fmt::format("struct Orders ({} bytes)", sizeof(Orders)),
       {FIELD(Orders, order), FIELD(Orders, argument), FIELD(Orders, failed)}},
      {fmt::format("struct Row ({} bytes)", sizeof(Row)), {FIELD(Row, address), FIELD(Row, step)}},
      {fmt::format("struct Request ({} bytes)", sizeof(Request)),
       {FIELD(Request, kind), FIELD(Request, opcode), FIELD(Request, format), FIELD(Request, inputs),
        FIELD(Request, singles), FIELD(Request, constant), FIELD(Request, count), FIELD(Request, row),
        FIELD(Request, table), ANSWER(Request)}},
      {fmt::format("struct ChunkRequest ({} bytes)", sizeof(ChunkRequest)),
       {FIELD(ChunkRequest, kind), FIELD(ChunkRequest, rows), FIELD(ChunkRequest, depth), FIELD(ChunkRequest, lanes),
        FIELD(ChunkRequest, row_list), FIELD(ChunkRequest, panel_list), FIELD(ChunkRequest, sums),
        FIELD(ChunkRequest, half_step), FIELD(ChunkRequest, format), FIELD(ChunkRequest, half),
        FIELD(ChunkRequest, row_step), FIELD(ChunkRequest, panel_step), ANSWER(ChunkRequest)}},
      {fmt::format("struct LinesRequest ({} bytes)", sizeof(LinesRequest)),
       {FIELD(LinesRequest, kind), FIELD(LinesRequest, opcode), FIELD(LinesRequest, format), FIELD(LinesRequest, along),
        FIELD(LinesRequest, lines), FIELD(LinesRequest, sticks), FIELD(LinesRequest, lanes),
        FIELD(LinesRequest, factor), FIELD(LinesRequest, line_list), FIELD(LinesRequest, output_list),
        FIELD(LinesRequest, step), ANSWER(LinesRequest)}},
      {fmt::format("struct ConvertRequest ({} bytes)", sizeof(ConvertRequest)),
       {FIELD(ConvertRequest, kind), FIELD(ConvertRequest, opcode), FIELD(ConvertRequest, from_format),
        FIELD(ConvertRequest, to_format), FIELD(ConvertRequest, from_sticks), FIELD(ConvertRequest, to_sticks),
        FIELD(ConvertRequest, single), FIELD(ConvertRequest, count), FIELD(ConvertRequest, from),
        FIELD(ConvertRequest, to), FIELD(ConvertRequest, from_step), FIELD(ConvertRequest, to_step),
        ANSWER(ConvertRequest)}},
      {fmt::format("struct BlocksRequest ({} bytes)", sizeof(BlocksRequest)),
       {FIELD(BlocksRequest, kind), FIELD(BlocksRequest, item), FIELD(BlocksRequest, rows),
        FIELD(BlocksRequest, columns), FIELD(BlocksRequest, count), FIELD(BlocksRequest, input),
        FIELD(BlocksRequest, input_step), FIELD(BlocksRequest, output), FIELD(BlocksRequest, output_step),
        ANSWER(BlocksRequest)}},
      {fmt::format("struct CopiesRequest ({} bytes)", sizeof(CopiesRequest)),
       {FIELD(CopiesRequest, kind), FIELD(CopiesRequest, rows), FIELD(CopiesRequest, sticks),
        FIELD(CopiesRequest, from_list), FIELD(CopiesRequest, to_list), FIELD(CopiesRequest, from_step),
        FIELD(CopiesRequest, to_step), ANSWER(CopiesRequest)}},
      {fmt::format("struct TopKRequest ({} bytes)", sizeof(TopKRequest)),
       {FIELD(TopKRequest, kind), FIELD(TopKRequest, format), FIELD(TopKRequest, ranks), FIELD(TopKRequest, across),
        FIELD(TopKRequest, rows), FIELD(TopKRequest, sticks), FIELD(TopKRequest, lanes), FIELD(TopKRequest, first),
        FIELD(TopKRequest, row_list), FIELD(TopKRequest, step), FIELD(TopKRequest, merits), ANSWER(TopKRequest)}},
      {fmt::format("struct Move ({} bytes)", sizeof(Move)),
       {FIELD(Move, kind), FIELD(Move, outcome), FIELD(Move, to), FIELD(Move, from), FIELD(Move, bytes),
        FIELD(Move, pattern), FIELD(Move, element_bytes), FIELD(Move, streamed), FIELD(Move, elements),
        FIELD(Move, rows), FIELD(Move, to_step), FIELD(Move, from_step), FIELD(Move, to_row_step),
        FIELD(Move, from_row_step)}},
      {"bounds of a request",
       {limit("sticks", kMaxSticks), limit("sticks of Sum, Mean, Max, Min and TopK", kMaxLineSticks),
        limit("lines", kMaxLines), limit("rows of a chunk", kMaxRows), limit("positions of a chunk", kMaxDepth),
        limit("few rows", kFewRows), limit("positions of few rows", kMaxFewDepth),
        limit("wide sums of a chunk", kMaxWideSums), limit("positions of a conversion", kMaxConverted),
        limit("sticks read by a transposition", kMaxSticks), limit("sticks of copies", kMaxCopies),
        limit("ranks of a line", kMaxRanks), limit("ranks of all lines", kMaxMerits),
        limit("bytes of a table", kTableBytes), limit("bytes of a move", kMaxMoveBytes),
        limit("elements of a move", kMaxElements), limit("bytes of a move's step", kMaxMoveStep)}}};
}

std::string page_text() { return docs::read_page(SPYRE_SOURCE_DIR "/docs/array.md"); }

TEST(ArrayPage, EveryTableIsWhatTheCompilerSees) {
  const std::string page = page_text();
  ASSERT_FALSE(page.empty());
  for (const Table& table : tables()) {
    EXPECT_THAT(docs::rows_on_page(page, table.name), testing::ElementsAreArray(table.rows)) << table.name;
  }
}

TEST(ArrayPage, NamesVersionMagicAndHints) {
  EXPECT_THAT(page_text(), testing::HasSubstr(fmt::format("version **{}**", kVersion)));
  EXPECT_THAT(page_text(), testing::HasSubstr(fmt::format("`{:#018x}`", kHelloMagic)));
  for (const std::uint32_t hint : {kHelloHint, kWorkHint}) {
    EXPECT_THAT(page_text(), testing::HasSubstr(fmt::format("slti x0, x0, 0x{:03X}", hint >> 20)));
  }
}

void print_tables() {
  for (const Table& table : tables()) {
    const bool layout = table.name.starts_with("struct");
    std::cout << "**" << table.name << "**\n\n"
              << (layout ? "| offset | bytes | field |\n|---|---|---|\n" : "| of | at most |\n|---|---|\n");
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
