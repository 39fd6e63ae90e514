// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/top_k.hpp"

#include "qemu/array/page_finder.hpp"
#include "shared/device_program.hpp"

namespace svp::array {
namespace {

using wire::array::Outcome;
using wire::array::TopKRequest;
using wire::program::Format;

// Numbers of the operands in an answer: what a kernel reads, and the lists, which it writes as well.
enum TopKOperand : unsigned { kSearchedList, kSearched, kMerits = wire::array::kOutput };

bool is_request(const TopKRequest& request) {
  const bool is_dl16 = request.format == static_cast<std::uint32_t>(Format::Dl16);
  if (!is_dl16 && request.format != static_cast<std::uint32_t>(Format::Fp32)) return false;
  const std::uint64_t most = wire::array::kMaxLineSticks;
  return request.across <= 1 && is_count(request.rows, wire::array::kMaxLines) && is_count(request.sticks, most) &&
         std::uint64_t{request.rows} * request.sticks <= most &&
         is_count(request.lanes, wire::kStickBytes / (is_dl16 ? 2 : 4)) &&
         is_count(request.ranks, wire::array::kMaxRanks) &&
         request.ranks * lines_of(request) <= wire::array::kMaxMerits && is_list(request.row_list) &&
         is_stick(request.step) && is_stick(request.merits);
}

class TopKPreparation {
 public:
  TopKPreparation(const CardMemory& memory, std::uint64_t root, TopKPlan& plan) : finder_(memory, root), plan_(plan) {}

  Answer run() {
    for (std::uint32_t i = 0; i < plan_.request.rows; ++i) {
      if (const Answer answer = row(i); answer.outcome != Outcome::Done) return answer;
    }
    return lists();
  }

 private:
  Answer row(std::uint32_t i) {
    std::uint64_t from = 0;
    if (const Answer answer = finder_.read(kSearchedList, plan_.request.row_list, i, from);
        answer.outcome != Outcome::Done) {
      return answer;
    }
    const std::byte** const stick = plan_.stick.data() + std::size_t{i} * plan_.request.sticks;
    for (std::uint32_t n = 0; n < plan_.request.sticks; ++n, from += plan_.request.step) {
      stick[n] = finder_.find_stick(kSearched, from, false);
      if (stick[n] == nullptr) return missing(kSearched, from);
    }
    return {.outcome = Outcome::Done};
  }

  Answer lists() {
    const std::uint64_t merits = plan_.request.ranks * lines_of(plan_.request);
    std::uint64_t address = plan_.request.merits;
    for (std::size_t n = 0; n * kMeritsInStick < merits; ++n, address += wire::kStickBytes) {
      plan_.list[n] = finder_.find_stick(kMerits, address, true);
      if (plan_.list[n] == nullptr) return missing(kMerits, address);
    }
    return {.outcome = Outcome::Done};
  }

  PageFinder finder_;
  TopKPlan& plan_;
};

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, TopKPlan& plan) {
  return is_request(plan.request) ? TopKPreparation(memory, root, plan).run() : refused();
}

}  // namespace svp::array
