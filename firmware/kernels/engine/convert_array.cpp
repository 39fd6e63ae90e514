// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/convert_array.hpp"

#include "firmware/kernels/array_request.hpp"

namespace kernel::engine {

std::uint64_t UnitsByArray::give(const Run& run, const UnitSticks& unit) {
  auto& request = reinterpret_cast<wire::array::ConvertRequest&>(*work_.array);
  request.kind = wire::array::Kind::Convert;
  request.opcode = static_cast<std::uint32_t>(work_.operation.opcode);
  request.from_format = static_cast<std::uint32_t>(work_.operation.operand[0].format);
  request.to_format = static_cast<std::uint32_t>(work_.output().format);
  request.from_sticks = unit.from;
  request.to_sticks = unit.to;
  request.single = unit.single ? 1 : 0;
  request.from_step = unit.from_step;
  request.to_step = unit.to_step;
  std::uint64_t done = 0;
  while (done < run.count) {
    request.count = run.count - done;
    request.from = {run.address[0] + done * run.step[0], run.step[0]};
    request.to = {run.address[1] + done * run.step[1], run.step[1]};
    if (!is_done_by_array(*work_.array)) {
      asks_ = false;
      return done;
    }
    done += request.done;
  }
  return done;
}

}  // namespace kernel::engine
