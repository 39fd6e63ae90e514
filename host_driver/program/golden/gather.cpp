// SPDX-License-Identifier: Apache-2.0
// Gather and Scatter: the place of an element along the indexed dimensions is an element of another operand.
#include "host_driver/program/golden/families.hpp"
#include "host_driver/program/golden/golden.hpp"

namespace svp::program::golden {
namespace {

using namespace wire::program;

// Bytes from the first page to the one that the index names. An INT32 below zero is beyond every base, as a large
// number.
std::uint64_t page_offset(const Step& step, const View& indirect, unsigned operand, const Index& n) {
  const std::uint64_t index = View(step, 0).bits(n);
  std::uint64_t offset = 0;
  const bool fits = !__builtin_mul_overflow(index, step.operation.page, &offset);
  const bool negative = View(step, 0).format() == Format::Int32 && index >> 31 != 0;
  if (fits && !negative && indirect.reaches(n, offset)) return offset;
  throw Refused({Where::Index, static_cast<std::uint8_t>(operand), step.number, static_cast<std::uint32_t>(index)});
}

void gather(const Step& step) {
  const View value(step, 1);
  const View output(step, 2);
  for_each_index(step.order, counts(step, output, output.operand().present, true),
                 [&](const Index& n) { output.set(n, value.bits(n, page_offset(step, value, 1, n))); });
}

// In ascending order, so that the last one of several with the same index stays.
void scatter(const Step& step) {
  const View input(step, 1);
  const View output(step, 2);
  const std::uint8_t dimensions = View(step, 0).operand().present | input.operand().present | output.operand().present;
  for_each_index(Order::Ascending, counts(step, output, dimensions, true),
                 [&](const Index& n) { output.set(n, input.bits(n), page_offset(step, output, 2, n)); });
}

}  // namespace

void run_indexed(const Step& step) { step.operation.opcode == Opcode::Gather ? gather(step) : scatter(step); }

}  // namespace svp::program::golden
