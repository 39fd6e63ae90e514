// SPDX-License-Identifier: Apache-2.0 OR GPL-2.0-or-later
#include "qemu/array/convert.hpp"

#include <algorithm>

#include "qemu/array/page_finder.hpp"
#include "shared/device_program.hpp"

namespace svp::array {
namespace {

using wire::array::ConvertRequest;
using wire::array::kOutput;
using wire::array::Outcome;
using wire::array::unit_sticks;
using wire::program::Format;
using wire::program::Opcode;

// Numbers of the operands of a PageFinder: the sticks of a unit.
enum ConvertOperand : unsigned { kFrom = 0, kTo = kMaxUnitSticks };
static_assert(kTo + kMaxUnitSticks <= PageFinder::kOperands && kTo <= kOutput);

// Both formats are known ones.
bool has_formats(const ConvertRequest& request) {
  const auto from = static_cast<Format>(request.from_format);
  const auto to = static_cast<Format>(request.to_format);
  const auto are = [&](Format a, Format b) { return from == a && to == b; };
  switch (request.opcode) {
    case static_cast<std::uint32_t>(Opcode::Copy): return from != to;
    case static_cast<std::uint32_t>(Opcode::Dl16ToFp32): return are(Format::Dl16, Format::Fp32);
    case static_cast<std::uint32_t>(Opcode::Fp32ToDl16): return are(Format::Fp32, Format::Dl16);
    case static_cast<std::uint32_t>(Opcode::Dl16ToFp8):
    case static_cast<std::uint32_t>(Opcode::Dl16ToFp8Weight): return are(Format::Dl16, Format::Fp8E4m3);
    case static_cast<std::uint32_t>(Opcode::Fp8ToDl16): return are(Format::Fp8E4m3, Format::Dl16);
    default: return false;
  }
}

bool has_units(const ConvertRequest& request) {
  const auto from = static_cast<Format>(request.from_format);
  const auto to = static_cast<Format>(request.to_format);
  if (request.count == 0 || request.single > 1) return false;
  if (request.single == 1) {
    return request.opcode == static_cast<std::uint32_t>(Opcode::Copy) && request.from_sticks == 1 &&
           request.to_sticks == 1;
  }
  return request.from_sticks >= 1 && request.from_sticks <= unit_sticks(from, to) && request.to_sticks >= 1 &&
         request.to_sticks <= unit_sticks(to, from);
}

Answer check(const ConvertRequest& request) {
  if (request.from_format >= wire::program::kFormats || request.to_format >= wire::program::kFormats) return refused();
  if (!has_formats(request) || !has_units(request)) return refused();
  if (!is_row(request.from) || !is_stick(request.from_step)) return refused(kFrom);
  if (!is_row(request.to) || !is_stick(request.to_step)) return refused(kOutput);
  return {.outcome = Outcome::Done};
}

// Units that one request does.
std::uint64_t most_units(const ConvertRequest& request) {
  const std::uint64_t positions = std::max(wire::program::lanes_of(static_cast<Format>(request.from_format)),
                                           wire::program::lanes_of(static_cast<Format>(request.to_format)));
  return wire::array::kMaxConverted / positions;
}

class ConvertPreparation {
 public:
  ConvertPreparation(const CardMemory& memory, std::uint64_t root, ConvertPlan& plan)
      : finder_(memory, root), plan_(plan) {}

  Answer run() {
    const ConvertRequest& request = plan_.request;
    const std::uint64_t wanted = std::min(request.count, most_units(request));
    plan_.stretches = 0;
    std::uint64_t done = 0;
    while (done < wanted) {
      UnitStretch& stretch = plan_.stretch[plan_.stretches++];
      stretch.count = wanted - done;
      for (unsigned i = 0; i < request.from_sticks; ++i) {
        const std::uint64_t address = request.from.address + i * request.from_step + done * request.from.step;
        stretch.from[i] = find(kFrom + i, address, request.from.step, false, stretch.count);
        if (stretch.from[i] == nullptr) return missing(kFrom + i, address);
      }
      for (unsigned i = 0; i < request.to_sticks; ++i) {
        const std::uint64_t address = request.to.address + i * request.to_step + done * request.to.step;
        stretch.to[i] = find(kTo + i, address, request.to.step, true, stretch.count);
        if (stretch.to[i] == nullptr) return missing(kOutput, address);
      }
      done += stretch.count;
    }
    return {.outcome = Outcome::Done, .done = done};
  }

 private:
  // The stick there; null: missing. `count` becomes no more than the sticks that begin in its page.
  std::byte* find(unsigned o, std::uint64_t address, std::uint64_t step, bool writes, std::uint64_t& count) {
    const Page* const page = finder_.find(o, address, writes);
    if (page == nullptr) return nullptr;
    if (step != 0) count = std::min(count, (page->end - address + step - 1) / step);
    return page->at(address);
  }

  PageFinder finder_;
  ConvertPlan& plan_;
};

}  // namespace

Answer prepare(const CardMemory& memory, std::uint64_t root, ConvertPlan& plan) {
  const Answer good = check(plan.request);
  return good.outcome == Outcome::Done ? ConvertPreparation(memory, root, plan).run() : good;
}

}  // namespace svp::array
