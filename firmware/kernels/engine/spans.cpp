// SPDX-License-Identifier: Apache-2.0
#include "firmware/kernels/engine/spans.hpp"

namespace kernel::engine {

Spans::Spans(const Operation& operation, unsigned d) {
  std::uint64_t at = 0;
  // Each round takes the mask that begins first of those that reach beyond what is done.
  while (at < operation.extent[d]) {
    Span next{operation.extent[d], operation.extent[d]};
    for (unsigned i = 0; i < operation.mask_count; ++i) {
      const program::Mask& mask = operation.mask[i];
      const std::uint64_t end = std::uint64_t{mask.start} + mask.count;
      if (mask.dimension != d || end <= at || mask.start >= next.first) continue;
      next = {std::max<std::uint64_t>(mask.start, at), std::min<std::uint64_t>(end, operation.extent[d])};
    }
    if (next.first > at) span_[count_++] = {at, next.first};
    at = next.end;
  }
}

}  // namespace kernel::engine
