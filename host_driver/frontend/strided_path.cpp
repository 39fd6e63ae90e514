// SPDX-License-Identifier: Apache-2.0
#include "host_driver/frontend/strided_path.hpp"

#include <algorithm>
#include <utility>

#include "host_driver/runtime/strided_split.hpp"

namespace svp {
namespace {

StridedLoops innermost_first(const std::vector<std::int64_t>& size, const std::vector<std::int64_t>& src,
                             const std::vector<std::int64_t>& dst) {
  return {.size = {size.rbegin(), size.rend()},
          .src_stride = {src.rbegin(), src.rend()},
          .dst_stride = {dst.rbegin(), dst.rend()}};
}

std::vector<std::int64_t> dense_strides(const std::vector<std::int64_t>& size) {
  return HostShape::contiguous(DataType::Int8, size).stride;
}

}  // namespace

std::optional<std::vector<Step>> strided_steps(const FlexAllocator& allocator, std::span<const StridedLoops> nests,
                                               const StridedPlace& source, const StridedPlace& destination,
                                               std::size_t element_bytes) {
  std::vector<Step> steps;
  try {
    for (const StridedLoops& nest : nests) {
      const auto parts = split_at_chunks(allocator,
                                         {.source = source,
                                          .destination = destination,
                                          .element_bytes = static_cast<std::uint32_t>(element_bytes),
                                          .loops = nest},
                                         kMostBlocks - steps.size());
      if (!parts) return std::nullopt;
      steps.insert(steps.end(), parts->begin(), parts->end());
    }
  } catch (const InvalidArgument&) {
    return std::nullopt;
  }
  return steps;
}

std::shared_ptr<const DenseElements> DenseElements::of(Runtime& runtime, const SpyreTensor& tensor,
                                                       const DeviceView& view, TransferDirection direction) {
  const std::size_t item = item_bytes(tensor.layout().device_dtype);
  auto pinned = runtime.host_memory().try_allocate(static_cast<std::size_t>(element_count(view)) * item);
  if (!pinned) return nullptr;
  const auto nests = describe_transfer(tensor.layout(), view, dense_strides(view.size), direction);
  const PinnedPlace host{pinned->data(), pinned->size()};
  const CardPlace card{tensor.allocation_index()};
  const bool to_device = direction == TransferDirection::ToDevice;
  auto steps = to_device ? strided_steps(runtime.allocator(), nests, host, card, item)
                         : strided_steps(runtime.allocator(), nests, card, host, item);
  if (!steps) return nullptr;
  const auto dense = std::make_shared<DenseElements>();
  dense->memory_ = std::move(*pinned);
  dense->steps_ = *std::move(steps);
  return dense;
}

StridedLoops DenseElements::loops_to(const std::vector<std::int64_t>& size,
                                     const std::vector<std::int64_t>& host_stride) {
  return innermost_first(size, host_stride, dense_strides(size));
}
StridedLoops DenseElements::loops_from(const std::vector<std::int64_t>& size,
                                       const std::vector<std::int64_t>& host_stride) {
  return innermost_first(size, dense_strides(size), host_stride);
}

}  // namespace svp
