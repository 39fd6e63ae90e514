// SPDX-License-Identifier: Apache-2.0
// Runs device programs on the bare card and by the golden model, and compares every byte of their arguments.
#pragma once

#include <algorithm>
#include <cstring>

#include "host_driver/program/golden/golden.hpp"
#include "host_driver/program/stored_tables.hpp"
#include "shared/device_program_names.hpp"
#include "tests/device/kernels/kernel_fixture.hpp"
#include "tests/support/device_programs.hpp"
#include "tests/support/program_builder.hpp"

namespace kernel_test {

namespace program = wire::program;
using Bytes = std::vector<std::byte>;

class EngineTest : public KernelTest {
 protected:
  // What a launch brings besides a program and its arguments.
  struct Own {
    std::uint64_t workspace = 0;
    std::uint32_t slices = 0;
    std::uint64_t scratchpad = 0;  // bytes of each slice that are used
    bool tables = false;           // those of functions

    static Own of(const program::Header& header) {
      return {program::workspace_bytes(header), header.slices, header.scratchpad_bytes, program::uses_tables(header)};
    }
    bool has_scratchpads() const { return slices != 0 && scratchpad != 0; }
  };

  // Places program, arguments, tables, workspace and scratchpads, with a stick between each and the next that nothing
  // writes. Symbols are their addresses.
  class Placement {
   public:
    Placement(std::span<const std::byte> bytes, std::span<const Bytes> arguments, const Own& own) {
      put(bytes);
      for (const Bytes& argument : arguments) put(argument);
      if (own.tables) put(std::as_bytes(svp::program::stored_tables()));
      if (own.workspace != 0) fill(place(own.workspace), own.workspace);
      if (!own.has_scratchpads()) return;
      const std::uint64_t first = place((own.slices - 1) * program::kScratchpadStride + own.scratchpad);
      for (std::uint64_t slice = 0; slice < own.slices; ++slice) {
        fill(first + slice * program::kScratchpadStride, own.scratchpad);
      }
    }
    std::vector<wire::CorrectionSymbol> symbols;
    // Nothing but wrong programs can tell; the golden model has 0xA5.
    static inline std::byte workspace_contents{0x5A};

   private:
    static void fill(std::uint64_t at, std::uint64_t bytes) {
      std::ranges::fill(card().region().subspan(at, bytes), workspace_contents);
    }
    std::uint64_t place(std::uint64_t size) {
      const std::uint64_t at = offset_;
      symbols.push_back(BareCard::address(static_cast<std::uint32_t>(symbols.size()), at));
      offset_ += wire::align_up(size, wire::kStickBytes);
      std::ranges::fill(card().region().subspan(offset_, wire::kStickBytes), kBetween);
      offset_ += wire::kStickBytes;
      return at;
    }
    void put(std::span<const std::byte> bytes) {
      std::ranges::copy(bytes, card().region().begin() + static_cast<std::ptrdiff_t>(place(bytes.size())));
    }
    std::uint64_t offset_ = BareCard::kTensors;
  };

  // Arguments are given as they are before, and become what they are after.
  static RunResult launch(std::span<const std::byte> bytes, std::vector<Bytes>& arguments, const Own& own,
                          unsigned cores = 1) {
    const Placement placed(bytes, arguments, own);
    const RunResult result = run("engine", placed.symbols, cores);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto at = card().region().subspan(placed.symbols[i + 1].value);
      std::ranges::copy(at.first(arguments[i].size()), arguments[i].begin());
      expect_untouched(at.subspan(wire::align_up(arguments[i].size(), wire::kStickBytes), wire::kStickBytes), i);
    }
    return result;
  }

  static void expect_golden(std::span<const std::byte> bytes, std::vector<Bytes> arguments, const Own& own,
                            unsigned cores = 1) {
    std::vector<Bytes> expected = arguments;
    const std::vector<std::span<std::byte>> spans(expected.begin(), expected.end());
    svp::program::golden::run(bytes, spans);
    const RunResult result = launch(bytes, arguments, own, cores);
    ASSERT_TRUE(result.exited) << "cause " << result.cause << " at text + 0x" << std::hex << result.pc << ", value 0x"
                               << result.value;
    ASSERT_TRUE(result.status == 0) << describe(result.status);
    for (std::size_t i = 0; i < arguments.size(); ++i) expect_equal(arguments[i], expected[i], i);
  }
  static void expect_golden(const svp::test::RandomProgram& made, unsigned cores = 1) {
    expect_golden(made.program, made.arguments, Own::of(made.header), cores);
  }

  static std::string describe(std::uint64_t status) {
    if (!program::is_refusal(status)) return "status " + std::to_string(status);
    return describe(program::from_status(status));
  }
  static std::string describe(const program::Refusal& refusal) {
    return std::string(program::name(refusal.where)) + ", operation " + std::to_string(refusal.operation) +
           ", operand " + std::to_string(refusal.operand);
  }

 private:
  static constexpr std::byte kBetween{0xB7};

  static void expect_untouched(std::span<const std::byte> stick, std::size_t argument) {
    EXPECT_TRUE(std::ranges::all_of(stick, [](std::byte byte) { return byte == kBetween; }))
        << "written behind argument " << argument;
  }
  static void expect_equal(const Bytes& got, const Bytes& expected, std::size_t argument) {
    const auto difference = std::ranges::mismatch(got, expected).in1;
    if (difference == got.end()) return;
    const auto at = static_cast<std::size_t>(difference - got.begin()) & ~std::size_t{3};
    ADD_FAILURE() << "argument " << argument << ", byte " << at << std::hex << ": " << word(got, at) << ", golden "
                  << word(expected, at);
  }
  static std::uint32_t word(const Bytes& bytes, std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, std::min<std::size_t>(sizeof value, bytes.size() - at));
    return value;
  }
};

}  // namespace kernel_test
