// SPDX-License-Identifier: Apache-2.0
// Views of a tensor, with PyTorch's rules of size, stride and storage offset: pure arithmetic, no memory is touched. A
// view is a DeviceView (strided_loops.hpp): it names elements by the host index of the tensor that it is a view of.
//
// Dimensions and positions may be negative: −1 is the last one. No result has an entry of 2^62 or more. All throw
// InvalidArgument, whose field is the argument's name; reshaped() also CopyNeeded.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "host_driver/tensor/strided_loops.hpp"

namespace svp {

using spyre::CopyNeeded;

// As in PyTorch.
inline constexpr std::size_t kMostDimensions = 64;

// Throw InvalidArgument naming `field`: more than kMostDimensions, a negative entry, 2^62 elements or more.
void require_shape(const char* field, const std::vector<std::int64_t>& size);
std::int64_t element_count(const DeviceView& view);
bool is_contiguous(const DeviceView& view);                    // row-major, whatever the offset
std::string to_string(const std::vector<std::int64_t>& dims);  // "[3, 80]"

// Of one entry −1 the value follows from the others. CopyNeeded: dimensions would be joined whose elements are not
// evenly spaced.
DeviceView reshaped(const DeviceView& view, const std::vector<std::int64_t>& shape);
DeviceView permuted(const DeviceView& view, const std::vector<std::int64_t>& dims);
DeviceView transposed(const DeviceView& view, std::int64_t dim0, std::int64_t dim1);
// Elements start, start + step, … below end. start and end are cut to 0 … size, as in Python.
DeviceView sliced(const DeviceView& view, std::int64_t dim, std::optional<std::int64_t> start,
                  std::optional<std::int64_t> end, std::int64_t step);
// Exactly `length` elements from `start`: nothing is cut.
DeviceView narrowed(const DeviceView& view, std::int64_t dim, std::int64_t start, std::int64_t length);
DeviceView selected(const DeviceView& view, std::int64_t dim, std::int64_t index);
// Without dimensions of size 1: all of them, or this one if it is.
DeviceView squeezed(const DeviceView& view, std::optional<std::int64_t> dim = std::nullopt);
DeviceView unsqueezed(const DeviceView& view, std::int64_t dim);
// −1 keeps a size. A dimension of size 1, or a new one in front, repeats its elements with stride 0.
DeviceView expanded(const DeviceView& view, const std::vector<std::int64_t>& size);
// Any size and stride inside of `base`, the tensor as it was allocated; `offset` is in it, not in a view of it.
DeviceView strided(const HostShape& base, std::vector<std::int64_t> size, std::vector<std::int64_t> stride,
                   std::int64_t offset);

}  // namespace svp
