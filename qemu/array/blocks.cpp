// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/blocks.hpp"

#include <algorithm>
#include <functional>
#include <span>

#include "qemu/array/page_finder.hpp"

namespace svp::array {
namespace {

using wire::array::BlocksRequest;
using wire::array::Outcome;

// Numbers of the operands in an answer.
enum BlocksOperand : unsigned { kBlockRow, kBlockColumn = wire::array::kOutput };

bool is_request(const BlocksRequest& request) {
  if (request.item != 1 && request.item != 2 && request.item != 4) return false;
  const std::uint64_t lanes = wire::kStickBytes / request.item;
  return is_count(request.rows, lanes) && is_count(request.columns, lanes) &&
         is_count(request.count, wire::array::most_blocks(request.item)) && is_row(request.input) &&
         is_stick(request.input_step) && is_row(request.output) && is_stick(request.output_step);
}

// From the first byte of all sticks to the last one. Sticks of one of the two may lie between those of the other.
bool may_overlap(std::span<const std::byte* const> rows, std::span<std::byte* const> columns) {
  const auto [first_row, last_row] = std::ranges::minmax(rows);
  const auto [first_column, last_column] = std::ranges::minmax(columns);
  const std::less<const std::byte*> lies_before;
  return lies_before(first_row, last_column + wire::kStickBytes) &&
         lies_before(first_column, last_row + wire::kStickBytes);
}

class BlocksPreparation {
 public:
  BlocksPreparation(const CardMemory& memory, std::uint64_t root, BlocksPlan& plan)
      : finder_(memory, root), request_(plan.request), plan_(plan) {}

  Answer run() {
    for (std::uint64_t n = 0; n < request_.count; ++n) {
      if (const Answer answer = block(n); answer.outcome != Outcome::Done) return answer;
    }
    return {.outcome = Outcome::Done, .done = request_.count};
  }

 private:
  // In the order in which the engine reaches them: the rows of its first tiles, all columns, the other rows.
  Answer block(std::uint64_t n) {
    const std::span row(plan_.row.data() + n * request_.rows, request_.rows);
    const std::span column(plan_.column.data() + n * request_.columns, request_.columns);
    const std::uint32_t first = std::min<std::uint32_t>(request_.rows, sizeof(std::uint64_t) / request_.item);
    const std::uint64_t from = request_.input.address + n * request_.input_step;
    const std::uint64_t to = request_.output.address + n * request_.output_step;
    Answer answer = sticks(kBlockRow, from, request_.input.step, row.first(first));
    if (answer.outcome == Outcome::Done) answer = sticks(kBlockColumn, to, request_.output.step, column);
    if (answer.outcome == Outcome::Done) {
      answer = sticks(kBlockRow, from + first * request_.input.step, request_.input.step, row.subspan(first));
    }
    return answer.outcome == Outcome::Done && may_overlap(row, column) ? refused() : answer;
  }

  template <typename Pointer>
  Answer sticks(unsigned of, std::uint64_t address, std::uint64_t step, std::span<Pointer> places) {
    for (Pointer& place : places) {
      place = finder_.find_stick(of, address, of == kBlockColumn);
      if (place == nullptr) return missing(of, address);
      address += step;
    }
    return {.outcome = Outcome::Done};
  }

  PageFinder finder_;
  const BlocksRequest& request_;
  BlocksPlan& plan_;
};

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, BlocksPlan& plan) {
  return is_request(plan.request) ? BlocksPreparation(memory, root, plan).run() : refused();
}

}  // namespace svp::array
