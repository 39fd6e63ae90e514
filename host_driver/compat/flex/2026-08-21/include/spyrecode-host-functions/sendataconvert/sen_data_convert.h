// SPDX-License-Identifier: Apache-2.0
// What a copy between host and card moves, as nests of loops, and single constants in the card's formats.
#pragma once

#include <util/sendefs/sendefs.h>
#include <cstdint>
#include <cstring>
#include <iosfwd>
#include <string>
#include <vector>

#pragma GCC visibility push(default)

// One nest, innermost loop first; the three lists are of one length. In elements of each side's format:
// destination[offset_dst_ + Σ i·stride_dst_] = convert(source[offset_src_ + Σ i·stride_src_]).
struct data_conversion_stride_info {
  std::vector<int64_t> size_;
  std::vector<int64_t> stride_src_;
  std::vector<int64_t> stride_dst_;
  int64_t offset_src_ = 0;
  int64_t offset_dst_ = 0;
};

// The nests are executed one after the other. Offsets count from the host pointer and from the device address that the
// transfer is given. The shapes and the name are for people.
struct data_conversion_info {
  std::string dci_dsName_;
  bool isHostToSen_ = true;
  DataFormats dataformat_src_ = DataFormats::INVALID;
  DataFormats dataformat_dst_ = DataFormats::INVALID;
  std::vector<data_conversion_stride_info> dcsi_;
  std::vector<int64_t> input_shape_;
  std::vector<int64_t> output_shape_;

  // One JSON object on one line, with the members' names.
  void exportJson(std::ostream& out) const;
};

namespace deeptools {

// The bits of a float.
template <class T>
T BinaryConvert(float value) {
  static_assert(sizeof(T) == sizeof(float), "a float has four bytes");
  T bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

// The code of SEN169_FP16 (1 sign bit, 6 exponent bits, 9 fraction bits): nearest, ties away from zero.
uint16_t FloatToFp16Bin(float value);

}  // namespace deeptools

#pragma GCC visibility pop
