// SPDX-License-Identifier: Apache-2.0
#include "host_driver/compiler/layout.hpp"

#include <algorithm>

#include "host_driver/compiler/sdsc_members.hpp"

namespace svp::compiler {

namespace {

constexpr std::int64_t kMostTensorBytes = std::int64_t{1} << 44;

std::uint64_t positions(const Sdsc& sdsc, const SdscTensor& tensor, std::uint8_t d, const LayoutRules& rules) {
  const Dimension& dimension = sdsc.dimensions[d];
  std::uint64_t elements = dimension.extent;
  if (tensor.memory == Memory::Lx) elements /= rules.parts ? std::max((*rules.parts)[d], 1u) : dimension.slices;
  if (const auto found = rules.allocated.find(d); found != rules.allocated.end()) {
    elements = found->second;
  } else {
    elements += tensor.gap[d];
  }
  const std::uint32_t stick = stick_elements(tensor, d);
  return (elements + stick - 1) / stick;
}

}  // namespace

std::uint32_t stick_elements(const SdscTensor& tensor, unsigned dimension) {
  const Stick* const stick = tensor.has(dimension) ? tensor.stick_of(dimension) : nullptr;
  return stick == nullptr ? 1 : stick->size;
}

Steps steps_of(const Sdsc& sdsc, const SdscTensor& tensor, const LayoutRules& rules) {
  Steps steps;
  std::int64_t step = wire::kStickBytes;
  for (const std::uint8_t d : tensor.order) {
    if (!tensor.has(d) || contains(rules.without, d)) continue;
    steps.step[d] = step;
    const std::uint64_t count = positions(sdsc, tensor, d, rules);
    if (count > static_cast<std::uint64_t>(kMostTensorBytes / step)) {
      refuse(sdsc.place(tensor), "a tensor of more than " + std::to_string(kMostTensorBytes) + " bytes");
    }
    step *= static_cast<std::int64_t>(count);
  }
  steps.bytes = step;
  return steps;
}

}  // namespace svp::compiler
