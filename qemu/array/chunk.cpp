// SPDX-License-Identifier: Apache-2.0
#include "qemu/array/chunk.hpp"

#include "qemu/array/page_finder.hpp"

namespace svp::array {
namespace {

using wire::array::ChunkRequest;
using wire::array::Outcome;
using wire::program::Format;

// Numbers of the operands in an answer: what a kernel reads, and the sums, which it writes.
enum ChunkOperand : unsigned { kRowList, kPanelList, kRow, kSums = wire::array::kOutput, kPanel };

bool is_chunk(const ChunkRequest& request) {
  const bool is_dl16 = request.format == static_cast<std::uint32_t>(Format::Dl16);
  if (!is_dl16 && request.format != static_cast<std::uint32_t>(Format::Fp8E4m3)) return false;
  return request.half <= (is_dl16 ? 0 : 1) && is_count(request.rows, wire::array::kMaxRows) &&
         is_count(request.depth, wire::array::kMaxDepth) && is_count(request.lanes, wire::kStickBytes / 2) &&
         is_stick(request.sums) && is_stick(request.half_step) && is_list(request.row_list) &&
         is_list(request.panel_list);
}

std::uint32_t panel_sticks(const ChunkRequest& request) {
  return request.format == static_cast<std::uint32_t>(Format::Dl16) ? request.depth : (request.depth + 1) / 2;
}

class ChunkPreparation {
 public:
  ChunkPreparation(const CardMemory& memory, std::uint64_t root, ChunkPlan& plan)
      : finder_(memory, root), plan_(plan) {}

  Answer run() {
    const ChunkRequest& request = plan_.request;
    Answer answer = sticks(request.row_list, request.rows, kRowList, kRow, plan_.row.data());
    if (answer.outcome == Outcome::Done) {
      answer = sticks(request.panel_list, panel_sticks(request), kPanelList, kPanel, plan_.panel.data());
    }
    if (answer.outcome == Outcome::Done) answer = sums();
    if (answer.outcome == Outcome::Done) answer.done = request.rows;
    return answer;
  }

 private:
  Answer sticks(std::uint64_t list, std::uint32_t count, unsigned of_list, unsigned of_sticks, const std::byte** to) {
    for (std::uint32_t i = 0; i < count; ++i) {
      std::uint64_t address = 0;
      if (const Answer answer = finder_.read(of_list, list, i, address); answer.outcome != Outcome::Done) return answer;
      to[i] = finder_.find_stick(of_sticks, address, false);
      if (to[i] == nullptr) return missing(of_sticks, address);
    }
    return {.outcome = Outcome::Done};
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
