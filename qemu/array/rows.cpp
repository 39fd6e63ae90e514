// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/rows.hpp"

#include <algorithm>

#include "qemu/array/page_finder.hpp"
#include "qemu/array/row_functions.hpp"

namespace svp::array {
namespace {

using wire::array::kMaxInputs;
using wire::array::kMaxSticks;
using wire::array::kOutput;
using wire::array::kTable;
using wire::array::Outcome;
using wire::array::Request;
using wire::array::Row;

Answer check(const Request& request) {
  if (request.count == 0 || request.inputs == 0 || request.inputs > kMaxInputs) return refused(wire::array::kNoOperand);
  if (request.singles >> request.inputs != 0) return refused(wire::array::kNoOperand);
  if (find_row_function(request) == nullptr) return refused(wire::array::kNoOperand);
  for (unsigned i = 0; i < request.inputs; ++i) {
    if (!is_row(request.row[i])) return refused(i);
  }
  if (!is_row(request.row[kOutput])) return refused(kOutput);
  if (reads_table(request) && (request.table % wire::kStickBytes != 0 || request.table >= kAddressLimit)) {
    return refused(kTable);
  }
  return {.outcome = Outcome::Done};
}

// Refused when its pages do not lie one behind the other.
Answer find_table(PageFinder& finder, RowsPlan& plan) {
  const std::uint64_t address = plan.request.table;
  for (std::uint64_t at = address; at < address + wire::array::kTableBytes;) {
    const Page* const page = finder.find(kTable, at, false);
    if (page == nullptr) return missing(kTable, at);
    if (at == address) plan.table = page->at(at);
    if (page->at(at) != plan.table + (at - address)) return refused(kTable);
    at = page->end;
  }
  return {.outcome = Outcome::Done};
}

// Sticks of the row that begin in the page.
std::uint64_t sticks_in(const Page& page, std::uint64_t address, std::uint64_t step) {
  return step == 0 ? kMaxSticks : (page.end - address + step - 1) / step;
}

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, RowsPlan& plan) {
  const Request& request = plan.request;
  plan.stretches = 0;
  if (const Answer bad = check(request); bad.outcome != Outcome::Done) return bad;
  PageFinder finder(memory, root);
  if (reads_table(request)) {
    if (const Answer bad = find_table(finder, plan); bad.outcome != Outcome::Done) return bad;
  }
  const std::uint64_t wanted = std::min(request.count, kMaxSticks);
  std::uint64_t done = 0;
  while (done < wanted) {
    Stretch& stretch = plan.stretch[plan.stretches++];
    stretch.count = wanted - done;
    for (unsigned o = 0; o <= kOutput; ++o) {
      if (o >= request.inputs && o != kOutput) continue;
      const Row& row = request.row[o];
      const std::uint64_t address = row.address + done * row.step;
      const Page* const page = finder.find(o, address, o == kOutput);
      if (page == nullptr) return {.outcome = Outcome::Missing, .operand = o, .address = address};
      stretch.at[o] = page->at(address);
      stretch.count = std::min(stretch.count, sticks_in(*page, address, row.step));
    }
    done += stretch.count;
  }
  return {.outcome = Outcome::Done, .done = done};
}

void execute(const RowsPlan& plan) {
  const RowFunction function = find_row_function(plan.request);
  for (std::uint64_t i = 0; i < plan.stretches; ++i) function(plan, plan.stretch[i]);
}

}  // namespace svp::array
