// SPDX-License-Identifier: Apache-2.0
// Lines of a reduction by the compute array.
#include "firmware/kernels/array_request.hpp"
#include "firmware/kernels/engine/reductions.hpp"

namespace kernel::engine {
namespace {

using wire::array::LinesRequest;

struct Memory {
  std::uint64_t line[wire::array::kMaxLines];
  std::uint64_t output[wire::array::kMaxLines];
};

class ByArray {
 public:
  ByArray(const Work& work, const Reduction& lines)
      : work_(work),
        lines_(lines),
        m_(reinterpret_cast<Memory&>(work.working)),
        request_(reinterpret_cast<LinesRequest&>(*work.array)),
        lanes_(program::lanes_of(work.output().format)),
        sticks_(lines.along_stick() ? (lines.extent() + lanes_ - 1) / lanes_ : lines.extent()) {}

  // How many lines are done.
  std::uint64_t run() {
    const std::uint64_t sticks = wire::array::most_line_sticks(work_.operation.opcode);
    if (sticks_ > sticks || !lines_.is_even()) return 0;
    const auto most = std::min<std::uint64_t>(wire::array::kMaxLines, sticks / sticks_);
    Reduction::Walk walk(lines_, lines_.first());
    std::uint64_t done = lines_.first();
    while (done < lines_.end()) {
      const unsigned count = collect(walk, std::min(most, lines_.end() - done));
      if (!ask(count)) break;
      done += count;
    }
    return done - lines_.first();
  }

 private:
  // Lines whose results have equally many lanes, and which the walk is then behind.
  unsigned collect(Reduction::Walk& walk, std::uint64_t most) {
    unsigned count = 0;
    for (; count < most; ++count, walk.next()) {
      const Line line = walk.line();
      if (count > 0 && line.lanes != line_lanes_) break;
      line_lanes_ = line.lanes;
      m_.line[count] = line.from;
      m_.output[count] = line.to;
    }
    return count;
  }

  bool ask(unsigned count) {
    request_.kind = wire::array::Kind::Lines;
    request_.opcode = static_cast<std::uint32_t>(work_.operation.opcode);
    request_.format = static_cast<std::uint32_t>(work_.output().format);
    request_.along = lines_.along_stick() ? 1 : 0;
    request_.lines = count;
    request_.sticks = static_cast<std::uint32_t>(sticks_);
    request_.lanes = lines_.along_stick() ? (lines_.extent() - 1) % lanes_ + 1 : line_lanes_;
    request_.factor = work_.operation.constant[0];
    request_.line_list = reinterpret_cast<std::uint64_t>(m_.line);
    request_.output_list = reinterpret_cast<std::uint64_t>(m_.output);
    request_.step = lines_.distance();
    return is_done_by_array(*work_.array);
  }

  const Work& work_;
  const Reduction& lines_;
  Memory& m_;
  LinesRequest& request_;
  unsigned line_lanes_ = 0;
  unsigned lanes_;
  std::uint64_t sticks_;
};

}  // namespace

std::uint64_t give_to_array(const Work& work, const Reduction& lines) {
  return work.array == nullptr ? 0 : ByArray(work, lines).run();
}

}  // namespace kernel::engine
