// SPDX-License-Identifier: Apache-2.0
#include "host_driver/tensor/tensor_layout.hpp"

#include <gtest/gtest.h>

#include <functional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace svp {
namespace {

using Dims = std::vector<std::int64_t>;

struct Example {
  Dims size;
  std::optional<Dims> order;
  Dims device_size;
  Dims stride_map;
};

// Published examples of the tensor layout (fp16, contiguous host tensors).
const Example kExamples[] = {
    {{}, std::nullopt, {1, 64}, {-1, -1}},
    {{128}, std::nullopt, {2, 64}, {64, 1}},
    {{512, 256}, std::nullopt, {4, 512, 64}, {64, 256, 1}},
    {{512, 8, 256}, std::nullopt, {8, 4, 512, 64}, {256, 64, 2048, 1}},
    {{512, 256}, Dims{1, 0}, {8, 256, 64}, {16384, 1, 256}},
    {{512, 256}, Dims{0, 1, -1}, {256, 1, 512, 64}, {1, -1, 256, -1}},
    {{5, 100, 150}, std::nullopt, {100, 3, 5, 64}, {150, 64, 15000, 1}},
};

TEST(SpyreTensorLayout, EqualsThePublishedExamples) {
  for (const Example& example : kExamples) {
    const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, example.size), example.order);
    EXPECT_EQ(layout.device_size, example.device_size);
    EXPECT_EQ(layout.stride_map, example.stride_map);
    EXPECT_EQ(layout.device_dtype, DeviceType::Dl16);
  }
}

TEST(SpyreTensorLayout, EveryHostDimensionIsMappedAndTheStickDimensionTwice) {
  const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {5, 100, 150}));
  EXPECT_EQ(layout.dim_map, (Dims{1, 2, 0, 2}));
  const auto sparse = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {512, 256}), Dims{0, 1, -1});
  EXPECT_EQ(sparse.dim_map, (Dims{1, -1, 0, -1}));
}

TEST(SpyreTensorLayout, DimensionsOfSizeOneAreSynthetic) {
  const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {1, 3, 1}));
  EXPECT_EQ(layout.device_size, (Dims{3, 1, 1, 64}));
  EXPECT_EQ(layout.stride_map, (Dims{1, -1, -1, -1}));
}

TEST(SpyreTensorLayout, AShortStickDimensionKeepsItsOuterStepInsideTheTensor) {
  const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {4, 48}));
  EXPECT_EQ(layout.device_size, (Dims{1, 4, 64}));
  EXPECT_EQ(layout.stride_map, (Dims{48, 48, 1}));
}

TEST(SpyreTensorLayout, ExpandedDimensionsStepByZero) {
  const HostShape expanded{.dtype = DataType::Float16, .size = {16, 128}, .stride = {0, 1}};
  EXPECT_EQ(SpyreTensorLayout::of(expanded).stride_map, (Dims{64, 0, 1}));
  const HostShape stick_expanded{.dtype = DataType::Float16, .size = {16, 128}, .stride = {1, 0}};
  EXPECT_EQ(SpyreTensorLayout::of(stick_expanded).stride_map, (Dims{0, 1, 0}));
}

// ---- explicit layouts -----------------------------------------------------------------------------------------------

HostShape fp16(Dims size) { return HostShape::contiguous(DataType::Float16, std::move(size)); }

TEST(SpyreTensorLayout, APublishedLayoutIsTheSameByItsMap) {
  for (const Example& example : kExamples) {
    const HostShape shape = fp16(example.size);
    const auto layout = SpyreTensorLayout::with_map(shape, example.device_size, example.stride_map);
    EXPECT_EQ(layout.device_size, example.device_size);
    EXPECT_EQ(layout.stride_map, example.stride_map);
    if (example.size.size() > 1) EXPECT_EQ(layout.dim_map, SpyreTensorLayout::of(shape, example.order).dim_map);
  }
}

TEST(SpyreTensorLayout, TwoStickDimensionsAreBlocks) {
  const auto layout = SpyreTensorLayout::with_map(fp16({128, 128}), {2, 2, 64, 64}, {8192, 64, 128, 1});
  EXPECT_EQ(layout.dim_map, (Dims{0, 1, 0, 1}));
  EXPECT_EQ(layout.device_bytes(), 128u * 128 * 2);
}

void expect_refused(const HostShape& shape, Dims device_size, Dims stride_map, const std::string& field) {
  try {
    (void)SpyreTensorLayout::with_map(shape, std::move(device_size), std::move(stride_map));
    ADD_FAILURE() << field << " was not refused";
  } catch (const InvalidArgument& error) {
    EXPECT_EQ(error.field(), field) << error.what();
  }
}

TEST(SpyreTensorLayout, RefusesMapsThatAreNone) {
  expect_refused(fp16({64}), {}, {}, "device_size");
  expect_refused(fp16({64}), {1, 64}, {1}, "stride_map");
  expect_refused(fp16({64}), {1, 32}, {64, 1}, "device_size");
  expect_refused(fp16({64}), {-1, 64}, {64, 1}, "device_size");
  expect_refused(fp16({64}), {1, 64}, {-2, 1}, "stride_map");
  expect_refused(fp16({64}), {std::int64_t{1} << 60, 64}, {64, 1}, "device_size");
}

TEST(SpyreTensorLayout, RefusesMapsWithoutAPlaceForEachElement) {
  expect_refused(fp16({65}), {1, 64}, {64, 1}, "device_size");
  expect_refused(fp16({2, 64}), {1, 64}, {64, 1}, "device_size");
  expect_refused(fp16({64}), {1, 64}, {-1, 2}, "device_size");
  expect_refused(fp16({64}), {1, 64}, {-1, -1}, "device_size");
  expect_refused({.dtype = DataType::Float16, .size = {22}, .stride = {0}}, {0, 64}, {0, 0}, "device_size");
}

TEST(SpyreTensorLayout, TheElementWidthDecidesTheElementsPerStick) {
  const auto elements = [](DataType type) {
    return SpyreTensorLayout::of(HostShape::contiguous(type, {300})).elements_per_stick();
  };
  EXPECT_EQ(elements(DataType::Float16), 64);
  EXPECT_EQ(elements(DataType::BFloat16), 64);
  EXPECT_EQ(elements(DataType::Bool), 64);
  EXPECT_EQ(elements(DataType::Float32), 32);
  EXPECT_EQ(elements(DataType::Int64), 32);
  EXPECT_EQ(elements(DataType::Int32), 32);
  EXPECT_EQ(elements(DataType::Int16), 64);
  EXPECT_EQ(elements(DataType::Int8), 128);
  EXPECT_EQ(elements(DataType::Uint8), 32);
  EXPECT_EQ(elements(DataType::Float8E4m3fn), 128);
}

TEST(SpyreTensorLayout, AnExplicitDeviceTypeOverridesTheDefault) {
  const auto layout =
      SpyreTensorLayout::of(HostShape::contiguous(DataType::Float32, {2, 128}), std::nullopt, DeviceType::Dl16);
  EXPECT_EQ(layout.device_size, (Dims{2, 2, 64}));
}

TEST(SpyreTensorLayout, BytesAreWholeSticksAndStorageIsNeverBelowTheHostTensor) {
  const auto small = HostShape::contiguous(DataType::Float16, {3, 5});
  EXPECT_EQ(SpyreTensorLayout::of(small).device_bytes(), 3U * 128);
  EXPECT_EQ(SpyreTensorLayout::of(small).storage_bytes(small), 3U * 128);
  const auto wide = HostShape::contiguous(DataType::Int64, {2, 64});  // 64 bits shrink to 32 on the card
  EXPECT_EQ(SpyreTensorLayout::of(wide).device_bytes(), 512U);
  EXPECT_EQ(SpyreTensorLayout::of(wide).storage_bytes(wide), 1024U);
}

TEST(SpyreTensorLayout, AnEmptyTensorHasNoSticks) {
  const auto empty = HostShape::contiguous(DataType::Float16, {4, 0});
  EXPECT_EQ(SpyreTensorLayout::of(empty).device_bytes(), 0U);
  EXPECT_EQ(empty.bytes_spanned(), 0U);
}

std::string refused_field(auto&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    EXPECT_FALSE(error.info().next_step.empty());
    return error.field();
  }
  return "accepted";
}

TEST(SpyreTensorLayout, EveryRefusalNamesItsArgument) {
  const auto plain = HostShape::contiguous(DataType::Float16, {4, 8});
  for (const Dims& order : {Dims{0}, Dims{0, 1, 2}, Dims{0, 0}, Dims{-1, 0, 1}, Dims{0, 1, -1, -1}, Dims{}}) {
    EXPECT_EQ(refused_field([&] { SpyreTensorLayout::of(plain, order); }), "dim_order");
  }
  EXPECT_EQ(refused_field([] { SpyreTensorLayout::of({DataType::Float16, {4, 8}, {1}}); }), "stride");
  EXPECT_EQ(refused_field([] { SpyreTensorLayout::of({DataType::Float16, {4, 8}, {-8, 1}}); }), "stride");
  EXPECT_EQ(refused_field([] { SpyreTensorLayout::of({DataType::Float16, {4, -8}, {8, 1}}); }), "size");
  EXPECT_EQ(refused_field([] { SpyreTensorLayout::of(HostShape::contiguous(DataType::Float64, {4})); }), "dtype");
  const Dims huge(5, std::int64_t{1} << 20);
  EXPECT_EQ(refused_field([&] { HostShape::contiguous(DataType::Float16, huge); }), "size");
}

// ---- text -----------------------------------------------------------------------------------------------------------

TEST(SpyreTensorLayout, IsTheSameAfterJson) {
  for (const Dims& size : {Dims{}, Dims{1}, Dims{3, 80}, Dims{5, 100, 150}, Dims{0, 4}}) {
    for (const DeviceType type : {DeviceType::Dl16, DeviceType::Fp32}) {
      const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float32, size), std::nullopt, type);
      const auto again = SpyreTensorLayout::from_json(layout.to_json());
      EXPECT_EQ(again, layout);
      EXPECT_EQ(std::hash<SpyreTensorLayout>{}(again), std::hash<SpyreTensorLayout>{}(layout));
    }
  }
  const auto layout = SpyreTensorLayout::of(HostShape::contiguous(DataType::Float16, {3, 80}));
  EXPECT_EQ(layout.to_json(),
            R"({"device_size":[2,3,64],"stride_map":[64,80,1],"dim_map":[1,0,1],"device_dtype":"SEN169_FP16"})");
  std::ostringstream text;
  text << layout;
  EXPECT_EQ(text.str(), "SpyreTensorLayout(device_size=[2, 3, 64], stride_map=[64, 80, 1], device_dtype=SEN169_FP16)");
}

TEST(SpyreTensorLayout, JsonIsRefusedByTheMemberThatIsWrong) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"json", ""},
      {"json", "[]"},
      {"json", "{"},
      {"device_size", "{}"},
      {"device_size", R"({"device_size":[],"stride_map":[1],"dim_map":[0],"device_dtype":"SEN169_FP16"})"},
      {"device_size", R"({"device_size":[-2,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"device_size", R"({"device_size":[-1,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"device_size", R"({"device_size":[1.5,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"device_size", R"({"device_size":[1,32],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"device_size",
       R"({"device_size":[9223372036854775807,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"device_size",
       R"({"device_size":[4000000000000000000,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"stride_map", R"({"device_size":[1,64],"stride_map":[1],"dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"stride_map", R"({"device_size":[1,64],"stride_map":"1","dim_map":[0,0],"device_dtype":"SEN169_FP16"})"},
      {"dim_map", R"({"device_size":[1,64],"stride_map":[1,1],"dim_map":[0,64],"device_dtype":"SEN169_FP16"})"},
      {"device_dtype", R"({"device_size":[1,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"FP64"})"},
      {"device_dtype", R"({"device_size":[1,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":1})"},
      {"json", R"({"device_size":[1,64],"stride_map":[1,1],"dim_map":[0,0],"device_dtype":"SEN169_FP16","x":1})"},
  };
  for (const auto& [field, json] : kWrong) {
    try {
      (void)SpyreTensorLayout::from_json(json);
      ADD_FAILURE() << json;
    } catch (const InvalidArgument& error) {
      EXPECT_EQ(error.field(), field) << json;
    }
  }
  EXPECT_THROW((void)SpyreTensorLayout::from_json(std::string(std::size_t{1} << 20, '[')), InvalidArgument);
}

}  // namespace
}  // namespace svp
