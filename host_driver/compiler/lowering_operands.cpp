// SPDX-License-Identifier: Apache-2.0
// A tensor of an SDSC as an operand. Memory that all cores reach needs no division: the formula from the first core's
// address gives the same bytes, and that is checked. Scratchpads are divided as the SDSC says.
#include <algorithm>

#include "host_driver/compiler/lowering.hpp"
#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

using wire::program::Base;

namespace {

constexpr std::int64_t kMostOffset = std::int64_t{1} << 44;  // more than any card has

std::string text_of_address(const SymbolicAddress& address) {
  switch (address.base) {
    case SymbolicAddress::Base::Argument:
      return "argument " + std::to_string(address.argument) + " + " + std::to_string(address.offset);
    case SymbolicAddress::Base::Pool: return "pool + " + std::to_string(address.offset);
    case SymbolicAddress::Base::None: break;
  }
  return std::to_string(address.offset);
}

}  // namespace

TensorUse ExecutionLowering::use(const SdscTensor& tensor, const UseRules& rules) const {
  const Steps steps = steps_of(sdsc_, tensor, rules.layout);
  TensorUse result{.format = tensor.format};
  for (unsigned place = 0; place < space_.size(); ++place) {
    const std::uint8_t d = space_[place];
    if (!tensor.has(d) || contains(rules.layout.without, d)) continue;
    result.present[place] = true;
    result.stride[place] = steps.step[d];
    if (tensor.stick_of(d) == &tensor.sticks.back()) result.stick = place;
  }
  if (tensor.memory == Memory::Lx) {
    place_in_scratchpads(tensor, rules, result);
  } else {
    place_in_memory(tensor, result);
    if (!rules.is_guess && tensor.windowed.empty()) check_cores(tensor, steps);
  }
  return result;
}

void ExecutionLowering::place_in_memory(const SdscTensor& tensor, TensorUse& result) const {
  const SymbolicAddress& address = address_of(execution_, tensor.start[first_core_]);
  if (address.base == SymbolicAddress::Base::None) refuse_here(tensor.name + " is given a number for its address");
  result.base = address.base == SymbolicAddress::Base::Pool ? Base::Pool : Base::Argument;
  if (result.base == Base::Pool && address.offset >= static_cast<std::int64_t>(builder_.own_pool_bytes())) {
    refuse_here(tensor.name + " begins at byte " + std::to_string(address.offset) + " of the pool, which has " +
                std::to_string(builder_.own_pool_bytes()));
  }
  if (address.offset < 0 || address.offset > kMostOffset) {
    refuse_here(tensor.name + " begins at byte " + std::to_string(address.offset) +
                " of its memory, which is none from 0 to " + std::to_string(kMostOffset));
  }
  result.argument = address.argument;
  result.offset = address.offset;
  for (const LoopTerm& term : address.loops) result.loop_stride[term.loop] = term.factor;
}

// Each core's address is what the formula gives.
void ExecutionLowering::check_cores(const SdscTensor& tensor, const Steps& steps) const {
  const SymbolicAddress& first = address_of(execution_, tensor.start[first_core_]);
  for (std::uint32_t core = 0; core < sdsc_.cores; ++core) {
    SymbolicAddress expected = first;
    for (const std::uint8_t d : tensor.order) {
      if (!tensor.has(d) || sdsc_.dimensions[d].slices == 1) continue;
      const std::int64_t positions = sdsc_.dimensions[d].per_core / stick_elements(tensor, d);
      // fits: of kMostOffset, and inside the tensor
      expected.offset += steps.step[d] * positions * sdsc_.slice[core][d];
    }
    const SymbolicAddress& given = address_of(execution_, tensor.start[core]);
    if (given == expected) continue;
    refuse_here(tensor.name + " of core " + std::to_string(core) + " is given " + text_of_address(given) +
                ", and the layout says " + text_of_address(expected));
  }
}

void ExecutionLowering::place_in_scratchpads(const SdscTensor& tensor, const UseRules& rules, TensorUse& result) const {
  const auto& owners = rules.owners != nullptr ? *rules.owners : sdsc_.slice;
  if (std::ranges::adjacent_find(tensor.start, std::ranges::not_equal_to()) != tensor.start.end()) {
    refuse(sdsc_.place(tensor), "lies at another address in the scratchpad of another core");
  }
  const auto parts_of = [&](std::uint8_t d) {
    return rules.layout.parts ? std::max((*rules.layout.parts)[d], 1u) : sdsc_.dimensions[d].slices;
  };
  for (unsigned place = 0; place < space_.size(); ++place) {
    const std::uint8_t d = space_[place];
    const std::uint32_t parts = parts_of(d);
    if (parts == 1) continue;
    if (sdsc_.dimensions[d].extent % parts != 0) {
      refuse(sdsc_.place(tensor),
             "dimension " + sdsc_.dimensions[d].name + " has no " + std::to_string(parts) + " equal parts");
    }
    result.split[place] = parts;
    for (std::uint32_t core = 0; core < owners.size(); ++core) {
      const auto expected = [&](std::uint8_t other) {
        return owners[core][other] == (other == d ? 1u : 0u) || parts_of(other) == 1;
      };
      if (std::all_of(space_.begin(), space_.end(), expected)) result.split_stride[place] = core;
    }
  }
  for (std::uint32_t core = 0; core < owners.size(); ++core) {
    std::uint32_t expected = 0;
    for (unsigned place = 0; place < space_.size(); ++place) {
      if (result.split[place] > 1) expected += owners[core][space_[place]] * result.split_stride[place];
    }
    if (expected != core) refuse(sdsc_.place(tensor), "its parts are not given to cores in a regular order");
  }
  result.base = Base::Scratchpad;
  result.offset = tensor.start[first_core_];
}

}  // namespace svp::compiler
