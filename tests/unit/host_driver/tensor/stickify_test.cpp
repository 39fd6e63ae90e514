// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/stickify.hpp"

#include <gmock/gmock.h>
#include <rapidcheck/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "shared/dl16.hpp"
#include "tests/unit/host_driver/tensor/every_target.hpp"

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;
constexpr std::byte kGarbage{0xA5};

// For each element of the device, in memory order: the index of its host element, or -1 for padding. Follows the
// meaning of a layout (which host dimension a device dimension walks), not the code under test.
std::vector<std::int64_t> naive_map(const HostShape& shape, const SpyreTensorLayout& layout) {
  const std::int64_t count =
      std::accumulate(layout.device_size.begin(), layout.device_size.end(), std::int64_t{1}, std::multiplies<>());
  std::vector<std::int64_t> result;
  for (std::int64_t flat = 0; flat < count; ++flat) {
    Dims host_index(shape.size.size(), 0);
    bool padding = false;
    std::int64_t rest = flat;
    for (std::size_t j = layout.device_size.size(); j-- > 0;) {
      const std::int64_t index = rest % layout.device_size[j];
      rest /= layout.device_size[j];
      const std::int64_t dim = layout.dim_map[j];
      const bool is_lane = j + 1 == layout.device_size.size();
      if (dim < 0) {
        padding |= index != 0;
      } else {
        const bool cut = !is_lane && dim == layout.dim_map.back();
        host_index[static_cast<std::size_t>(dim)] += cut ? index * layout.device_size.back() : index;
      }
    }
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < host_index.size(); ++d) {
      padding |= host_index[d] >= shape.size[d];
      offset += host_index[d] * shape.stride[d];
    }
    result.push_back(padding ? -1 : offset);
  }
  return result;
}

std::uint32_t element(std::span<const std::byte> memory, std::size_t item, std::int64_t index) {
  std::uint32_t value = 0;
  std::memcpy(&value, memory.data() + static_cast<std::size_t>(index) * item, item);
  return value;
}

std::uint32_t reference_to_device(DataType from, DeviceType to, std::uint32_t value) {
  if (to != DeviceType::Dl16) return value;
  const auto half = static_cast<std::uint16_t>(value);
  return from == DataType::Float32   ? wire::dl16_from_fp32_bits(value)
         : from == DataType::Float16 ? wire::dl16_from_fp16(half)
                                     : wire::dl16_from_bf16(half);
}

struct Case {
  HostShape shape;
  SpyreTensorLayout layout;
  std::vector<std::byte> host;
};

void fill_random(std::vector<std::byte>& memory, std::uint32_t seed) {
  std::mt19937 random(seed);
  std::ranges::generate(memory, [&] { return static_cast<std::byte>(random()); });
}

Case make_case(HostShape shape, std::optional<Dims> order, std::optional<DeviceType> device, std::uint32_t seed) {
  Case result{shape, SpyreTensorLayout::of(shape, std::move(order), device), {}};
  result.host.resize(shape.bytes_spanned());
  fill_random(result.host, seed);
  return result;
}

// nullopt when right, else what is wrong.
std::optional<std::string> wrong_in_stickify(const Case& c) {
  std::vector<std::byte> device(c.layout.device_bytes() + 128, kGarbage);
  stickify(c.shape, c.host, c.layout, std::span(device).first(c.layout.device_bytes()));
  const auto map = naive_map(c.shape, c.layout);
  const std::size_t host_item = item_bytes(c.shape.dtype);
  const std::size_t item = item_bytes(c.layout.device_dtype);
  for (std::size_t i = 0; i < map.size(); ++i) {
    const std::uint32_t actual = element(device, item, static_cast<std::int64_t>(i));
    const std::uint32_t expected =
        map[i] < 0 ? 0U : reference_to_device(c.shape.dtype, c.layout.device_dtype, element(c.host, host_item, map[i]));
    if (actual != expected) return (map[i] < 0 ? "padding at " : "element at ") + std::to_string(i);
  }
  for (std::size_t i = c.layout.device_bytes(); i < device.size(); ++i) {
    if (device[i] != kGarbage) return "wrote behind the device buffer";
  }
  return std::nullopt;
}

std::optional<std::string> wrong_in_unstickify(const Case& c, std::uint32_t seed) {
  std::vector<std::byte> device(c.layout.device_bytes());
  fill_random(device, seed);
  std::vector<std::byte> host(c.host.size() + 128, kGarbage);
  unstickify(c.layout, device, c.shape, std::span(host).first(c.host.size()));
  const auto map = naive_map(c.shape, c.layout);
  const std::size_t host_item = item_bytes(c.shape.dtype);
  const std::size_t item = item_bytes(c.layout.device_dtype);
  std::set<std::int64_t> written;
  for (std::size_t i = 0; i < map.size(); ++i) {
    if (map[i] < 0) continue;
    const std::uint32_t source = element(device, item, static_cast<std::int64_t>(i));
    std::vector<std::byte> expected(4);
    convert_to_host(c.layout.device_dtype, c.shape.dtype, &source, expected.data(), 1);
    if (element(host, host_item, map[i]) != element(expected, host_item, 0)) return "element " + std::to_string(map[i]);
    written.insert(map[i]);
  }
  for (std::size_t i = 0; i < host.size() / host_item; ++i) {
    if (written.contains(static_cast<std::int64_t>(i))) continue;
    const std::uint32_t untouched = host_item == 1 ? 0xA5U : host_item == 2 ? 0xA5A5U : 0xA5A5A5A5U;
    if (element(host, host_item, static_cast<std::int64_t>(i)) != untouched) return "wrote between the elements";
  }
  return std::nullopt;
}

const std::pair<DataType, DeviceType> kPairs[] = {
    {DataType::Float16, DeviceType::Dl16}, {DataType::BFloat16, DeviceType::Dl16},
    {DataType::Float32, DeviceType::Dl16}, {DataType::Float32, DeviceType::Fp32},
    {DataType::Int16, DeviceType::Int16},  {DataType::Int8, DeviceType::Int8}};

RC_GTEST_PROP(Stickify, AgreesWithTheMeaningOfTheLayoutForAnyRankOrderAndFormat, (std::uint32_t seed)) {
  const auto [host_type, device_type] = kPairs[*rc::gen::inRange<std::size_t>(0, std::size(kPairs))];
  const auto rank = *rc::gen::inRange<std::size_t>(0, 6);
  HostShape shape{.dtype = host_type, .size = {}, .stride = {}};
  std::int64_t left = 20'000;
  for (std::size_t d = 0; d < rank; ++d) {
    const auto size = *rc::gen::element<std::int64_t>(1, 2, 3, 5, 31, 64, 65, 100, 130);
    shape.size.push_back(std::min(size, left));
    left = std::max<std::int64_t>(left / size, 1);
  }
  std::shuffle(shape.size.begin(), shape.size.end(), std::mt19937(seed));
  const std::int64_t gap =
      *rc::gen::inRange<std::int64_t>(0, 3);  // elements between the rows of the innermost dimension
  shape.stride = HostShape::contiguous(host_type, shape.size).stride;
  for (std::size_t d = 0; d + 1 < rank; ++d)
    shape.stride[d] = shape.stride[d] / shape.size.back() * (shape.size.back() + gap);
  std::optional<Dims> order;
  if (*rc::gen::arbitrary<bool>()) {
    order.emplace(rank);
    std::iota(order->begin(), order->end(), 0);
    if (*rc::gen::arbitrary<bool>()) std::shuffle(order->begin(), order->end(), std::mt19937(seed + 1));
    if (rank > 0 && *rc::gen::inRange(0, 3) == 0) order->push_back(SpyreTensorLayout::kSynthetic);
  }
  const Case c = make_case(shape, order, device_type, seed);
  RC_ASSERT(!wrong_in_stickify(c));
  RC_ASSERT(!wrong_in_unstickify(c, seed + 2));
}

TEST(Stickify, IsTheSameOnEveryInstructionSet) {
  testing::on_every_target([] {
    for (const auto& [host_type, device_type] : kPairs) {
      for (const Dims& size : {Dims{7, 200}, Dims{40, 3, 129}, Dims{1000}, Dims{}}) {
        const Case c = make_case(HostShape::contiguous(host_type, size), std::nullopt, device_type, 7);
        EXPECT_EQ(wrong_in_stickify(c), std::nullopt);
        EXPECT_EQ(wrong_in_unstickify(c, 8), std::nullopt);
      }
    }
  });
}

TEST(Stickify, MoreColumnsThanOneBatchAreAllMoved) {
  const Case c = make_case(HostShape::contiguous(DataType::Float16, {3, 64 * 100 + 7}), std::nullopt, std::nullopt, 1);
  EXPECT_EQ(wrong_in_stickify(c), std::nullopt);
  EXPECT_EQ(wrong_in_unstickify(c, 2), std::nullopt);
}

TEST(Stickify, ExpandedTensorsRepeatTheirElements) {
  for (const Dims& stride : {Dims{0, 1}, Dims{1, 0}, Dims{0, 0}}) {
    const HostShape shape{.dtype = DataType::Float16, .size = {40, 130}, .stride = stride};
    EXPECT_EQ(wrong_in_stickify(make_case(shape, std::nullopt, std::nullopt, 3)), std::nullopt);
  }
}

TEST(Stickify, TransposedTensorsAreGathered) {
  const HostShape shape{.dtype = DataType::Float16, .size = {70, 150}, .stride = {1, 70}};
  const Case c = make_case(shape, std::nullopt, std::nullopt, 4);
  EXPECT_EQ(wrong_in_stickify(c), std::nullopt);
  EXPECT_EQ(wrong_in_unstickify(c, 5), std::nullopt);
}

TEST(Stickify, AnEmptyTensorMovesNothing) {
  const auto shape = HostShape::contiguous(DataType::Float16, {4, 0});
  EXPECT_NO_THROW(stickify(shape, {}, SpyreTensorLayout::of(shape), {}));
}

TEST(Stickify, Fp16SubnormalsAndTheLargestNumberSurviveTheRoundTrip) {
  std::vector<std::uint16_t> values;
  for (std::uint32_t m = 0; m < 0x400; ++m) values.push_back(static_cast<std::uint16_t>(m | (m % 2) << 15));
  values.back() = wire::kFp16Max - 1;  // 65472: even fraction, exactly representable
  const auto shape = HostShape::contiguous(DataType::Float16, {16, 64});
  const auto layout = SpyreTensorLayout::of(shape);
  std::vector<std::byte> device(layout.device_bytes());
  std::vector<std::uint16_t> back(values.size());
  stickify(shape, std::as_bytes(std::span(values)), layout, device);
  unstickify(layout, device, shape, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, values);
}

// ---- through the loops ----------------------------------------------------------------------------------------------

template <typename Host, typename Device>
void expect_converted(DataType type, const std::vector<Host>& values, const std::vector<Device>& on_card,
                      const std::vector<Host>& back_again) {
  const auto shape = HostShape::contiguous(type, {static_cast<std::int64_t>(values.size())});
  const auto layout = SpyreTensorLayout::of(shape);
  std::vector<std::byte> device(layout.device_bytes(), kGarbage);
  stickify(shape, std::as_bytes(std::span(values)), layout, device);
  std::vector<Device> expected(layout.device_bytes() / sizeof(Device), Device{});  // padding is zero
  std::ranges::copy(on_card, expected.begin());
  EXPECT_TRUE(std::ranges::equal(std::as_bytes(std::span(expected)), device)) << name(type);
  std::vector<Host> back(values.size());
  unstickify(layout, device, shape, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, back_again) << name(type);
}

TEST(Stickify, EveryHostTypeHasAWayThereAndBack) {
  expect_converted<std::uint8_t, std::uint16_t>(DataType::Bool, {0, 1, 7}, {0, 0x3E00, 0x3E00}, {0, 1, 1});
  expect_converted<std::int64_t, std::int32_t>(DataType::Int64, {-1, 5, 0x1'0000'0002}, {-1, 5, INT32_MAX},
                                               {-1, 5, INT32_MAX});
  expect_converted<std::int32_t, std::int32_t>(DataType::Int32, {-1, 5}, {-1, 5}, {-1, 5});
  expect_converted<std::int16_t, std::int16_t>(DataType::Int16, {-1, 5}, {-1, 5}, {-1, 5});
  expect_converted<std::int8_t, std::int8_t>(DataType::Int8, {-1, 5}, {-1, 5}, {-1, 5});
  expect_converted<std::uint8_t, std::uint32_t>(DataType::Uint8, {0, 200}, {0, 200}, {0, 200});
  expect_converted<std::uint8_t, std::uint8_t>(DataType::Float8E4m3fn, {0x38, 0x7f}, {0x38, 0x7f}, {0x38, 0x7f});
  expect_converted<std::uint8_t, std::uint8_t>(DataType::Float8E5m2, {0x3c, 0x7c}, {0x3c, 0x7c}, {0x3c, 0x7c});
}

TEST(Stickify, BlocksOfTwoDimensionsAreFilledAndPadded) {
  const auto shape = HostShape::contiguous(DataType::Float16, {100, 90});
  // Blocks of 64 x 64. The second index of a host element goes through 90, which two blocks hold with padding.
  const auto layout = SpyreTensorLayout::with_map(shape, {2, 2, 64, 64}, {64 * 90, 64, 90, 1});
  std::vector<std::uint16_t> values(100 * 90);
  std::ranges::fill(values, 0x3C00);
  std::vector<std::uint16_t> device(layout.device_bytes() / 2, 0xA5A5);
  stickify(shape, std::as_bytes(std::span(values)), layout, std::as_writable_bytes(std::span(device)));
  for (std::size_t row = 0; row < 128; ++row) {
    for (std::size_t column = 0; column < 128; ++column) {
      const std::size_t at = ((row / 64 * 2 + column / 64) * 64 + row % 64) * 64 + column % 64;
      ASSERT_EQ(device[at], row < 100 && column < 90 ? 0x3E00 : 0) << row << ", " << column;
    }
  }
  std::vector<std::uint16_t> back(values.size());
  unstickify(layout, std::as_bytes(std::span(device)), shape, std::as_writable_bytes(std::span(back)));
  EXPECT_EQ(back, values);
}

std::string refused_field(auto&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.field();
  }
  return "accepted";
}

TEST(Stickify, EveryRefusalNamesItsArgumentAndWritesNothing) {
  const auto shape = HostShape::contiguous(DataType::Float16, {4, 100});
  const auto layout = SpyreTensorLayout::of(shape);
  const std::vector<std::byte> host(shape.bytes_spanned() + 8);
  std::vector<std::byte> device(layout.device_bytes() + 8, kGarbage);
  const auto refused = [&](const HostShape& s, const SpyreTensorLayout& l, std::span<const std::byte> h,
                           std::span<std::byte> d) { return refused_field([&] { stickify(s, h, l, d); }); };
  EXPECT_EQ(refused(shape, layout, std::span(host).first(shape.bytes_spanned() - 1), device), "host");
  EXPECT_EQ(refused(shape, layout, host, std::span(device).first(layout.device_bytes() - 1)), "device");
  EXPECT_EQ(refused(shape, layout, std::span(host).subspan(1), device), "host");
  EXPECT_EQ(refused(HostShape::contiguous(DataType::Float16, {4, 101}), layout, host, device), "layout");
  EXPECT_EQ(refused(HostShape::contiguous(DataType::Float16, {100, 4}), layout, host, device), "layout");
  EXPECT_EQ(refused(HostShape::contiguous(DataType::Float16, {400}), layout, host, device), "layout");
  EXPECT_EQ(refused(shape, SpyreTensorLayout{}, host, device), "layout");
  SpyreTensorLayout wild = layout;
  wild.stride_map[0] = 1 << 30;
  EXPECT_EQ(refused(shape, wild, host, device), "layout");
  wild = layout;
  wild.dim_map = {7, 8, 9};
  EXPECT_EQ(refused(shape, wild, host, device), "layout");
  HostShape other = shape;
  other.dtype = DataType::Float64;
  EXPECT_EQ(refused(other, layout, host, device), "dtype");
  EXPECT_TRUE(std::ranges::all_of(device, [](std::byte b) { return b == kGarbage; }));
}

TEST(Stickify, AConversionThatIsNoneIsLeftToTheCard) {
  const auto shape = HostShape::contiguous(DataType::Int32, {64});
  const SpyreTensorLayout layout = SpyreTensorLayout::of(shape, {}, DeviceType::Fp32);
  const std::vector<std::byte> host(shape.bytes_spanned());
  std::vector<std::byte> device(layout.device_bytes());
  try {
    stickify(shape, host, layout, device);
    FAIL() << "accepted";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.info().message, "there is no conversion from int32 to IEEE_FP32");
    EXPECT_THAT(error.info().next_step, ::testing::StartsWith("let the card convert: ops::copy() with Options::out"));
  }
}

}  // namespace
}  // namespace svp
