// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/chunk.hpp"

#include "qemu/array/chunk_numbers.hpp"
#include "qemu/array/page_finder.hpp"

namespace svp::array {
namespace {

using wire::array::ChunkRequest;
using wire::array::Outcome;
using wire::program::Format;

// Numbers of the operands in an answer: what a kernel reads, and the sums, which it writes.
enum ChunkOperand : unsigned { kRowList, kPanelList, kRow, kSums = wire::array::kOutput, kPanel };

bool is_chunk(const ChunkRequest& request) {
  if (!is_dl16(request) && request.format != static_cast<std::uint32_t>(Format::Fp8E4m3)) return false;
  const std::uint32_t most_depth = wire::array::most_depth(static_cast<Format>(request.format), request.rows);
  return request.half <= (is_dl16(request) ? 0 : 1) && is_count(request.rows, wire::array::kMaxRows) &&
         is_count(request.depth, most_depth) && is_count(request.lanes, kChunkLanes) && is_stick(request.sums) &&
         is_stick(request.half_step) && is_list(request.row_list) && is_stick(request.row_step) &&
         is_stick(request.panel_step) &&
         (request.panel_step == 0 ? is_list(request.panel_list) : is_stick(request.panel_list));
}

std::uint32_t panel_sticks(const ChunkRequest& request) {
  return is_dl16(request) ? request.depth : (request.depth + 1) / 2;
}

class ChunkPreparation {
 public:
  ChunkPreparation(const CardMemory& memory, std::uint64_t root, ChunkPlan& plan)
      : finder_(memory, root), plan_(plan) {}

  Answer run() {
    Answer answer = rows();
    if (answer.outcome == Outcome::Done) answer = panel();
    if (answer.outcome == Outcome::Done) answer = sums();
    return answer;
  }

 private:
  Answer rows() {
    const ChunkRequest& request = plan_.request;
    const std::uint32_t chunks = chunks_of(request);
    for (std::uint32_t i = 0; i < request.rows; ++i) {
      std::uint64_t first = 0;
      if (const Answer bad = finder_.read(kRowList, request.row_list, i, first); bad.outcome != Outcome::Done)
        return bad;
      for (std::uint32_t c = 0; c < chunks; ++c) {
        const std::byte*& stick = plan_.row[c * request.rows + i];
        if (const Answer bad = find(kRow, first + c * request.row_step, stick); bad.outcome != Outcome::Done)
          return bad;
      }
    }
    return {.outcome = Outcome::Done};
  }

  Answer panel() {
    const ChunkRequest& request = plan_.request;
    const std::uint32_t count = panel_sticks(request);
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t address = request.panel_list + i * request.panel_step;
      if (request.panel_step == 0) {
        const Answer bad = finder_.read(kPanelList, request.panel_list, i, address);
        if (bad.outcome != Outcome::Done) return bad;
      }
      if (const Answer bad = find(kPanel, address, plan_.panel[i]); bad.outcome != Outcome::Done) return bad;
    }
    return {.outcome = Outcome::Done};
  }

  Answer find(unsigned operand, std::uint64_t address, const std::byte*& stick) {
    stick = finder_.find_stick(operand, address, false);
    return stick == nullptr ? missing(operand, address) : Answer{.outcome = Outcome::Done};
  }

  Answer sums() {
    for (std::uint32_t i = 0; i < plan_.request.rows; ++i) {
      for (unsigned half = 0; half < 2; ++half) {
        const std::uint64_t address =
            plan_.request.sums + half * plan_.request.half_step + std::uint64_t{i} * wire::kStickBytes;
        plan_.sums[i][half] = finder_.find_stick(kSums, address, true);
        if (plan_.sums[i][half] == nullptr) return missing(kSums, address);
      }
    }
    return {.outcome = Outcome::Done};
  }

  PageFinder finder_;
  ChunkPlan& plan_;
};

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, ChunkPlan& plan) {
  return is_chunk(plan.request) ? ChunkPreparation(memory, root, plan).run() : refused();
}

}  // namespace svp::array
