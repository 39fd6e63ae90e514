// SPDX-License-Identifier: Apache-2.0
// Strided transfers of memory of several chunks: the elements of a control block lie in one region at each end, so that
// a nest which reaches over several is cut into nests which do not.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "host_driver/runtime/strided_transfer.hpp"

namespace svp {

// The same elements by transfers whose ends lie in one chunk each: loops are cut, outer ones first, where a chunk ends.
// Nothing: it takes more than `most`. Throws InvalidArgument as StridedDMA. Memory that is not there, or too small, is
// not looked at: the launch refuses it.
std::optional<std::vector<StridedDMA>> split_at_chunks(const FlexAllocator& allocator, const StridedTransfer& transfer,
                                                       std::size_t most);

}  // namespace svp
