// SPDX-License-Identifier: Apache-2.0
// Runs device programs on the bare card and on the host, and compares every byte of their arguments.
#pragma once

#include <algorithm>

#include "tests/device/kernels/engine_programs.hpp"
#include "tests/device/kernels/engine_reference.hpp"
#include "tests/device/kernels/kernel_fixture.hpp"

namespace kernel_test {

class EngineTest : public KernelTest {
 protected:
  // Arguments behind the program, each with a stick between it and the next that nothing writes.
  static RunResult launch(std::span<const std::byte> bytes, std::vector<Bytes>& arguments, std::uint64_t workspace,
                          unsigned cores = 1) {
    std::uint64_t offset = BareCard::kTensors;
    std::vector<wire::CorrectionSymbol> symbols;
    const auto place = [&](std::uint64_t size) {
      symbols.push_back(BareCard::address(static_cast<std::uint32_t>(symbols.size()), offset));
      const std::uint64_t at = offset;
      offset += wire::align_up(size, wire::kStickBytes) + wire::kStickBytes;
      return at;
    };
    const auto copy_in = [&](std::span<const std::byte> from) {
      std::ranges::copy(from, card().region().begin() + static_cast<std::ptrdiff_t>(place(from.size())));
    };
    copy_in(bytes);
    for (const Bytes& argument : arguments) copy_in(argument);
    if (workspace != 0) {
      const std::uint64_t at = place(workspace);
      std::ranges::fill(card().region().subspan(at, workspace), std::byte{0xA5});
    }
    const RunResult result = run("engine", symbols, cores);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto memory = card().region().subspan(symbols[i + 1].value, arguments[i].size());
      std::ranges::copy(memory, arguments[i].begin());
    }
    return result;
  }

  static void expect_as_on_host(const Program& executed, std::vector<Bytes> arguments, unsigned cores = 1) {
    std::vector<Bytes> expected = arguments;
    Bytes workspace(executed.workspace_bytes(), std::byte{0xA5});
    execute_on_host(executed, expected, workspace);
    const RunResult result = launch(executed.bytes(), arguments, workspace.size(), cores);
    ASSERT_TRUE(result.exited) << "cause " << result.cause << " at text + 0x" << std::hex << result.pc;
    ASSERT_TRUE(result.status == 0) << describe(result.status);
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const auto [got, wanted] = std::ranges::mismatch(arguments[i], expected[i]);
      if (got == arguments[i].end()) continue;
      const auto at = static_cast<std::size_t>(got - arguments[i].begin()) & ~std::size_t{3};
      ADD_FAILURE() << "argument " << i << ", byte " << at << std::hex << ": " << word(arguments[i], at)
                    << ", on the host " << word(expected[i], at);
    }
  }

  static std::string describe(std::uint64_t status) {
    if (!program::is_refusal(status)) return "status " + std::to_string(status);
    const program::Refusal refusal = program::from_status(status);
    return "refused: where " + std::to_string(static_cast<int>(refusal.where)) + ", operation " +
           std::to_string(refusal.operation) + ", operand " + std::to_string(refusal.operand);
  }

  static std::vector<Bytes> random_arguments(const Program& of, Random& random) {
    std::vector<Bytes> arguments;
    for (const program::Argument& argument : of.arguments) {
      Bytes bytes(argument.bytes);
      for (std::size_t at = 0; at < bytes.size(); at += sizeof(std::uint64_t)) {  // whole sticks
        const std::uint64_t eight = random();
        std::memcpy(bytes.data() + at, &eight, sizeof eight);
      }
      arguments.push_back(std::move(bytes));
    }
    return arguments;
  }

 private:
  static std::uint32_t word(const Bytes& bytes, std::size_t at) {
    std::uint32_t value = 0;
    std::memcpy(&value, bytes.data() + at, std::min<std::size_t>(sizeof value, bytes.size() - at));
    return value;
  }
};

}  // namespace kernel_test
