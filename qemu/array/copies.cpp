// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/copies.hpp"

#include <cstring>

#include "qemu/array/page_finder.hpp"

namespace svp::array {
namespace {

using wire::array::CopiesRequest;
using wire::array::Outcome;

// Numbers of the operands in an answer.
enum CopiesOperand : unsigned { kFromList, kToList, kCopied, kCopy = wire::array::kOutput };

bool is_request(const CopiesRequest& request) {
  return is_count(request.rows, wire::array::kMaxCopies) && is_count(request.sticks, wire::array::kMaxCopies) &&
         std::uint64_t{request.rows} * request.sticks <= wire::array::kMaxCopies && is_list(request.from_list) &&
         is_list(request.to_list) && is_stick(request.from_step) && is_stick(request.to_step);
}

class CopiesPreparation {
 public:
  CopiesPreparation(const CardMemory& memory, std::uint64_t root, CopiesPlan& plan)
      : finder_(memory, root), plan_(plan) {}

  Answer run() {
    for (std::uint32_t i = 0; i < plan_.request.rows; ++i) {
      if (const Answer answer = row(i); answer.outcome != Outcome::Done) return answer;
    }
    return {.outcome = Outcome::Done, .done = plan_.request.rows};
  }

 private:
  Answer row(std::uint32_t i) {
    const CopiesRequest& request = plan_.request;
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    if (const Answer answer = finder_.read(kFromList, request.from_list, i, from); answer.outcome != Outcome::Done) {
      return answer;
    }
    if (const Answer answer = finder_.read(kToList, request.to_list, i, to); answer.outcome != Outcome::Done) {
      return answer;
    }
    const std::size_t end = std::size_t{i + 1} * request.sticks;
    for (std::size_t n = end - request.sticks; n < end; ++n, from += request.from_step, to += request.to_step) {
      plan_.from[n] = finder_.find_stick(kCopied, from, false);
      if (plan_.from[n] == nullptr) return missing(kCopied, from);
      plan_.to[n] = finder_.find_stick(kCopy, to, true);
      if (plan_.to[n] == nullptr) return missing(kCopy, to);
    }
    return {.outcome = Outcome::Done};
  }

  PageFinder finder_;
  CopiesPlan& plan_;
};

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, CopiesPlan& plan) {
  return is_request(plan.request) ? CopiesPreparation(memory, root, plan).run() : refused();
}

// One stick after the other: a stick may be read that was written before.
void execute(const CopiesPlan& plan) {
  const std::size_t sticks = std::size_t{plan.request.rows} * plan.request.sticks;
  for (std::size_t n = 0; n < sticks; ++n) {
    std::array<std::byte, wire::kStickBytes> stick;
    std::memcpy(stick.data(), plan.from[n], sizeof stick);
    std::memcpy(plan.to[n], stick.data(), sizeof stick);
  }
}

}  // namespace svp::array
