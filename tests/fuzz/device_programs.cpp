// SPDX-License-Identifier: Apache-2.0
// Device programs: a valid one with some of its bytes changed, or any bytes at all. The checker judges all of them;
// what it accepts, the golden model executes inside of buffers that are no byte larger than the program says.
#include <algorithm>
#include <cstring>
#include <vector>

#include "host_driver/program/golden/golden.hpp"
#include "shared/device_program_check.hpp"
#include "tests/fuzz/fuzz.hpp"
#include "tests/support/device_programs.hpp"
#include "tests/support/program_builder.hpp"

namespace {

using fuzz::require;
using namespace wire::program;
using wire::kStickBytes;

constexpr std::uint64_t kMostBytes = std::uint64_t{1} << 20;     // of all memory of a launch
constexpr std::uint64_t kMostElements = std::uint64_t{1} << 16;  // that operations compute, loops and pad lanes counted

struct Case {
  std::vector<std::byte> program;
  std::vector<std::vector<std::byte>> contents;  // of arguments, as far as they are known
};

// A few fields of header, arguments and operations get other values; the checksum is right again.
void change(fuzz::Input& input, std::vector<std::byte>& program, std::uint64_t before_data) {
  while (!input.empty()) {
    const std::uint64_t at = input.take<std::uint16_t>() % before_data;
    const std::size_t bytes = std::size_t{1} << input.below(4);
    const auto value = input.take<std::uint64_t>();
    std::memcpy(&program[at], &value, std::min(bytes, program.size() - at));
  }
}

Case case_of(fuzz::Input& input) {
  const auto opcodes = svp::test::all_opcodes();
  const unsigned flags = input.below(256);
  if ((flags & 0x80) != 0) {
    const auto bytes = input.rest();
    return {{bytes.begin(), bytes.end()}, {}};
  }
  svp::test::ProgramLimits limits{.opcodes = {opcodes[input.below(opcodes.size())]}, .positions = 128};
  limits.loops = (flags & 1) != 0;
  limits.workspace = (flags & 2) != 0;
  limits.operations = 1 + (flags >> 2 & 1);
  if ((flags & 0x18) == 0x18) {
    limits.operations = 40;
    limits.arguments = kMaxArguments - limits.operations;
    limits.positions = 16;
  }
  std::mt19937_64 random(input.take<std::uint64_t>());
  svp::test::RandomProgram made = svp::test::random_program(random, limits);
  Header header;
  std::memcpy(&header, made.program.data(), sizeof header);
  change(input, made.program, std::min<std::uint64_t>(header.data_offset, made.program.size()));
  return {std::move(made.program), std::move(made.arguments)};
}

// The checksum says nothing about a program whose maker computed it.
void make_checksum_right(std::vector<std::byte>& program) {
  Header header;
  if (program.size() < sizeof header) return;
  std::memcpy(&header, program.data(), sizeof header);
  if (check_header(header, program.size()).ok()) svp::test::seal(std::span(program).first(header.program_bytes));
}

template <typename T>
T copy_of(const std::vector<std::byte>& program, std::uint64_t at) {
  T value;
  std::memcpy(&value, &program[at], sizeof value);
  return value;
}

// Of a program that passed. Saturates.
std::uint64_t computed_elements(const std::vector<std::byte>& program, const Header& header) {
  std::uint64_t sum = 0;
  std::vector<std::uint64_t> times{1};
  for (std::uint32_t i = 0; i < header.operation_count; ++i) {
    const auto operation = copy_of<Operation>(program, header.operations_offset + i * sizeof(Operation));
    std::uint64_t positions = times.back();
    for (unsigned d = 0; d < operation.rank; ++d) positions = plus_product(0, positions, operation.extent[d]);
    if (operation.operand_count != 0) {  // of a short stick all lanes are written
      const std::uint8_t stick_dim = operation.operand[operation.operand_count - 1].stick_dim;
      const std::uint64_t filled = stick_dim == kNoDimension ? 1 : operation.extent[stick_dim];
      positions = plus_product(0, positions, (filled + kStickBytes - 1) / filled);
    }
    sum = plus_product(sum, positions, 1);
    if (operation.opcode == Opcode::LoopBegin) times.push_back(positions);
    if (operation.opcode == Opcode::LoopEnd) times.pop_back();
  }
  return sum;
}

// An index that leads to another operand of its operation, in the pool or a scratchpad, makes the result undefined.
bool may_be_undefined(const std::vector<std::byte>& program, const Header& header) {
  for (std::uint32_t i = 0; i < header.operation_count; ++i) {
    const auto operation = copy_of<Operation>(program, header.operations_offset + i * sizeof(Operation));
    if (find_opcode(operation.opcode)->family != Family::Indexed) continue;
    if (operation.operand[2].base != Base::Argument) return true;
  }
  return false;
}

// False: an index led outside.
bool run_golden(const std::vector<std::byte>& program, std::vector<std::vector<std::byte>>& arguments,
                svp::program::golden::Order order) {
  const std::vector<std::span<std::byte>> spans(arguments.begin(), arguments.end());
  try {
    svp::program::golden::run(program, spans, order);
    return true;
  } catch (const svp::program::golden::Refused& refused) {
    require(refused.refusal().where == Where::Index, "only an index ends a program that was accepted");
    return false;
  }
}

void execute(const Case& it, const Header& header) {
  std::vector<Argument> entries;
  std::uint64_t bytes = workspace_bytes(header) + std::uint64_t{header.slices} * header.scratchpad_bytes;
  for (std::uint32_t i = 0; i < header.argument_count; ++i) {
    entries.push_back(copy_of<Argument>(it.program, header.arguments_offset + i * sizeof(Argument)));
    bytes = plus_product(bytes, entries.back().bytes, 1);
  }
  if (bytes > kMostBytes || computed_elements(it.program, header) > kMostElements) return;
  std::vector<std::vector<std::byte>> arguments;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    arguments.push_back(i < it.contents.size() ? it.contents[i] : std::vector<std::byte>{});
    arguments.back().resize(entries[i].bytes);
    arguments.back().shrink_to_fit();
  }
  const auto before = arguments;
  auto backwards = arguments;
  using svp::program::golden::Order;
  const bool ended = run_golden(it.program, arguments, Order::Ascending);
  require(run_golden(it.program, backwards, Order::Descending) == ended, "whether an index leads outside has no order");
  require(!ended || may_be_undefined(it.program, header) || arguments == backwards,
          "results do not depend on the order of elements");
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const bool may_write = entries[i].access == Access::Write || entries[i].access == Access::ReadWrite;
    require(may_write || arguments[i] == before[i], "what may only be read is not written");
  }
}

}  // namespace

void fuzz::run(Input input) {
  Case it = case_of(input);
  static_cast<void>(check_program(it.program));
  make_checksum_right(it.program);
  const Refusal refusal = check_program(it.program);
  if (!refusal.ok()) {
    require(refusal.operand == kNoOperand || refusal.operand < kMaxArguments,
            "a refusal names an operand that there is");
    return require(from_status(to_status(refusal)) == refusal, "a refusal survives as a status");
  }
  execute(it, copy_of<Header>(it.program, 0));
}
