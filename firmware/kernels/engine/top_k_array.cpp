// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/top_k_array.hpp"

#include <algorithm>

#include "firmware/kernels/array_request.hpp"

namespace kernel::engine {
namespace {

using wire::array::Outcome;
using wire::array::TopKRequest;

constexpr std::uint32_t kMostSticks = wire::array::kMaxLineSticks;
constexpr unsigned kTries = 32;  // at bytes that are not mapped yet
// Elements of all lines. Fewer are not worth a request.
constexpr std::uint64_t kFewestForArray = 32;

}  // namespace

TopKArray::TopKArray(const Work& work, const TopKRows& rows)
    : work_(work),
      rows_(rows),
      sticks_((rows.extent - 1) / rows.in_stick + 1),
      refused_(work.array == nullptr || !rows.even || rows.ranks > wire::array::kMaxRanks) {}

std::uint32_t TopKArray::most_rows(std::uint64_t rows, std::uint32_t lines) const {
  if (refused_) return 0;
  const std::uint32_t by_merits = wire::array::kMaxMerits / rows_.ranks / lines;
  const std::uint32_t by_sticks = std::max(kMostSticks / sticks_, 1u);
  const auto most = static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, wire::array::kMaxLines));
  const std::uint32_t fitting = std::min({most, by_merits, by_sticks});
  return std::uint64_t{fitting} * lines * rows_.extent < kFewestForArray ? 0 : fitting;
}

TopKArray::Part TopKArray::part_behind(std::uint64_t done, std::uint32_t rows) const {
  const auto row = static_cast<std::uint32_t>(done / sticks_);
  const auto stick = static_cast<std::uint32_t>(done - std::uint64_t{row} * sticks_);
  return {.row = row,
          .rows = stick == 0 ? rows - row : 1,
          .stick = stick,
          .sticks = std::min(sticks_ - stick, kMostSticks)};
}

Outcome TopKArray::ask(const Part& part, std::uint32_t first, std::uint32_t lines) {
  auto& memory = reinterpret_cast<TopKMemory&>(work_.working);
  auto& request = reinterpret_cast<TopKRequest&>(*work_.array);
  const bool across = rows_.in_stick == 1;
  const bool ends = part.stick + part.sticks == sticks_;
  const std::uint64_t* const row = memory.row + first + part.row;
  if (part.stick != 0) memory.rest[0] = *row + part.stick * rows_.step;
  request.kind = wire::array::Kind::TopK;
  request.format = static_cast<std::uint32_t>(rows_.format);
  request.ranks = rows_.ranks;
  request.across = across ? 1 : 0;
  request.rows = part.rows;
  request.sticks = part.sticks;
  request.lanes = across ? lines : ends ? (rows_.extent - 1) % rows_.in_stick + 1 : rows_.in_stick;
  request.first = part.stick * rows_.in_stick;
  request.row_list = reinterpret_cast<std::uint64_t>(part.stick != 0 ? memory.rest : row);
  request.step = rows_.step;
  request.merits = reinterpret_cast<std::uint64_t>(memory.merit + std::uint64_t{part.row} * lines * rows_.ranks);
  return ask_array(*work_.array);
}

// The engine writes the results of a row before it reads the next row. So where memory is missing a request is made for
// one row alone; when that row is not the first one, the results of those in front of it are written before.
std::uint64_t TopKArray::include(std::uint32_t first, std::uint32_t end, std::uint32_t lines) {
  std::uint64_t done = 0;
  bool missing = false;
  unsigned tries = 0;
  while (!refused_ && done < std::uint64_t{end - first} * sticks_) {
    Part part = part_behind(done, end - first);
    if (missing) part.rows = 1;
    const Outcome outcome = ask(part, first, lines);
    if (outcome == Outcome::Done) {
      done += work_.array->done;
      tries = 0;
    } else if (outcome != Outcome::Missing || ++tries > kTries) {
      refused_ = true;
    } else if (part.rows == 1 && part.row == 0) {
      touch(*work_.array);
    } else if (done >= sticks_) {
      break;
    }
    missing = outcome == Outcome::Missing;
  }
  return done;
}

}  // namespace kernel::engine
