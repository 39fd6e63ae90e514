// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/lines.hpp"

#include "qemu/array/page_finder.hpp"
#include "shared/device_program.hpp"

namespace svp::array {
namespace {

using wire::array::LinesRequest;
using wire::array::Outcome;
using wire::program::Format;
using wire::program::Opcode;

// Numbers of the operands in an answer: what a kernel reads, and the results, which it writes.
enum LinesOperand : unsigned { kLineList, kOutputList, kStick, kResult = wire::array::kOutput };

bool is_operation(const LinesRequest& request) {
  switch (static_cast<Opcode>(request.opcode)) {
    case Opcode::Sum:
    case Opcode::Mean:
    case Opcode::Max:
    case Opcode::Min: break;
    case Opcode::Exx2:
      if (request.along == 0) return false;
      break;
    default: return false;
  }
  return request.opcode <= 0xFF && request.format <= 0xFF && request.along <= 1 &&
         (static_cast<Format>(request.format) == Format::Dl16 || static_cast<Format>(request.format) == Format::Fp32);
}

bool is_request(const LinesRequest& request) {
  if (!is_operation(request)) return false;
  const std::uint64_t lanes = wire::kStickBytes / (static_cast<Format>(request.format) == Format::Dl16 ? 2 : 4);
  const std::uint64_t most = wire::array::most_line_sticks(static_cast<Opcode>(request.opcode));
  return is_count(request.lines, wire::array::kMaxLines) && is_count(request.sticks, most) &&
         std::uint64_t{request.lines} * request.sticks <= most && is_count(request.lanes, lanes) &&
         is_list(request.line_list) && is_list(request.output_list) && is_stick(request.step);
}

class LinesPreparation {
 public:
  LinesPreparation(const CardMemory& memory, std::uint64_t root, LinesPlan& plan)
      : finder_(memory, root), plan_(plan) {}

  Answer run() {
    for (std::uint32_t i = 0; i < plan_.request.lines; ++i) {
      if (const Answer answer = line(i); answer.outcome != Outcome::Done) return answer;
    }
    return {.outcome = Outcome::Done, .done = plan_.request.lines};
  }

 private:
  Answer line(std::uint32_t i) {
    std::uint64_t from = 0;
    std::uint64_t to = 0;
    if (const Answer answer = finder_.read(kLineList, plan_.request.line_list, i, from);
        answer.outcome != Outcome::Done) {
      return answer;
    }
    if (const Answer answer = finder_.read(kOutputList, plan_.request.output_list, i, to);
        answer.outcome != Outcome::Done) {
      return answer;
    }
    const std::byte** const stick = plan_.stick.data() + std::size_t{i} * plan_.request.sticks;
    for (std::uint32_t n = 0; n < plan_.request.sticks; ++n, from += plan_.request.step) {
      stick[n] = finder_.find_stick(kStick, from, false);
      if (stick[n] == nullptr) return missing(kStick, from);
    }
    plan_.result[i] = finder_.find_stick(kResult, to, true);
    return plan_.result[i] == nullptr ? missing(kResult, to) : Answer{.outcome = Outcome::Done};
  }

  PageFinder finder_;
  LinesPlan& plan_;
};

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, LinesPlan& plan) {
  return is_request(plan.request) ? LinesPreparation(memory, root, plan).run() : refused();
}

}  // namespace svp::array
