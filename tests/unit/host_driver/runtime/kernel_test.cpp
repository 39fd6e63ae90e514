// SPDX-License-Identifier: Apache-2.0
#include "host_driver/runtime/kernel.hpp"

#include <gtest/gtest.h>

#include "host_driver/runtime/job.hpp"
#include "tests/unit/host_driver/runtime/test_kernel.hpp"

namespace svp {
namespace {

using test::make_image;
using test::matmul_kernel;
using test::matmul_metadata;

std::string field_of(auto&& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.field();
  }
  return "accepted";
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return text.replace(at, from.size(), to);
}

TEST(Kernel, MetadataTellsOperandsDimensionsAndSymbolsInOrder) {
  const auto kernel = matmul_kernel();
  const KernelMetadata& m = kernel->metadata();
  EXPECT_EQ(m.dimensions, (std::vector<std::string>{"M", "K", "N"}));
  ASSERT_EQ(m.operands.size(), 3u);
  EXPECT_FALSE(m.operands[0].writes());
  EXPECT_TRUE(m.operands[2].writes());
  ASSERT_EQ(m.symbols.size(), 9u);
  EXPECT_EQ(m.symbols[4].kind, wire::SymbolKind::Stride);
  EXPECT_EQ(m.symbols[4].axis, 1u);
  EXPECT_EQ(kernel->max_correction_bytes(), 512u);
}

TEST(Kernel, EveryWrongMetadataFieldIsNamed) {
  const auto image = make_image();
  const std::string good = matmul_metadata(image);
  const auto field = [&](const std::string& json) { return field_of([&] { (void)Kernel::from_memory(image, json); }); };
  EXPECT_EQ(field(good), "accepted");
  EXPECT_EQ(field("{"), "metadata.file");
  EXPECT_EQ(field("[]"), "metadata.file");
  EXPECT_EQ(field(replaced(good, "\"format\": 1", "\"format\": 2")), "metadata.format");
  EXPECT_EQ(field(replaced(good, "\"format\": 1", "\"format\": -1")), "metadata.format");
  EXPECT_EQ(field(replaced(good, "\"operands\"", "\"arguments\"")), "metadata.operands");
  EXPECT_EQ(field(replaced(good, "\"access\": \"write\"", "\"access\": \"wipe\"")), "metadata.operands[2].access");
  EXPECT_EQ(field(replaced(good, "\"dtype\": \"dl16\"", "\"dtype\": \"dl17\"")), "metadata.operands[0].dtype");
  EXPECT_EQ(field(replaced(good, "{\"kind\": \"address\", \"operand\": 2}", "{\"kind\": \"address\", \"operand\": 3}")),
            "metadata.symbols[2].operand");
  EXPECT_EQ(field(replaced(good, "\"operand\": 0, \"dimension\": \"K\"", "\"operand\": 0, \"dimension\": \"N\"")),
            "metadata.symbols[3].dimension");
}

TEST(Kernel, AnOperandHasAnyFormatAndMayBeAScalar) {
  const auto image = make_image();
  const std::string good = matmul_metadata(image);
  const std::pair<const char*, DeviceType> formats[] = {
      {"dl16", DeviceType::Dl16},       {"fp32", DeviceType::Fp32},      {"int32", DeviceType::Int32},
      {"int16", DeviceType::Int16},     {"int8", DeviceType::Int8},      {"uint32", DeviceType::Uint32},
      {"fp8e4m3", DeviceType::Fp8E4m3}, {"fp8e5m2", DeviceType::Fp8E5m2}};
  for (const auto& [text, format] : formats) {
    const auto kernel =
        Kernel::from_memory(image, replaced(good, "\"dtype\": \"dl16\"", std::string("\"dtype\": \"") + text + '"'));
    EXPECT_EQ(kernel->metadata().operands[0].dtype, format) << text;
  }
  std::string scalar = replaced(good, "\"shape\": [\"M\", \"K\"]", "\"shape\": []");
  scalar = replaced(scalar, "{\"kind\": \"stride\", \"operand\": 0, \"dimension\": \"K\"}, ", "");
  scalar = replaced(scalar, "{\"kind\": \"dimension\", \"operand\": 0, \"dimension\": \"M\"}",
                    "{\"kind\": \"dimension\", \"operand\": 2, \"dimension\": \"M\"}");
  scalar = replaced(scalar, "{\"kind\": \"dimension\", \"operand\": 0, \"dimension\": \"K\"}",
                    "{\"kind\": \"dimension\", \"operand\": 1, \"dimension\": \"K\"}");
  const CompiledKernel compiled(Kernel::from_memory(image, scalar), {{"M", 2}, {"K", 3}, {"N", 4}});
  EXPECT_EQ(compiled.operand_shapes()[0].rank(), 0u);
  EXPECT_NO_THROW(Job{compiled});
  EXPECT_EQ(StickGeometry::of(compiled.operand_shapes()[0], 64).bytes, wire::kStickBytes);
}

TEST(Kernel, AKernelHasAtMostSoManyOperands) {
  const auto image = make_image(1024, wire::kMaxCorrectionBytes);
  EXPECT_EQ(test::kernel_of_many(kMaxOperands)->metadata().operands.size(), kMaxOperands);
  EXPECT_EQ(field_of([&] { (void)Kernel::from_memory(image, test::metadata_of_many(image, kMaxOperands + 1)); }),
            "metadata.operands");
}

TEST(Kernel, EveryWrongImageFieldIsNamed) {
  const auto good = make_image();
  const std::string metadata = matmul_metadata(good);
  const auto field = [&](std::size_t at, std::uint8_t value) {
    auto image = good;
    image[at] = std::byte{value};
    return field_of([&] { (void)Kernel::from_memory(image, metadata); });
  };
  EXPECT_EQ(field(offsetof(wire::ImageHeader, magic), 0), "image.magic");
  EXPECT_EQ(field(offsetof(wire::ImageHeader, abi_version), 9), "image.abi_version");
  EXPECT_EQ(field(offsetof(wire::ImageHeader, image_bytes), 1), "image.image_bytes");
  EXPECT_EQ(field(offsetof(wire::ImageHeader, text_offset) + 7, 0xFF), "image.text");
  EXPECT_EQ(field(offsetof(wire::ImageHeader, pool_offset) + 7, 0xFF), "image.pool");
  EXPECT_EQ(field(offsetof(wire::ImageHeader, compute_entry) + 4, 1), "image.entry");
  EXPECT_EQ(field(good.size() - 1, 1), "image.crc32c");
  EXPECT_EQ(field_of([&] { (void)Kernel::from_memory({}, metadata); }), "image.size");
  const auto other = make_image(2048);
  EXPECT_EQ(field_of([&] { (void)Kernel::from_memory(other, metadata); }), "image.crc32c");
}

TEST(Kernel, APcIsNamedByFunctionAndOffset) {
  const auto kernel = matmul_kernel();
  EXPECT_EQ(kernel->symbolise(0), "apply+0x0");
  EXPECT_EQ(kernel->symbolise(64 + 12), "kernel::compute+0xc");
  EXPECT_EQ(kernel->symbolise(~std::uint64_t{0}), "outside of the image's text");
}

TEST(Kernel, SpecialisingNeedsEveryDimensionAndNoOther) {
  const auto kernel = matmul_kernel();
  const CompiledKernel compiled(kernel, {{"M", 256}, {"K", 128}, {"N", 64}});
  EXPECT_EQ(compiled.operand_shapes()[0], (Shape{256, 128}));
  EXPECT_EQ(compiled.operand_shapes()[2], (Shape{256, 64}));
  EXPECT_EQ(field_of([&] { CompiledKernel(kernel, {{"M", 1}, {"K", 1}}); }), "extents.N");
  EXPECT_EQ(field_of([&] { CompiledKernel(kernel, {{"M", 0}, {"K", 1}, {"N", 1}}); }), "extents.M");
  EXPECT_EQ(field_of([&] { CompiledKernel(kernel, {{"M", 1}, {"K", 1}, {"N", 1}, {"Q", 1}}); }), "extents.Q");
}

TEST(StickGeometry, StridesAreThoseOfTheDefaultLayout) {
  const auto two = StickGeometry::of({4096, 1024}, 64);
  EXPECT_EQ(two.stride[0], 128u);
  EXPECT_EQ(two.stride[1], 4096u * 128);
  EXPECT_EQ(two.bytes, 4096u * 1024 * 2);
  // [512, 8, 256] lies as [8][4][512][64].
  const auto three = StickGeometry::of({512, 8, 256}, 64);
  EXPECT_EQ(three.stride[0], 128u);
  EXPECT_EQ(three.stride[2], 512u * 128);
  EXPECT_EQ(three.stride[1], 4u * 512 * 128);
  EXPECT_EQ(StickGeometry::of({100}, 64).bytes, 256u);
  EXPECT_EQ(StickGeometry::of({}, 64).bytes, 128u);
  EXPECT_EQ(StickGeometry::of({std::int64_t{1} << 62, std::int64_t{1} << 62}, 64).bytes, ~std::uint64_t{0});
}

}  // namespace
}  // namespace svp
