// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/strided_copy.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "host_driver/tensor/stickify.hpp"

namespace svp {
namespace {

using enum ElementFormat;
using enum TransferDirection;
using Dims = std::vector<std::int64_t>;
using Bytes = std::vector<std::byte>;

constexpr std::byte kGarbage{0xA5};

Bytes random_bytes(std::size_t count, std::mt19937& random) {
  Bytes bytes(count);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

// Element by element, in the words of the header.
void naive(const std::vector<StridedLoops>& nests, ElementFormat from, const Bytes& src, ElementFormat to, Bytes& dst) {
  for (const StridedLoops& nest : nests) {
    if (nest.element_count() == 0) continue;
    Dims index(nest.size.size(), 0);
    for (std::size_t d = 0; d < index.size();) {
      std::int64_t at = nest.src_offset;
      std::int64_t into = nest.dst_offset;
      for (std::size_t k = 0; k < index.size(); ++k) {
        at += index[k] * nest.src_stride[k];
        into += index[k] * nest.dst_stride[k];
      }
      conversion(from, to)({src.data(), at, 1, dst.data(), into, 1, 1});
      for (d = 0; d < index.size() && ++index[d] == nest.size[d]; ++d) index[d] = 0;
    }
  }
}

void expect_as_naive(const std::vector<StridedLoops>& nests, ElementFormat from, const Bytes& src, ElementFormat to,
                     std::size_t dst_bytes) {
  Bytes ours(dst_bytes, kGarbage);
  Bytes expected(dst_bytes, kGarbage);
  copy_strided(nests, from, src, to, ours);
  naive(nests, from, src, to, expected);
  EXPECT_EQ(ours, expected) << name(from) << " to " << name(to);
}

// The fast path and the general executor agree bit for bit; padding is only stickify's.
TEST(StridedCopy, AWholeTensorIsAsStickifyMakesIt) {
  std::mt19937 random(1);
  for (const auto& [type, device] : {std::pair{DataType::Float16, DeviceType::Dl16},
                                     {DataType::BFloat16, DeviceType::Dl16},
                                     {DataType::Float32, DeviceType::Dl16},
                                     {DataType::Float32, DeviceType::Fp32},
                                     {DataType::Int64, DeviceType::Int32},
                                     {DataType::Uint8, DeviceType::Uint32},
                                     {DataType::Bool, DeviceType::Dl16},
                                     {DataType::Int8, DeviceType::Int8}}) {
    for (const Dims& size : {Dims{}, Dims{120}, Dims{5, 100, 150}, Dims{3, 64}, Dims{7, 1, 33}}) {
      const HostShape shape = HostShape::contiguous(type, size);
      const auto layout = SpyreTensorLayout::of(shape, std::nullopt, device);
      const Bytes host = random_bytes(shape.bytes_spanned(), random);
      Bytes fast(layout.device_bytes());
      Bytes general(layout.device_bytes());
      stickify(shape, host, layout, fast);
      const auto whole = DeviceView::whole(shape);
      copy_strided(describe_transfer(layout, whole, shape.stride, ToDevice), format_of(type).value(), host,
                   format_of(device), general);
      EXPECT_EQ(fast, general);
      Bytes back(host.size());
      Bytes expected(host.size());
      copy_strided(describe_transfer(layout, whole, shape.stride, FromDevice), format_of(device), general,
                   format_of(type).value(), back);
      unstickify(layout, fast, shape, expected);
      EXPECT_EQ(back, expected);
    }
  }
}

// Reads below `elements`, in any steps; every element has a destination of its own, with gaps between them, and the
// loops are in no order. The destination's end is told.
StridedLoops random_nest(std::mt19937& random, std::int64_t elements, std::int64_t& end) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound));
  };
  StridedLoops nest;
  std::int64_t src_last = nest.src_offset = below(50);
  nest.dst_offset = below(50);
  std::int64_t dst_stride = 1;
  for (std::int64_t depth = 1 + below(5); depth > 0; --depth) {
    const std::int64_t size = 1 + below(7);
    const std::int64_t src = below(12);
    if (src_last + (size - 1) * src >= elements) continue;
    src_last += (size - 1) * src;
    const auto at = below(static_cast<std::int64_t>(nest.size.size()) + 1);
    nest.size.insert(nest.size.begin() + at, size);
    nest.src_stride.insert(nest.src_stride.begin() + at, src);
    nest.dst_stride.insert(nest.dst_stride.begin() + at, dst_stride);
    dst_stride = dst_stride * size + below(3);
  }
  end = nest.dst_offset + dst_stride;
  return nest;
}

TEST(StridedCopy, NestsOfAnyPairMoveWhatTheySay) {
  constexpr std::int64_t kElements = 400;
  constexpr ElementFormat kFormats[] = {Dl16,  Fp32,   Fp8E4m3, Fp8E5m2, Int4, Int8, Int16, Int64,
                                        Int32, Uint32, Uint2,   Fp16,    Bool, Bf16, Uint8};
  std::mt19937 random(2);
  for (int i = 0; i < 40 && !HasFailure(); ++i) {
    for (const auto from : kFormats) {
      for (const auto to : kFormats) {
        if (conversion(from, to) == nullptr) continue;
        std::vector<StridedLoops> nests;  // one may write again what another one wrote: the last one counts
        std::int64_t end = 0;
        for (int n = 0; n < 3; ++n) {
          std::int64_t end_of_nest = 0;
          nests.push_back(random_nest(random, kElements, end_of_nest));
          end = std::max(end, end_of_nest);
        }
        expect_as_naive(nests, from, random_bytes(static_cast<std::size_t>(kElements * bits_of(from) + 7) / 8, random),
                        to, static_cast<std::size_t>(end * bits_of(to) + 7) / 8 + 16);
      }
    }
  }
}

// Sticks that follow each other on the device, in columns of any number: what the kernels walk by themselves. The loops
// are in any order, and the host's steps are any.
StridedLoops nest_of_sticks(std::mt19937& random, std::int64_t eps, bool to_device, std::int64_t& host_end,
                            std::int64_t& device_end) {
  const auto below = [&](std::int64_t bound) {
    return static_cast<std::int64_t>(random() % static_cast<unsigned>(bound));
  };
  struct Loop {
    std::int64_t size, host, device;
  };
  const std::int64_t rows = 1 + below(6);
  const std::int64_t columns = 1 + below(40);
  const std::int64_t outer = 1 + below(3);
  // A row is as long as all its columns; the gaps differ.
  const std::int64_t column_step = eps + below(5);
  const std::int64_t row_step = columns * column_step + below(9);
  const std::int64_t device_column = rows * eps + below(2) * eps;
  std::vector<Loop> loops{{eps, 1, 1},
                          {rows, row_step, eps},
                          {columns, column_step, device_column},
                          {outer, rows * row_step, columns * device_column}};
  std::ranges::shuffle(loops, random);
  StridedLoops nest;
  (to_device ? nest.src_offset : nest.dst_offset) = below(100);
  (to_device ? nest.dst_offset : nest.src_offset) = below(100);
  host_end = 100 + outer * rows * row_step;
  device_end = 100 + outer * columns * device_column;
  for (const Loop& loop : loops) {
    nest.size.push_back(loop.size);
    nest.src_stride.push_back(to_device ? loop.host : loop.device);
    nest.dst_stride.push_back(to_device ? loop.device : loop.host);
  }
  return nest;
}

TEST(StridedCopy, SticksInRowsAndColumnsMoveWhatTheySay) {
  using Pair = std::pair<ElementFormat, ElementFormat>;
  static constexpr std::array kPairs{Pair{Fp16, Dl16},    Pair{Bf16, Dl16},   Pair{Fp32, Dl16}, Pair{Fp32, Fp32},
                                     Pair{Int16, Int16},  Pair{Int32, Int32}, Pair{Int8, Int8}, Pair{Int64, Int32},
                                     Pair{Uint8, Uint32}, Pair{Bool, Dl16},   Pair{Int16, Dl16}};
  std::mt19937 random(7);
  for (int i = 0; i < 600; ++i) {
    const auto [host, device] = kPairs[random() % kPairs.size()];
    const bool to_device = random() % 2 == 0;
    std::int64_t host_end = 0;
    std::int64_t device_end = 0;
    const StridedLoops nest = nest_of_sticks(random, 1024 / bits_of(device), to_device, host_end, device_end);
    const std::size_t host_bytes = static_cast<std::size_t>(host_end) * bits_of(host) / 8;
    const std::size_t device_bytes = static_cast<std::size_t>(device_end) * bits_of(device) / 8;
    const Bytes src = random_bytes(to_device ? host_bytes : device_bytes, random);
    if (to_device) {
      expect_as_naive({nest}, host, src, device, device_bytes);
    } else {
      expect_as_naive({nest}, device, src, host, host_bytes);
    }
  }
}

TEST(StridedCopy, StepsMayGoBackwards) {
  std::mt19937 random(3);
  expect_as_naive({{{4, 3}, {-1, 8}, {2, 10}, 3, 1}}, Fp16, random_bytes(64, random), Dl16, 64);
  expect_as_naive({{{6}, {1}, {-1}, 0, 5}}, Int32, random_bytes(24, random), Int32, 24);
}

TEST(StridedCopy, NestsThatMoveNothingMoveNothing) {
  Bytes dst(2, kGarbage);
  copy_strided({}, Fp16, {}, Dl16, dst);
  const StridedLoops nothing{{5, 0}, {1, 1}, {1, 1}, 1'000'000, -7};
  copy_strided({&nothing, 1}, Fp16, {}, Dl16, dst);
  EXPECT_EQ(dst, Bytes(2, kGarbage));
}

// ---- what is refused ------------------------------------------------------------------------------------------------

void expect_refused(const StridedLoops& nest, const std::string& field, ElementFormat from = Fp16,
                    ElementFormat to = Dl16) {
  const Bytes src(200);
  Bytes dst(200, kGarbage);
  const StridedLoops good{{1}, {1}, {1}, 0, 0};
  const std::vector<StridedLoops> nests{good, nest};
  try {
    copy_strided(nests, from, src, to, dst);
    ADD_FAILURE() << field << " was not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), field) << error.what();
    if (field == "format")
      EXPECT_THAT(error.info().next_step, testing::StartsWith("let the card convert: ops::copy()"));
  }
  EXPECT_EQ(dst, Bytes(200, kGarbage)) << "something moved before";
}

TEST(StridedCopy, RefusesBeforeTheFirstElementMoves) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  expect_refused({{1}, {1}, {1}, 0, 0}, "format", Fp16, Int64);
  expect_refused({{2}, {}, {1}, 0, 0}, "loops");
  expect_refused({{2, 2}, {1, 1}, {1}, 0, 0}, "loops");
  expect_refused({{-1}, {1}, {1}, 0, 0}, "loops");
  expect_refused({{101}, {1}, {1}, 0, 0}, "src");
  expect_refused({{100}, {1}, {1}, 1, 0}, "src");
  expect_refused({{100}, {1}, {1}, 0, 1}, "dst");
  expect_refused({{2}, {-1}, {1}, 0, 0}, "src");
  expect_refused({{2}, {1}, {-1}, 0, 0}, "dst");
  expect_refused({{kMax}, {kMax}, {0}, kMax, 0}, "src");
  expect_refused({{kMax, kMax, kMax, kMax}, {kMax, kMin, kMax, kMin}, {0, 0, 0, 0}, 0, 0}, "src");
  expect_refused({{kMax, kMax, kMax, kMax}, {0, 0, 0, 0}, {kMin, kMin, kMin, kMin}, 0, 0}, "dst");
}

}  // namespace
}  // namespace svp
